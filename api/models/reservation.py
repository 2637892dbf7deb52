"""The scheduler's own record of what it has decided and not yet wholly bound."""

from datetime import datetime

from pydantic import BaseModel, Field


class ReservedRoot(BaseModel):
    """The root of a tree of groups, or a pod without a group."""

    kind: str = Field("", description="PodGroup, CompositePodGroup or Pod.")
    namespace: str = Field("", description="Its namespace, and that of all its pods.")
    name: str = Field("", description="Its name.")


class ReservedPod(BaseModel):
    """One pod and the node that was chosen for it."""

    namespace: str = Field("", description="The pod's namespace.")
    name: str = Field("", description="The pod's name.")
    uid: str = Field(
        "", description="The pod's UID: a later pod of the same name is not the one decided on."
    )
    node: str = Field("", description="The node it is to be bound to.")


class Intent(BaseModel):
    """The decision on one root: all of its pods are to be bound, or the decision is given up."""

    root: ReservedRoot | None = Field(None, description="Whose pods these are.")
    attempt: int = Field(
        0,
        description="Which attempt at the root this is, counted from 1.",
        json_schema_extra={"format": "int64"},
    )
    pods: list[ReservedPod] = Field([], description="What was decided, pod by pod.")
    since: datetime | None = Field(None, description="When it was decided.")


class ReservationSpec(BaseModel):
    """The decisions of one tick of the scheduler."""

    intents: list[Intent] = Field([], description="One intent for each root decided on.")


class Reservation(BaseModel):
    """Placements that the scheduler has decided on and not yet wholly bound.

    The scheduler writes one before it binds the first pod and deletes it when all are bound, so
    that a new leader can finish or give up what the last one began. Nobody else writes it.
    """

    spec: ReservationSpec | None = Field(None, description="What was decided.")
