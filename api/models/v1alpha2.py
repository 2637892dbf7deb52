"""v1alpha2 (KEP-5832): PodGroups as objects of their own that take all they are from a template.

What this version cannot say travels in an annotation (`api.conversion`).
"""

# ruff: noqa: N815  fields bear the API's own names

from typing import Annotated

from pydantic import BaseModel, Field

from api.models.parts import Condition, ListMap
from api.models.v1alpha3 import Controlled, PodGroupTemplate


class WorkloadSpec(Controlled):
    """WorkloadSpec is the flat list of the templates of a workload's groups."""

    podGroupTemplates: Annotated[list[PodGroupTemplate], ListMap("name")] = Field(
        [],
        description="podGroupTemplates is the list of PodGroup templates, at most 8. "
        "Required. Immutable except for minCount.",
    )


class WorkloadReference(BaseModel):
    """WorkloadReference names the Workload that a group belongs to."""

    name: str = Field(
        "", description="name is the name of the Workload, in the same namespace. Required."
    )


class PodGroupTemplateReference(BaseModel):
    """PodGroupTemplateReference names the template that a group was created from."""

    name: str = Field(
        "", description="name is the name of the template within the Workload. Required."
    )


class PodGroupSpec(BaseModel):
    """PodGroupSpec names the template that defines how the group's pods are scheduled."""

    workloadRef: WorkloadReference | None = Field(
        None, description="workloadRef names the Workload that has the template. Immutable."
    )
    podGroupTemplateName: str | None = Field(
        None,
        description="podGroupTemplateName is the name of the template within that "
        "Workload. Immutable.",
    )
    podGroupTemplateRef: PodGroupTemplateReference | None = Field(
        None,
        description="podGroupTemplateRef is another way to write podGroupTemplateName. Set one "
        "of them, or both to the same name. Immutable.",
    )


class PodGroupStatus(BaseModel):
    """PodGroupStatus is the most recently observed state of a PodGroup."""

    conditions: Annotated[list[Condition], ListMap("type")] = Field(
        [],
        description="conditions has the conditions PodGroupScheduled and DisruptionTarget. "
        "PodGroupScheduled is True with reason Scheduled once minCount pods were scheduled, and "
        "then it remains True. Before, it is False with reason Unschedulable, Incomplete, "
        "Invalid or SchedulerError. DisruptionTarget is True with reason PreemptionByScheduler "
        "when the group is about to be disrupted, and False once the group runs again.",
    )
    scheduledPods: int = Field(
        0, description="scheduledPods is the number of pods of the group that have a node."
    )


class Workload(BaseModel):
    """Workload defines how one workload is scheduled: the flat list of its groups' templates.

    Use v1alpha3 for trees of groups.
    """

    spec: WorkloadSpec | None = Field(
        None, description="spec has the templates of the Workload and a reference to its owner."
    )


class PodGroup(BaseModel):
    """PodGroup is a set of pods that are scheduled by the policy of the template that it names.

    Use v1alpha3 for a policy in the group itself, constraints and trees. A pod names its group by
    the label scheduling.muster.dev/pod-group, or by spec.schedulingGroup where Kubernetes has it.
    """

    spec: PodGroupSpec | None = Field(None, description="spec is the desired state of the group.")
    status: PodGroupStatus | None = Field(
        None, description="status is the most recently observed state of the group."
    )
