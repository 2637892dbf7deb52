"""v1alpha1 (KEP-4671): a Workload whose groups have a policy and nothing else.

What this version cannot say travels in an annotation (`api.conversion`).
"""

# ruff: noqa: N815  fields bear the API's own names

from typing import Annotated

from pydantic import BaseModel, Field

from api.models.parts import ListMap
from api.models.v1alpha3 import ControllerReference, SchedulingPolicy


class PodGroup(BaseModel):
    """A set of pods with one scheduling policy; pods name it by Workload and group name."""

    name: str = Field("", description="A DNS label, unique within the Workload. Required.")
    policy: SchedulingPolicy | None = Field(
        None, description="How the group's pods are scheduled. Required."
    )


class WorkloadSpec(BaseModel):
    """The groups of a workload, as a flat list."""

    controllerRef: ControllerReference | None = Field(
        None, description="The Job, JobSet or other object this is the Workload of. Immutable."
    )
    podGroups: Annotated[list[PodGroup], ListMap("name")] = Field(
        [], description="The groups, at most 8. Required, immutable but for minCount."
    )


class Workload(BaseModel):
    """The scheduling policy of one workload: its groups of pods, as a flat list.

    Constraints, disruption modes, priorities and trees of groups need v1alpha3.
    """

    spec: WorkloadSpec | None = Field(None, description="The groups and whose they are.")
