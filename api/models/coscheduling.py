"""coscheduling.muster.dev/v1alpha1 (KEP-3370): a PodGroup of subsets."""

# ruff: noqa: N815  fields bear the API's own names

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from api.models.parts import Condition, ListMap


class Subset(BaseModel):
    """Subset is a set of pods with one role."""

    name: str = Field(
        "",
        description="name is a DNS label that is unique within the group. Pods name the subset "
        "by the label scheduling.muster.dev/subset. Required when there is more than one subset. "
        "Immutable.",
    )
    minMember: int = Field(
        0,
        description="minMember is the minimum number of pods of the subset that must be "
        "scheduled together. It must be at least 1. It can be changed later. Required.",
    )


class PodGroupSpec(BaseModel):
    """PodGroupSpec describes the subsets of a group.

    All of them are scheduled together, or none.
    """

    subsets: Annotated[list[Subset], ListMap("name")] = Field(
        [],
        description="subsets is the list of subsets, 1 to 8. Subsets cannot be added or "
        "removed later. Required.",
    )
    scheduleTimeoutSeconds: int | None = Field(
        None,
        description="scheduleTimeoutSeconds is the number of seconds that the scheduler waits "
        "for the bindings of a placement before it releases the placement. It must be at least "
        "1. It can be changed later.",
    )


class PodGroupCondition(Condition):
    """PodGroupCondition is one observation of the group's state."""

    lastUpdateTime: datetime | None = Field(
        None, description="lastUpdateTime is the last time the condition was updated."
    )


class SubsetStatus(BaseModel):
    """SubsetStatus reports how many pods a subset has, and their states."""

    name: str = Field("", description="name is the name of the subset.")
    total: int = Field(
        0, description="total is the number of pods that name the subset and have not finished."
    )
    scheduledAvailable: int = Field(
        0,
        description="scheduledAvailable is the number of pods that wait for missing members "
        "or groups.",
    )
    scheduledUnavailable: int = Field(
        0,
        description="scheduledUnavailable is the number of pods that wait for capacity, "
        "together with all other pods of their group.",
    )
    running: int = Field(0, description="running is the number of running pods.")


class PodGroupStatus(BaseModel):
    """PodGroupStatus is the most recently observed state of a group."""

    conditions: Annotated[list[PodGroupCondition], ListMap("type")] = Field(
        [],
        description="conditions has the condition PodGroupScheduled. It is True once every "
        "subset has minMember pods scheduled. Otherwise it is False, and its reason and message "
        "state why.",
    )
    subsets: Annotated[list[SubsetStatus], ListMap("name")] = Field(
        [], description="subsets has one entry for each subset of the spec."
    )


class PodGroup(BaseModel):
    """PodGroup is a set of pods with several roles; minMember pods of each subset start together.

    Pods name the group by the label scheduling.x-k8s.io/pod-group, and their subset by
    scheduling.muster.dev/subset. Muster creates a PodGroup of scheduling.muster.dev for each
    subset.
    """

    spec: PodGroupSpec | None = Field(None, description="spec is the desired state of the group.")
    status: PodGroupStatus | None = Field(
        None, description="status is the most recently observed state of the group."
    )
