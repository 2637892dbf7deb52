"""The kinds of scheduling.muster.dev. Generated from api/models by `make generate`; do not edit."""

# ruff: noqa: N815  fields bear the API's own names

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from pydantic import Field

from muster_client.base import Model, Object, Resource

GROUP: Final = "scheduling.muster.dev"
VERSION: Final = "v1alpha3"
SCHEDULER_NAME: Final = "muster-scheduler"
LABEL_POD_GROUP: Final = "scheduling.muster.dev/pod-group"
CONDITION_POD_GROUP_SCHEDULED: Final = "PodGroupInitiallyScheduled"
CONDITION_COMPOSITE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
REASON_SCHEDULED: Final = "Scheduled"
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_INCOMPLETE: Final = "Incomplete"
REASON_INVALID: Final = "Invalid"
REASON_SCHEDULER_ERROR: Final = "SchedulerError"
REASON_START_TIMEOUT: Final = "StartTimeout"


class ControllerReference(Model):
    """ControllerReference refers to the object that controls the pods of the Workload."""

    apiGroup: str = ""
    """apiGroup is the API group of the owner, such as batch. It is empty for the core group."""

    kind: str = ""
    """kind is the kind of the owner, such as Job. Required."""

    name: str = ""
    """name is the name of the owner, in the same namespace. Required."""


class TopologyConstraint(Model):
    """TopologyConstraint restricts a group to one domain of the cluster's topology."""

    key: str = ""
    """key is the key of a node label, such as topology.kubernetes.io/zone, or the qualified name of
    an attribute of the nodes' devices, such as gpu.example.com/clique. All pods of the group are
    placed on nodes that have the same value for it, within the domain of the parent. Nodes without
    a value are excluded. Required.
    """

    preferred: bool = False
    """preferred is a field that only Muster has. When true, the scheduler places the group in one
    domain if it has enough capacity, and otherwise in as few domains as possible. When false (the
    default), the group waits until one domain has enough capacity.
    """


class SchedulingConstraints(Model):
    """SchedulingConstraints restricts where a group may be placed.

    Its pods can have further constraints.
    """

    topology: list[TopologyConstraint] = Field(default_factory=list)
    """topology is the list of topology constraints, at most one."""


class Empty(Model):
    """Empty has no fields. Its presence selects it."""


class DisruptionMode(Model):
    """DisruptionMode defines which members of a group are disrupted together.

    Exactly one mode must be set.
    """

    single: Empty | None = None
    """single means that members can be disrupted independently of each other."""

    all: Empty | None = None
    """all means that all members are disrupted together or not at all. Every child of a composite
    with this mode must have it too.
    """


class _Common(Model):
    """Fields that templates and groups share."""

    schedulingConstraints: SchedulingConstraints | None = None
    """schedulingConstraints restricts where the group may be placed. Immutable."""

    disruptionMode: DisruptionMode | None = None
    """disruptionMode defines which members are disrupted together. The default is single.
    Immutable.
    """

    priorityClassName: str = ""
    """priorityClassName is the name of the group's PriorityClass. The default is the cluster's
    default class. All groups of a tree and all their pods must have the same priority. Immutable.
    """

    priority: int | None = None
    """priority is the value of the PriorityClass. Admission sets it on creation. It is at most
    1000000000 unless the class is a system class. If a user sets it, it must equal the computed
    value. Immutable.
    """

    preemptionPolicy: str = ""
    """preemptionPolicy is PreemptLowerPriority or Never. With PreemptLowerPriority, the group may
    preempt groups of lower priority. With Never, it waits. The default is the policy of the
    PriorityClass. If the policy of the class is Never, this field can only be Never. Immutable.
    """


class _Template(_Common):
    """Fields that all templates share."""

    name: str = ""
    """name is a DNS label that is unique among all templates of the Workload. Required."""


class GangSchedulingPolicy(Model):
    """GangSchedulingPolicy defines the parameters of gang scheduling for pods."""

    minCount: int = 0
    """minCount is the minimum number of pods that must be scheduled together before any of them
    runs. It must be at least 1. It can be changed later, and all other fields of the policy are
    immutable. Required.
    """


class SchedulingPolicy(Model):
    """SchedulingPolicy defines how the pods of a group are scheduled.

    Exactly one policy must be set.
    """

    basic: Empty | None = None
    """basic means that the scheduler schedules pods one by one, within the domain of the group."""

    gang: GangSchedulingPolicy | None = None
    """gang means that the scheduler schedules at least minCount pods together, or none."""


