"""v1alpha2 (KEP-5832): PodGroups as objects of their own that take all they are from a template.

What this version cannot say travels in an annotation (`api.conversion`).
"""

# ruff: noqa: N815  fields bear the API's own names

from typing import Annotated

from pydantic import BaseModel, Field

from api.models.parts import Condition, ListMap
from api.models.v1alpha3 import ControllerReference, PodGroupTemplate


class WorkloadSpec(BaseModel):
    """The templates of a workload's groups, as a flat list."""

    controllerRef: ControllerReference | None = Field(
        None, description="The Job, JobSet or other object this is the Workload of. Immutable."
    )
    podGroupTemplates: Annotated[list[PodGroupTemplate], ListMap("name")] = Field(
        [], description="Templates of PodGroups, at most 8. Required, immutable but for minCount."
    )


class WorkloadReference(BaseModel):
    """The Workload a group belongs to."""

    name: str = Field("", description="The Workload, in the same namespace. Required.")


class PodGroupTemplateReference(BaseModel):
    """The template a group was made from."""

    name: str = Field("", description="The template within the Workload. Required.")


class PodGroupSpec(BaseModel):
    """The template that says how the group's pods are scheduled."""

    workloadRef: WorkloadReference | None = Field(
        None, description="The Workload that has the template. Immutable."
    )
    podGroupTemplateName: str | None = Field(
        None, description="The template within that Workload. Immutable."
    )
    podGroupTemplateRef: PodGroupTemplateReference | None = Field(
        None,
        description="Another way to write podGroupTemplateName; set one of them, or both alike. "
        "Immutable.",
    )


class PodGroupStatus(BaseModel):
    """What is observed of a PodGroup."""

    conditions: Annotated[list[Condition], ListMap("type")] = Field(
        [],
        description="PodGroupScheduled: True with reason Scheduled once minCount pods were placed, "
        "and it stays True; False with Unschedulable, Incomplete, Invalid or SchedulerError. "
        "DisruptionTarget: True with PreemptionByScheduler when the group is about to be "
        "disrupted, False once it runs again.",
    )
    scheduledPods: int = Field(0, description="The pods of it that have a node.")


class Workload(BaseModel):
    """The scheduling policy of one workload: templates of its groups, as a flat list.

    Trees of groups need v1alpha3.
    """

    spec: WorkloadSpec | None = Field(None, description="The templates and whose they are.")


class PodGroup(BaseModel):
    """Pods that are scheduled by one policy, which is that of the template the group names.

    A policy of the group's own, constraints and trees need v1alpha3. A pod names its group by
    the label scheduling.muster.dev/pod-group, or by spec.schedulingGroup where Kubernetes has it.
    """

    spec: PodGroupSpec | None = Field(None, description="What is wanted.")
    status: PodGroupStatus | None = Field(None, description="What is observed.")
