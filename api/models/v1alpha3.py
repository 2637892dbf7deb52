"""v1alpha3, the version that is stored (KEP-6012): Workload, PodGroup, CompositePodGroup."""

# ruff: noqa: N815  fields bear the API's own names

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from api.constants import MAX_DEPTH
from api.models.parts import Condition, Empty, ListMap


class TopologyConstraint(BaseModel):
    """Keeps a group together in the topology of the cluster."""

    key: str = Field(
        "",
        description="The key of a node label, such as topology.kubernetes.io/zone, or the "
        "qualified name of an attribute of the nodes' devices, such as gpu.example.com/clique. The "
        "whole group is placed on nodes that share one value of it, within the domain of its "
        "parent; nodes without a value are left out. Required.",
    )
    preferred: bool = Field(
        False,
        description="Muster's own: place the group in one domain if one fits, otherwise in as "
        "few as possible. When false (the default) the group waits until one domain fits.",
    )


class SchedulingConstraints(BaseModel):
    """Where a group may be placed, beyond what its pods say."""

    topology: list[TopologyConstraint] = Field([], description="Topology constraints, at most one.")


class DisruptionMode(BaseModel):
    """What is disrupted together when room is made for others. Exactly one mode must be set."""

    single: Empty | None = Field(
        None, description="Members may be disrupted independently of each other."
    )
    all: Empty | None = Field(
        None,
        description="All members are disrupted together or not at all. Every child of a "
        "composite of this mode must be of it too.",
    )


class GangSchedulingPolicy(BaseModel):
    """All or nothing, for pods."""

    minCount: int = Field(
        0,
        description="The least number of pods that must be placed together before any of them "
        "runs; 1 or more. May be changed later; all else of the policy is immutable. Required.",
    )


class SchedulingPolicy(BaseModel):
    """How the pods of a group are scheduled. Exactly one policy must be set."""

    basic: Empty | None = Field(
        None, description="Pods are scheduled one by one, as they fit, in the group's domain."
    )
    gang: GangSchedulingPolicy | None = Field(
        None, description="At least minCount pods are scheduled together, or none."
    )


class GangGroupSchedulingPolicy(BaseModel):
    """All or nothing, for child groups."""

    minGroupCount: int = Field(
        0,
        description="The least number of child groups that must be placed together before any "
        "of them runs; 1 or more. May be changed later. Required.",
    )


class CompositeSchedulingPolicy(BaseModel):
    """How the child groups of a composite are scheduled. Exactly one policy must be set."""

    basic: Empty | None = Field(
        None, description="Child groups are scheduled one by one, as they fit."
    )
    gang: GangGroupSchedulingPolicy | None = Field(
        None, description="At least minGroupCount child groups are scheduled together, or none."
    )


class ResourceClaim(BaseModel):
    """A resource claim that the pods of a group share."""

    name: str = Field(
        "", description="A DNS label, unique within the list; how pods refer to it. Required."
    )
    resourceClaimName: str | None = Field(
        None,
        description="The ResourceClaim in the group's namespace. Exactly one of this and "
        "resourceClaimTemplateName must be set.",
    )
    resourceClaimTemplateName: str | None = Field(
        None,
        description="The ResourceClaimTemplate from which one claim is made for the group, called "
        "PODGROUP.NAME after the group and this entry; pods name that claim.",
    )


class _Common(BaseModel):
    """Fields that templates and groups share."""

    schedulingConstraints: SchedulingConstraints | None = Field(
        None, description="Where the group may be placed. Immutable."
    )
    disruptionMode: DisruptionMode | None = Field(
        None, description="What is disrupted together; single when unset. Immutable."
    )
    priorityClassName: str = Field(
        "",
        description="The PriorityClass of the group; the cluster's default class when unset. One "
        "tree of groups and all its pods have one priority. Immutable.",
    )
    priority: int | None = Field(
        None,
        description="The number behind priorityClassName, filled in on creation; at most "
        "1000000000 unless the class is one of the system's. A number given by the user must be "
        "the computed one. Immutable.",
    )
    preemptionPolicy: str = Field(
        "",
        description="PreemptLowerPriority: groups of lower priority may be disrupted to make "
        "room for this one. Never: it waits. The PriorityClass decides: unset, it is the class's, "
        "and under a class that says Never it can only be Never. Immutable.",
    )


class _Template(_Common):
    """A template's name, beside what it shares with groups."""

    name: str = Field(
        "", description="A DNS label, unique over all templates of the Workload. Required."
    )


class PodGroupTemplate(_Template):
    """The template of a PodGroup."""

    schedulingPolicy: SchedulingPolicy | None = Field(
        None, description="How the group's pods are scheduled. Required."
    )
    resourceClaims: Annotated[list[ResourceClaim], ListMap("name")] = Field(
        [],
        description="Resource claims that the group's pods share, at most 4. A claim serves 256 "
        "pods at once.",
    )