class ResourceClaim(Model):
    """ResourceClaim is a reference to a ResourceClaim that the pods of a group share."""

    name: str = ""
    """name is a DNS label that is unique within the list. Pods refer to the claim by this name.
    Required.
    """

    resourceClaimName: str | None = None
    """resourceClaimName is the name of a ResourceClaim in the group's namespace. Exactly one of
    resourceClaimName and resourceClaimTemplateName must be set.
    """

    resourceClaimTemplateName: str | None = None
    """resourceClaimTemplateName is the name of the ResourceClaimTemplate from which Muster creates
    one claim for the group. The name of that claim is PODGROUP.NAME, from the names of the group
    and of this entry, and pods name that claim.
    """


class PodGroupTemplate(_Template):
    """PodGroupTemplate is the template of a PodGroup."""

    schedulingPolicy: SchedulingPolicy | None = None
    """schedulingPolicy defines how the group's pods are scheduled. Required."""

    resourceClaims: list[ResourceClaim] = Field(default_factory=list)
    """resourceClaims is the list of ResourceClaims that the group's pods share, at most 4. At most
    256 pods can use a claim at the same time.
    """


class GangGroupSchedulingPolicy(Model):
    """GangGroupSchedulingPolicy defines the parameters of gang scheduling for child groups."""

    minGroupCount: int = 0
    """minGroupCount is the minimum number of child groups that must be scheduled together before
    any of them runs. It must be at least 1. It can be changed later. Required.
    """


class CompositeSchedulingPolicy(Model):
    """CompositeSchedulingPolicy defines how the child groups of a composite are scheduled.

    Exactly one policy must be set.
    """

    basic: Empty | None = None
    """basic means that the scheduler schedules child groups one by one."""

    gang: GangGroupSchedulingPolicy | None = None
    """gang means that the scheduler schedules at least minGroupCount child groups together, or
    none.
    """


class CompositePodGroupTemplate(_Template):
    """CompositePodGroupTemplate is the template of a CompositePodGroup.

    It has at least one template of its children.
    """

    schedulingPolicy: CompositeSchedulingPolicy | None = None
    """schedulingPolicy defines how the child groups are scheduled. Required."""

    podGroupTemplates: list[PodGroupTemplate] = Field(default_factory=list)
    """podGroupTemplates is the list of templates of child PodGroups, at most 8. Immutable."""

    compositePodGroupTemplates: list[CompositePodGroupTemplate] = Field(default_factory=list)
    """compositePodGroupTemplates is the list of templates of child CompositePodGroups, at most 8.
    The tree has at most 4 levels. Immutable.
    """


class WorkloadSpec(Model):
    """WorkloadSpec has the templates of a workload's groups: a flat list, or one or more trees."""

    controllerRef: ControllerReference | None = None
    """controllerRef refers to the object that controls the workload, such as a Job or a JobSet.
    Immutable.
    """

    podGroupTemplates: list[PodGroupTemplate] = Field(default_factory=list)
    """podGroupTemplates is the list of templates of PodGroups without a parent, at most 8. Exactly
    one of podGroupTemplates and compositePodGroupTemplates must be set. Immutable except for
    minCount.
    """

    compositePodGroupTemplates: list[CompositePodGroupTemplate] = Field(default_factory=list)
    """compositePodGroupTemplates is the list of templates of the roots of trees, at most 8.
    Immutable except for minCount and minGroupCount.
    """


class Workload(Object):
    """Workload defines how one workload is scheduled: templates of its groups, flat or as a tree.

    Controllers create PodGroups and CompositePodGroups from it.
    """

    resource: ClassVar[Resource] = Resource(
        "scheduling.muster.dev", "v1alpha3", "workloads", "Workload"
    )

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)
    """spec has the templates of the Workload and a reference to its owner."""


class WorkloadReference(Model):
    """WorkloadReference names the template that a group was created from."""

    workloadName: str = ""
    """workloadName is the name of the Workload, in the same namespace. Required."""

    templateName: str = ""
    """templateName is the name of the template within the Workload, at any level. Required."""


class ExpectedPods(Model):
    """ExpectedPods describes pods of one kind that a group will have.

    Some of them need not exist yet.
    """

    name: str = ""
    """name is a DNS label that is unique within the list. The status names the pods by it.
    Required.
    """

    count: int = 0
    """count is the number of such pods that the group has once all of them exist. It includes those
    that exist, and it is at most 10000.
    """

    template: dict[str, Any] = Field(default_factory=dict)
    """template has the metadata.labels and the spec of such a pod, as its owner will create it. The
    scheduler reads only the fields that restrict where the pod may run. The template has at most 16
    KiB as JSON. Required.
    """

    stage: int = 0
    """stage defines when these pods run, 1 to 8. The owner creates the pods of a stage after those
    of all lower stages in the same tree have ended. So the pods of different stages never run at
    the same time, and they may use the same capacity. With 0 (the default) the pods may run at the
    same time as the pods of any stage.
    """


