"""v1alpha1 (KEP-4671): a Workload whose groups have a policy and nothing else.

What this version cannot say travels in an annotation (`api.conversion`).
"""

# ruff: noqa: N815  fields bear the API's own names

from typing import Annotated

from pydantic import BaseModel, Field

from api.models.parts import ListMap
from api.models.v1alpha3 import Controlled, SchedulingPolicy


class PodGroup(BaseModel):
    """PodGroup is a set of pods with one scheduling policy.

    Pods name it by the names of the Workload and of the group.
    """

    name: str = Field(
        "", description="name is a DNS label that is unique within the Workload. Required."
    )
    policy: SchedulingPolicy | None = Field(
        None, description="policy is the scheduling policy of the group's pods. Required."
    )


class WorkloadSpec(Controlled):
    """WorkloadSpec is the flat list of the groups of a workload."""

    podGroups: Annotated[list[PodGroup], ListMap("name")] = Field(
        [],
        description="podGroups is the list of groups, at most 8. Required. Immutable except "
        "for minCount.",
    )


class Workload(BaseModel):
    """Workload defines how one workload is scheduled: the flat list of its groups of pods.

    Use v1alpha3 for constraints, disruption modes, priorities and trees of groups.
    """

    spec: WorkloadSpec | None = Field(
        None, description="spec has the groups of the Workload and a reference to its owner."
    )