class CompositePodGroupTemplate(_Template):
    """The template of a CompositePodGroup, with those of its children: at least one."""

    schedulingPolicy: CompositeSchedulingPolicy | None = Field(
        None, description="How the child groups are scheduled. Required."
    )
    podGroupTemplates: Annotated[list[PodGroupTemplate], ListMap("name")] = Field(
        [], description="Templates of child PodGroups, at most 8. Immutable."
    )
    compositePodGroupTemplates: Annotated[list["CompositePodGroupTemplate"], ListMap("name")] = (
        Field(
            [],
            description="Templates of child CompositePodGroups, at most 8; the whole tree has at "
            f"most {MAX_DEPTH} levels. Immutable.",
        )
    )


class ControllerReference(BaseModel):
    """The object whose pods the Workload is about."""

    apiGroup: str = Field(
        "", description="The owner's API group, such as batch; empty for the core group."
    )
    kind: str = Field("", description="The owner's kind, such as Job. Required.")
    name: str = Field("", description="The owner's name, in the same namespace. Required.")


class WorkloadSpec(BaseModel):
    """The templates of a workload's groups: a flat list, or one or more trees."""

    controllerRef: ControllerReference | None = Field(
        None, description="The Job, JobSet or other object this is the Workload of. Immutable."
    )
    podGroupTemplates: Annotated[list[PodGroupTemplate], ListMap("name")] = Field(
        [],
        description="Templates of PodGroups without a parent, at most 8. Exactly one of this and "
        "compositePodGroupTemplates must be set. Immutable but for minCount.",
    )
    compositePodGroupTemplates: Annotated[list[CompositePodGroupTemplate], ListMap("name")] = Field(
        [],
        description="Templates of the roots of trees, at most 8. Immutable but for minCount and "
        "minGroupCount.",
    )


class WorkloadReference(BaseModel):
    """The template a group was made from."""

    workloadName: str = Field("", description="The Workload, in the same namespace. Required.")
    templateName: str = Field(
        "", description="The template within the Workload, at any level. Required."
    )


class ExpectedPods(BaseModel):
    """Pods of one kind that a group will have, of which some need not exist yet."""

    name: str = Field(
        "", description="A DNS label, unique within the list; how the status names them. Required."
    )
    count: int = Field(
        0,
        description="How many such pods the group has once all exist, those that exist included; "
        "at most 10000.",
    )
    template: dict[str, Any] = Field(
        {},
        description="metadata.labels and spec of such a pod, as its owner will make it. Only what "
        "decides where the pod may run is looked at. At most 16 KiB as JSON. Required.",
    )
    stage: int = Field(
        0,
        description="When these pods run, 1 to 8: no pod of a stage is created before those of all "
        "lower stages in the same tree have ended, so stages never run at the same time and may "
        "have the same places. 0, which is the default: they may run beside the pods of any stage.",
    )


class PodGroupSpec(_Common):
    """A group of pods that are scheduled by one policy."""

    workloadRef: WorkloadReference | None = Field(
        None,
        description="The template this group was made from; needed by a group with a parent. "
        "Immutable.",
    )
    parentCompositePodGroupName: str | None = Field(
        None, description="The parent in the tree; a group without one is a root. Immutable."
    )
    schedulingPolicy: SchedulingPolicy | None = Field(
        None,
        description="How the group's pods are scheduled. A group with a workloadRef may leave it "
        "out: it takes its template's as soon as the Workload is there. Immutable but for "
        "minCount.",
    )
    resourceClaims: Annotated[list[ResourceClaim], ListMap("name")] = Field(
        [], description="Resource claims that the group's pods share, at most 4. Immutable."
    )
    expectedPods: Annotated[list[ExpectedPods], ListMap("name")] = Field(
        [],
        description="The pods that the group will have, at most 8 kinds, where some are created "
        "only after others run. They count as members, and places are held for those that do not "
        "exist yet. May be changed later.",
    )


class CompositePodGroupSpec(_Common):
    """A group of groups that are scheduled by one policy."""

    workloadRef: WorkloadReference | None = Field(
        None, description="The template this group was made from. Required, immutable."
    )
    parentCompositePodGroupName: str | None = Field(
        None, description="The parent in the tree; a group without one is a root. Immutable."
    )
    schedulingPolicy: CompositeSchedulingPolicy | None = Field(
        None,
        description="How the child groups are scheduled. Required, immutable but for "
        "minGroupCount.",
    )


class BestDomain(BaseModel):
    """The domain that comes nearest to holding the group."""

    key: str = Field("", description="The node label.")
    value: str = Field("", description="Its value: which domain.")
    missing: int = Field(0, description="How many members it lacks room for.")