class PodGroupSpec(_Common):
    """PodGroupSpec is the desired state of a group of pods with one scheduling policy."""

    workloadRef: WorkloadReference | None = None
    """workloadRef names the template that this group was created from. Required for a group with a
    parent. Immutable.
    """

    parentCompositePodGroupName: str | None = None
    """parentCompositePodGroupName is the name of the parent in the tree. A group without a parent
    is a root. Immutable.
    """

    schedulingPolicy: SchedulingPolicy | None = None
    """schedulingPolicy defines how the group's pods are scheduled. It is optional for a group with
    a workloadRef, which gets the policy of its template once the Workload exists. Immutable except
    for minCount.
    """

    resourceClaims: list[ResourceClaim] = Field(default_factory=list)
    """resourceClaims is the list of ResourceClaims that the group's pods share, at most 4.
    Immutable.
    """

    expectedPods: list[ExpectedPods] = Field(default_factory=list)
    """expectedPods describes the pods that the group will have, at most 8 kinds, if some of them
    are created only after others run. They count as members, and the scheduler reserves capacity
    for those that do not exist yet. It can be changed later.
    """


class Condition(Model):
    """Condition is one observation of a group's state."""

    type: str = ""
    """type is the type of the condition in CamelCase."""

    status: str = ""
    """status is the status of the condition, one of True, False, Unknown."""

    observedGeneration: int = 0
    """observedGeneration is the .metadata.generation that the condition was set based upon."""

    lastTransitionTime: datetime | None = None
    """lastTransitionTime is the last time the condition transitioned from one status to another."""

    reason: str = ""
    """reason is the reason for the condition's last transition, one word in CamelCase."""

    message: str = ""
    """message is a human readable message with details about the transition."""


class WaitsFor(Model):
    """WaitsFor names another group of the tree."""

    kind: str = ""
    """kind is PodGroup or CompositePodGroup."""

    name: str = ""
    """name is the name of the group."""


class BestDomain(Model):
    """BestDomain is the domain with the most capacity for the group."""

    key: str = ""
    """key is the topology key."""

    value: str = ""
    """value is the value of the key, which identifies the domain."""

    missing: int = 0
    """missing is the number of members that do not fit in the domain."""


class BlockerCount(Model):
    """BlockerCount is the number of nodes that are excluded for one reason."""

    reason: str = ""
    """reason is the reason why a member does not fit these nodes."""

    nodes: int = 0
    """nodes is the number of nodes."""


class Blocker(Model):
    """Blocker is the main reason why a group waits, with numbers.

    It is absent when the group does not wait.
    """

    summary: str = ""
    """summary is a human readable message that states why the group waits and what to change."""

    kind: str = ""
    """kind is one of capacity, constraint, quorum, priority, binding, invalid, error."""

    waitsFor: WaitsFor | None = None
    """waitsFor names the group of the tree that the reason is about. It is absent if that is this
    group.
    """

    needed: int = 0
    """needed is the number of members that must be scheduled together."""

    free: int = 0
    """free is the number of those members that fit."""

    bestDomain: BestDomain | None = None
    """bestDomain is the domain with the most capacity, if the group has a topology constraint."""

    counts: list[BlockerCount] = Field(default_factory=list)
    """counts has the number of excluded nodes for each reason."""

    impossible: bool = False
    """impossible is true if the group would not fit even if the cluster were empty."""

    since: datetime | None = None
    """since is the time at which the group began to wait for this reason."""

    retryOn: list[str] = Field(default_factory=list)
    """retryOn is the list of cluster changes after which the scheduler retries the group."""


