"""The scheduler's own record of decisions that are not completely bound yet."""

from pydantic import BaseModel, Field


class ReservationSpec(BaseModel):
    """ReservationSpec has the decisions of one tick of the scheduler.

    Each decision is one string, because thousands of objects would cost the API server more than
    the bindings of their pods.
    """

    roots: int = Field(
        0,
        description="roots is the number of groups and pods that the scheduler decided.",
        json_schema_extra={"format": "int64"},
    )
    intents: list[str] = Field(
        [],
        description=(
            "intents has one entry for each decided root, as JSON: the kind, namespace and name "
            "of the root, the number of this attempt (the first is 1), the time of the decision, "
            "and by the UID of each pod the node that it is bound to."
        ),
    )


class Reservation(BaseModel):
    """Reservation has placements that the scheduler decided and has not completely bound yet.

    The scheduler writes one before it binds the first pod and deletes it when all are bound, so
    that a new leader can complete or release them. No other client may write Reservations.
    """

    spec: ReservationSpec | None = Field(None, description="spec has the decisions.")