class BlockerCount(BaseModel):
    """How many nodes are ruled out by one reason."""

    reason: str = Field("", description="Why these nodes cannot take a member.")
    nodes: int = Field(0, description="How many nodes.")


class WaitsFor(BaseModel):
    """Another group of the tree."""

    kind: str = Field("", description="PodGroup or CompositePodGroup.")
    name: str = Field("", description="The name of the group.")


class Blocker(BaseModel):
    """The one dominant reason why a group waits, with numbers; absent once it no longer holds."""

    summary: str = Field("", description="The reason in one sentence.")
    kind: str = Field(
        "", description="capacity, constraint, quorum, priority, binding, invalid or error."
    )
    waitsFor: WaitsFor | None = Field(
        None,
        description="The group of the tree that the reason is about; absent if it is this group.",
    )
    needed: int = Field(0, description="How many members the group needs placed together.")
    free: int = Field(0, description="For how many of them there is room.")
    bestDomain: BestDomain | None = Field(
        None, description="The domain that comes nearest, where a topology is asked for."
    )
    counts: list[BlockerCount] = Field([], description="Nodes ruled out, by reason.")
    impossible: bool = Field(
        False, description="True when the group would not fit into the cluster were it empty."
    )
    since: datetime | None = Field(None, description="When the group began to wait for this.")
    retryOn: list[str] = Field(
        [], description="The changes of the cluster that make the scheduler try again."
    )


class ResourceClaimStatus(BaseModel):
    """The claim made for an entry of spec.resourceClaims."""

    name: str = Field("", description="The entry of spec.resourceClaims.")
    resourceClaimName: str | None = Field(
        None, description="The ResourceClaim that was made; absent if none was needed."
    )


class _Status(BaseModel):
    """Fields that both statuses share."""

    conditions: Annotated[list[Condition], ListMap("type")] = Field(
        [],
        description="PodGroupInitiallyScheduled (CompositePodGroupInitiallyScheduled): True with "
        "reason Scheduled once minCount pods (minGroupCount child groups) were placed, and it "
        "stays True; False with Unschedulable, Incomplete, Invalid or SchedulerError. "
        "DisruptionTarget: True with PreemptionByScheduler when the group is about to be "
        "disrupted, False once it runs again.",
    )
    blocker: Blocker | None = Field(None, description="Why the group waits, if it does.")


class HeldPods(BaseModel):
    """Places that are held for pods of a group that do not exist yet."""

    name: str = Field("", description="The entry of spec.expectedPods.")
    node: str = Field("", description="Where they are to run.")
    count: int = Field(0, description="How many of them.")


class HeldPlaces(BaseModel):
    """The places that are held for a group, since when and how long."""

    since: datetime | None = Field(None, description="Since when places are held.")
    until: datetime | None = Field(None, description="When those not used by then are given up.")
    pods: list[HeldPods] = Field([], description="The places, by entry and node; at most 1000.")


class PodGroupStatus(_Status):
    """What is observed of a PodGroup."""

    members: int = Field(0, description="The pods that name this group and are not finished.")
    scheduledPods: int = Field(0, description="The pods of it that have a node.")
    resourceClaimStatuses: Annotated[list[ResourceClaimStatus], ListMap("name")] = Field(
        [], description="The claims made for spec.resourceClaims."
    )
    heldPlaces: HeldPlaces | None = Field(
        None, description="The places that are held for spec.expectedPods, if any are."
    )


class CompositePodGroupStatus(_Status):
    """What is observed of a CompositePodGroup."""

    children: int = Field(0, description="The groups that name this one as their parent.")
    scheduledChildren: int = Field(
        0, description="The children whose minCount or minGroupCount is reached."
    )


class Workload(BaseModel):
    """The scheduling policy of one workload: templates of its groups, flat or as a tree.

    Controllers make PodGroups and CompositePodGroups from it.
    """

    spec: WorkloadSpec | None = Field(None, description="The templates and whose they are.")


class PodGroup(BaseModel):
    """Pods that are scheduled by one policy: all or nothing (gang), or one by one (basic).

    A pod names its group by the label scheduling.muster.dev/pod-group, or by
    spec.schedulingGroup where Kubernetes has it.
    """

    spec: PodGroupSpec | None = Field(None, description="What is wanted.")
    status: PodGroupStatus | None = Field(None, description="What is observed.")


class CompositePodGroup(BaseModel):
    """Groups that are scheduled by one policy: the inner nodes of a tree of groups."""

    spec: CompositePodGroupSpec | None = Field(None, description="What is wanted.")
    status: CompositePodGroupStatus | None = Field(None, description="What is observed.")