class _Status(Model):
    """Fields that both statuses share."""

    conditions: list[Condition] = Field(default_factory=list)
    """conditions has the conditions PodGroupInitiallyScheduled
    (CompositePodGroupInitiallyScheduled), DisruptionTarget and, on the root of a tree, Preempted.
    PodGroupInitiallyScheduled is True with reason Scheduled once minCount pods (minGroupCount child
    groups) were scheduled, and then it remains True. Before, it is False with reason Unschedulable,
    Incomplete, Invalid, SchedulerError or StartTimeout. DisruptionTarget is True with reason
    PreemptionByScheduler when the group is about to be disrupted, and False once the group runs
    again. StartTimeout is on a root with a start-timeout that waits for its first start: False
    while the time counts, from lastTransitionTime on, and True once the scheduler gave the group
    up. Preempted is True after a preemption that disrupted a gang of the tree; its message counts
    the recent ones, and lastTransitionTime is the time of the first of them.
    """

    blocker: Blocker | None = None
    """blocker states why the group waits. It is absent when the group does not wait."""


class ResourceClaimStatus(Model):
    """ResourceClaimStatus names the ResourceClaim of an entry of spec.resourceClaims."""

    name: str = ""
    """name is the name of the entry of spec.resourceClaims."""

    resourceClaimName: str | None = None
    """resourceClaimName is the name of the ResourceClaim that Muster created. It is absent if none
    was needed.
    """


class HeldPods(Model):
    """HeldPods describes capacity that is reserved on one node for pods that do not exist yet."""

    name: str = ""
    """name is the name of the entry of spec.expectedPods."""

    node: str = ""
    """node is the name of the node."""

    count: int = 0
    """count is the number of pods for which the node has reserved capacity."""


class HeldPlaces(Model):
    """HeldPlaces describes the capacity that is reserved for the expected pods of a group."""

    since: datetime | None = None
    """since is the time from which the capacity is reserved."""

    until: datetime | None = None
    """until is the time at which the scheduler releases the capacity that no pod uses by then."""

    pods: list[HeldPods] = Field(default_factory=list)
    """pods has the number of reserved pods by entry and node, at most 1000 items."""


class PodGroupStatus(_Status):
    """PodGroupStatus is the most recently observed state of a PodGroup."""

    members: int = 0
    """members is the number of pods that name this group and have not finished."""

    scheduledPods: int = 0
    """scheduledPods is the number of pods of the group that have a node."""

    resourceClaimStatuses: list[ResourceClaimStatus] = Field(default_factory=list)
    """resourceClaimStatuses names the ResourceClaims of spec.resourceClaims."""

    heldPlaces: HeldPlaces | None = None
    """heldPlaces describes the capacity that is reserved for spec.expectedPods. It is absent if
    none is reserved.
    """


class PodGroup(Object):
    """PodGroup is a set of pods with one policy: all or nothing (gang), or one by one (basic).

    A pod names its group by the label scheduling.muster.dev/pod-group, or by spec.schedulingGroup
    where Kubernetes has it.
    """

    resource: ClassVar[Resource] = Resource(
        "scheduling.muster.dev", "v1alpha3", "podgroups", "PodGroup"
    )

    scheduled_condition: ClassVar[str] = CONDITION_POD_GROUP_SCHEDULED

    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    """spec is the desired state of the group."""

    status: PodGroupStatus = Field(default_factory=PodGroupStatus)
    """status is the most recently observed state of the group."""


class CompositePodGroupSpec(_Common):
    """CompositePodGroupSpec is the desired state of a group of groups with one policy."""

    workloadRef: WorkloadReference | None = None
    """workloadRef names the template that this group was created from. Required. Immutable."""

    parentCompositePodGroupName: str | None = None
    """parentCompositePodGroupName is the name of the parent in the tree. A group without a parent
    is a root. Immutable.
    """

    schedulingPolicy: CompositeSchedulingPolicy | None = None
    """schedulingPolicy defines how the child groups are scheduled. Required. Immutable except for
    minGroupCount.
    """


class CompositePodGroupStatus(_Status):
    """CompositePodGroupStatus is the most recently observed state of a CompositePodGroup."""

    children: int = 0
    """children is the number of groups that name this group as their parent."""

    scheduledChildren: int = 0
    """scheduledChildren is the number of children that have reached their minCount or
    minGroupCount.
    """


class CompositePodGroup(Object):
    """CompositePodGroup is a set of groups with one policy: an inner node of a tree of groups."""

    resource: ClassVar[Resource] = Resource(
        "scheduling.muster.dev", "v1alpha3", "compositepodgroups", "CompositePodGroup"
    )

    scheduled_condition: ClassVar[str] = CONDITION_COMPOSITE_SCHEDULED

    spec: CompositePodGroupSpec = Field(default_factory=CompositePodGroupSpec)
    """spec is the desired state of the group."""

    status: CompositePodGroupStatus = Field(default_factory=CompositePodGroupStatus)
    """status is the most recently observed state of the group."""
