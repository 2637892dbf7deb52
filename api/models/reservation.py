"""The scheduler's own record of decisions that are not completely bound yet."""

from pydantic import BaseModel, Field


class ReservationSpec(BaseModel):
    """The decisions of one tick of the scheduler.

    Each is one string: as objects, thousands of pods cost the API server more than their bindings.
    """

    roots: int = Field(
        0,
        description="On how many roots was decided.",
        json_schema_extra={"format": "int64"},
    )
    intents: list[str] = Field(
        [],
        description=(
            "One intent for each root decided on, as JSON: the root's kind, namespace and name;"
            " which attempt at it this is, counted from 1; since when; and by the UID of each pod"
            " the node it is to be bound to."
        ),
    )


class Reservation(BaseModel):
    """Placements that the scheduler has decided on and not yet wholly bound.

    The scheduler writes one before it binds the first pod and deletes it when all are bound, so
    that a new leader can finish or give up what the last one began. Nobody else writes it.
    """

    spec: ReservationSpec | None = Field(None, description="What was decided.")
