"""coscheduling.muster.dev/v1alpha1 (KEP-3370): a PodGroup of subsets."""

# ruff: noqa: N815  fields bear the API's own names

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from api.models.parts import Condition, ListMap


class Subset(BaseModel):
    """Pods of one role."""

    name: str = Field(
        "",
        description="A DNS label, unique within the group; pods name it by the label "
        "scheduling.muster.dev/subset. Required when there is more than one subset. Immutable.",
    )
    minMember: int = Field(
        0,
        description="The least number of the subset's pods that must be placed together; 1 or "
        "more. May be changed later. Required.",
    )


class PodGroupSpec(BaseModel):
    """The roles of a group's pods: all of them are placed together, or none."""

    subsets: Annotated[list[Subset], ListMap("name")] = Field(
        [], description="The subsets, 1 to 8. None may be added or removed later. Required."
    )
    scheduleTimeoutSeconds: int | None = Field(
        None,
        description="How long a placement that was chosen may stay unbound before it is given "
        "up; 1 or more. May be changed later.",
    )


class PodGroupCondition(Condition):
    """One observation of the group's state."""

    lastUpdateTime: datetime | None = Field(
        None, description="When the condition was last updated."
    )


class SubsetStatus(BaseModel):
    """How many pods a subset has, and how far they are."""

    name: str = Field("", description="The subset.")
    total: int = Field(0, description="Pods that name it and are not finished.")
    scheduledAvailable: int = Field(
        0, description="Pods that wait for members or groups that are missing."
    )
    scheduledUnavailable: int = Field(
        0, description="Pods that wait for room, together with all others of their group."
    )
    running: int = Field(0, description="Pods that run.")


class PodGroupStatus(BaseModel):
    """What is observed of a group."""

    conditions: Annotated[list[PodGroupCondition], ListMap("type")] = Field(
        [],
        description="PodGroupScheduled: True once every subset has its minMember placed; "
        "otherwise False, with the reason why.",
    )
    subsets: Annotated[list[SubsetStatus], ListMap("name")] = Field(
        [], description="One entry for each subset of the spec."
    )


class PodGroup(BaseModel):
    """Pods of several roles that are placed together: at least minMember of every subset.

    Pods name the group by the label scheduling.x-k8s.io/pod-group, and their subset by
    scheduling.muster.dev/subset. Muster keeps a PodGroup of scheduling.muster.dev for each subset.
    """

    spec: PodGroupSpec | None = Field(None, description="What is wanted.")
    status: PodGroupStatus | None = Field(None, description="What is observed.")
