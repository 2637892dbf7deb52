"""v1alpha3, the version that is stored (KEP-6012): Workload, PodGroup, CompositePodGroup."""

# ruff: noqa: N815  fields bear the API's own names

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from api.constants import MAX_DEPTH
from api.models.parts import Condition, Empty, ListMap


class TopologyConstraint(BaseModel):
    """TopologyConstraint restricts a group to one domain of the cluster's topology."""

    key: str = Field(
        "",
        description="key is the key of a node label, such as topology.kubernetes.io/zone, or the "
        "qualified name of an attribute of the nodes' devices, such as gpu.example.com/clique. "
        "All pods of the group are placed on nodes that have the same value for it, within the "
        "domain of the parent. Nodes without a value are excluded. Required.",
    )
    preferred: bool = Field(
        False,
        description="preferred is a field that only Muster has. When true, the scheduler places "
        "the group in one domain if it has enough capacity, and otherwise in as few domains as "
        "possible. When false (the default), the group waits until one domain has enough "
        "capacity.",
    )


class SchedulingConstraints(BaseModel):
    """SchedulingConstraints restricts where a group may be placed.

    Its pods can have further constraints.
    """

    topology: list[TopologyConstraint] = Field(
        [], description="topology is the list of topology constraints, at most one."
    )


class DisruptionMode(BaseModel):
    """DisruptionMode defines which members of a group are disrupted together.

    Exactly one mode must be set.
    """

    single: Empty | None = Field(
        None, description="single means that members can be disrupted independently of each other."
    )
    all: Empty | None = Field(
        None,
        description="all means that all members are disrupted together or not at all. Every "
        "child of a composite with this mode must have it too.",
    )


class GangSchedulingPolicy(BaseModel):
    """GangSchedulingPolicy defines the parameters of gang scheduling for pods."""

    minCount: int = Field(
        0,
        description="minCount is the minimum number of pods that must be scheduled together "
        "before any of them runs. It must be at least 1. It can be changed later, and all other "
        "fields of the policy are immutable. Required.",
    )


class SchedulingPolicy(BaseModel):
    """SchedulingPolicy defines how the pods of a group are scheduled.

    Exactly one policy must be set.
    """

    basic: Empty | None = Field(
        None,
        description="basic means that the scheduler schedules pods one by one, within the "
        "domain of the group.",
    )
    gang: GangSchedulingPolicy | None = Field(
        None,
        description="gang means that the scheduler schedules at least minCount pods "
        "together, or none.",
    )


class GangGroupSchedulingPolicy(BaseModel):
    """GangGroupSchedulingPolicy defines the parameters of gang scheduling for child groups."""

    minGroupCount: int = Field(
        0,
        description="minGroupCount is the minimum number of child groups that must be scheduled "
        "together before any of them runs. It must be at least 1. It can be changed later. "
        "Required.",
    )


class CompositeSchedulingPolicy(BaseModel):
    """CompositeSchedulingPolicy defines how the child groups of a composite are scheduled.

    Exactly one policy must be set.
    """

    basic: Empty | None = Field(
        None, description="basic means that the scheduler schedules child groups one by one."
    )
    gang: GangGroupSchedulingPolicy | None = Field(
        None,
        description="gang means that the scheduler schedules at least minGroupCount child "
        "groups together, or none.",
    )


class ResourceClaim(BaseModel):
    """ResourceClaim is a reference to a ResourceClaim that the pods of a group share."""

    name: str = Field(
        "",
        description="name is a DNS label that is unique within the list. Pods refer to the "
        "claim by this name. Required.",
    )
    resourceClaimName: str | None = Field(
        None,
        description="resourceClaimName is the name of a ResourceClaim in the group's namespace. "
        "Exactly one of resourceClaimName and resourceClaimTemplateName must be set.",
    )
    resourceClaimTemplateName: str | None = Field(
        None,
        description="resourceClaimTemplateName is the name of the ResourceClaimTemplate from "
        "which Muster creates one claim for the group. The name of that claim is PODGROUP.NAME, "
        "from the names of the group and of this entry, and pods name that claim.",
    )


class _Common(BaseModel):
    """Fields that templates and groups share."""

    schedulingConstraints: SchedulingConstraints | None = Field(
        None,
        description="schedulingConstraints restricts where the group may be placed. Immutable.",
    )
    disruptionMode: DisruptionMode | None = Field(
        None,
        description="disruptionMode defines which members are disrupted together. The "
        "default is single. Immutable.",
    )
    priorityClassName: str = Field(
        "",
        description="priorityClassName is the name of the group's PriorityClass. The default is "
        "the cluster's default class. All groups of a tree and all their pods must have the same "
        "priority. Immutable.",
    )
    priority: int | None = Field(
        None,
        description="priority is the value of the PriorityClass. Admission sets it on creation. "
        "It is at most 1000000000 unless the class is a system class. If a user sets it, it must "
        "equal the computed value. Immutable.",
    )
    preemptionPolicy: str = Field(
        "",
        description="preemptionPolicy is PreemptLowerPriority or Never. With "
        "PreemptLowerPriority, the group may preempt groups of lower priority. With Never, it "
        "waits. The default is the policy of the PriorityClass. If the policy of the class is "
        "Never, this field can only be Never. Immutable.",
    )


class _Template(_Common):
    """Fields that all templates share."""

    name: str = Field(
        "",
        description="name is a DNS label that is unique among all templates of the Workload. "
        "Required.",
    )


class PodGroupTemplate(_Template):
    """PodGroupTemplate is the template of a PodGroup."""

    schedulingPolicy: SchedulingPolicy | None = Field(
        None, description="schedulingPolicy defines how the group's pods are scheduled. Required."
    )
    resourceClaims: Annotated[list[ResourceClaim], ListMap("name")] = Field(
        [],
        description="resourceClaims is the list of ResourceClaims that the group's pods share, "
        "at most 4. At most 256 pods can use a claim at the same time.",
    )


class CompositePodGroupTemplate(_Template):
    """CompositePodGroupTemplate is the template of a CompositePodGroup.

    It has at least one template of its children.
    """

    schedulingPolicy: CompositeSchedulingPolicy | None = Field(
        None, description="schedulingPolicy defines how the child groups are scheduled. Required."
    )
    podGroupTemplates: Annotated[list[PodGroupTemplate], ListMap("name")] = Field(
        [],
        description="podGroupTemplates is the list of templates of child PodGroups, at most "
        "8. Immutable.",
    )
    compositePodGroupTemplates: Annotated[list["CompositePodGroupTemplate"], ListMap("name")] = (
        Field(
            [],
            description="compositePodGroupTemplates is the list of templates of child "
            f"CompositePodGroups, at most 8. The tree has at most {MAX_DEPTH} levels. Immutable.",
        )
    )


class ControllerReference(BaseModel):
    """ControllerReference refers to the object that controls the pods of the Workload."""

    apiGroup: str = Field(
        "",
        description="apiGroup is the API group of the owner, such as batch. It is empty for "
        "the core group.",
    )
    kind: str = Field("", description="kind is the kind of the owner, such as Job. Required.")
    name: str = Field(
        "", description="name is the name of the owner, in the same namespace. Required."
    )


class Controlled(BaseModel):
    """The field that the specs of all versions of Workload share."""

    controllerRef: ControllerReference | None = Field(
        None,
        description="controllerRef refers to the object that controls the workload, such "
        "as a Job or a JobSet. Immutable.",
    )


class WorkloadSpec(Controlled):
    """WorkloadSpec has the templates of a workload's groups: a flat list, or one or more trees."""

    podGroupTemplates: Annotated[list[PodGroupTemplate], ListMap("name")] = Field(
        [],
        description="podGroupTemplates is the list of templates of PodGroups without a parent, "
        "at most 8. Exactly one of podGroupTemplates and compositePodGroupTemplates must be set. "
        "Immutable except for minCount.",
    )
    compositePodGroupTemplates: Annotated[list[CompositePodGroupTemplate], ListMap("name")] = Field(
        [],
        description="compositePodGroupTemplates is the list of templates of the roots of trees, "
        "at most 8. Immutable except for minCount and minGroupCount.",
    )


class WorkloadReference(BaseModel):
    """WorkloadReference names the template that a group was created from."""

    workloadName: str = Field(
        "", description="workloadName is the name of the Workload, in the same namespace. Required."
    )
    templateName: str = Field(
        "",
        description="templateName is the name of the template within the Workload, at any "
        "level. Required.",
    )


class ExpectedPods(BaseModel):
    """ExpectedPods describes pods of one kind that a group will have.

    Some of them need not exist yet.
    """

    name: str = Field(
        "",
        description="name is a DNS label that is unique within the list. The status names "
        "the pods by it. Required.",
    )
    count: int = Field(
        0,
        description="count is the number of such pods that the group has once all of them exist. "
        "It includes those that exist, and it is at most 10000.",
    )
    template: dict[str, Any] = Field(
        {},
        description="template has the metadata.labels and the spec of such a pod, as its owner "
        "will create it. The scheduler reads only the fields that restrict where the pod may "
        "run. The template has at most 16 KiB as JSON. Required.",
    )
    stage: int = Field(
        0,
        description="stage defines when these pods run, 1 to 8. The owner creates the pods of a "
        "stage after those of all lower stages in the same tree have ended. So the pods of "
        "different stages never run at the same time, and they may use the same capacity. With 0 "
        "(the default) the pods may run at the same time as the pods of any stage.",
    )


class PodGroupSpec(_Common):
    """PodGroupSpec is the desired state of a group of pods with one scheduling policy."""

    workloadRef: WorkloadReference | None = Field(
        None,
        description="workloadRef names the template that this group was created from. Required "
        "for a group with a parent. Immutable.",
    )
    parentCompositePodGroupName: str | None = Field(
        None,
        description="parentCompositePodGroupName is the name of the parent in the tree. A "
        "group without a parent is a root. Immutable.",
    )
    schedulingPolicy: SchedulingPolicy | None = Field(
        None,
        description="schedulingPolicy defines how the group's pods are scheduled. It is optional "
        "for a group with a workloadRef, which gets the policy of its template once the Workload "
        "exists. Immutable except for minCount.",
    )
    resourceClaims: Annotated[list[ResourceClaim], ListMap("name")] = Field(
        [],
        description="resourceClaims is the list of ResourceClaims that the group's pods "
        "share, at most 4. Immutable.",
    )
    expectedPods: Annotated[list[ExpectedPods], ListMap("name")] = Field(
        [],
        description="expectedPods describes the pods that the group will have, at most 8 kinds, "
        "if some of them are created only after others run. They count as members, and the "
        "scheduler reserves capacity for those that do not exist yet. It can be changed later.",
    )


class CompositePodGroupSpec(_Common):
    """CompositePodGroupSpec is the desired state of a group of groups with one policy."""

    workloadRef: WorkloadReference | None = Field(
        None,
        description="workloadRef names the template that this group was created from. "
        "Required. Immutable.",
    )
    parentCompositePodGroupName: str | None = Field(
        None,
        description="parentCompositePodGroupName is the name of the parent in the tree. A "
        "group without a parent is a root. Immutable.",
    )
    schedulingPolicy: CompositeSchedulingPolicy | None = Field(
        None,
        description="schedulingPolicy defines how the child groups are scheduled. Required. "
        "Immutable except for minGroupCount.",
    )


class BestDomain(BaseModel):
    """BestDomain is the domain with the most capacity for the group."""

    key: str = Field("", description="key is the topology key.")
    value: str = Field(
        "", description="value is the value of the key, which identifies the domain."
    )
    missing: int = Field(
        0, description="missing is the number of members that do not fit in the domain."
    )


class BlockerCount(BaseModel):
    """BlockerCount is the number of nodes that are excluded for one reason."""

    reason: str = Field(
        "", description="reason is the reason why a member does not fit these nodes."
    )
    nodes: int = Field(0, description="nodes is the number of nodes.")


class WaitsFor(BaseModel):
    """WaitsFor names another group of the tree."""

    kind: str = Field("", description="kind is PodGroup or CompositePodGroup.")
    name: str = Field("", description="name is the name of the group.")


class Blocker(BaseModel):
    """Blocker is the main reason why a group waits, with numbers.

    It is absent when the group does not wait.
    """

    summary: str = Field(
        "",
        description="summary is a human readable message that states why "
        "the group waits and what to change.",
    )
    kind: str = Field(
        "",
        description="kind is one of capacity, constraint, quorum, priority, binding, "
        "invalid, error.",
    )
    waitsFor: WaitsFor | None = Field(
        None,
        description="waitsFor names the group of the tree that the reason is about. It is absent "
        "if that is this group.",
    )
    needed: int = Field(
        0, description="needed is the number of members that must be scheduled together."
    )
    free: int = Field(0, description="free is the number of those members that fit.")
    bestDomain: BestDomain | None = Field(
        None,
        description="bestDomain is the domain with the most capacity, if the group has a "
        "topology constraint.",
    )
    counts: list[BlockerCount] = Field(
        [], description="counts has the number of excluded nodes for each reason."
    )
    impossible: bool = Field(
        False,
        description="impossible is true if the group would not fit even if the cluster were empty.",
    )
    since: datetime | None = Field(
        None, description="since is the time at which the group began to wait for this reason."
    )
    retryOn: list[str] = Field(
        [],
        description="retryOn is the list of cluster changes after which the scheduler "
        "retries the group.",
    )


class ResourceClaimStatus(BaseModel):
    """ResourceClaimStatus names the ResourceClaim of an entry of spec.resourceClaims."""

    name: str = Field("", description="name is the name of the entry of spec.resourceClaims.")
    resourceClaimName: str | None = Field(
        None,
        description="resourceClaimName is the name of the ResourceClaim that Muster "
        "created. It is absent if none was needed.",
    )


class _Status(BaseModel):
    """Fields that both statuses share."""

    conditions: Annotated[list[Condition], ListMap("type")] = Field(
        [],
        description="conditions has the conditions PodGroupInitiallyScheduled "
        "(CompositePodGroupInitiallyScheduled), DisruptionTarget and, on the root of a tree, "
        "Preempted. PodGroupInitiallyScheduled "
        "is True with reason Scheduled once minCount pods (minGroupCount child groups) were "
        "scheduled, and then it remains True. Before, it is False with reason Unschedulable, "
        "Incomplete, Invalid, SchedulerError or StartTimeout. DisruptionTarget is True with reason "
        "PreemptionByScheduler when the group is about to be disrupted, and False once the group "
        "runs again. StartTimeout is on a root with a start-timeout that waits for its first "
        "start: False while the time counts, from lastTransitionTime on, and True once the "
        "scheduler gave the group up. "
        "Preempted is True after a preemption that disrupted a gang of the tree; its "
        "message counts the recent ones, and lastTransitionTime is the time of the first of them.",
    )
    blocker: Blocker | None = Field(
        None,
        description="blocker states why the group waits. It is "
        "absent when the group does not wait.",
    )


class HeldPods(BaseModel):
    """HeldPods describes capacity that is reserved on one node for pods that do not exist yet."""

    name: str = Field("", description="name is the name of the entry of spec.expectedPods.")
    node: str = Field("", description="node is the name of the node.")
    count: int = Field(
        0, description="count is the number of pods for which the node has reserved capacity."
    )


class HeldPlaces(BaseModel):
    """HeldPlaces describes the capacity that is reserved for the expected pods of a group."""

    since: datetime | None = Field(
        None, description="since is the time from which the capacity is reserved."
    )
    until: datetime | None = Field(
        None,
        description="until is the time at which the scheduler "
        "releases the capacity that no pod uses by then.",
    )
    pods: list[HeldPods] = Field(
        [],
        description="pods has the number of reserved pods by entry and node, at most 1000 items.",
    )


class PodGroupStatus(_Status):
    """PodGroupStatus is the most recently observed state of a PodGroup."""

    members: int = Field(
        0, description="members is the number of pods that name this group and have not finished."
    )
    scheduledPods: int = Field(
        0, description="scheduledPods is the number of pods of the group that have a node."
    )
    resourceClaimStatuses: Annotated[list[ResourceClaimStatus], ListMap("name")] = Field(
        [], description="resourceClaimStatuses names the ResourceClaims of spec.resourceClaims."
    )
    heldPlaces: HeldPlaces | None = Field(
        None,
        description="heldPlaces describes the capacity that is reserved for "
        "spec.expectedPods. It is absent if none is reserved.",
    )


class CompositePodGroupStatus(_Status):
    """CompositePodGroupStatus is the most recently observed state of a CompositePodGroup."""

    children: int = Field(
        0, description="children is the number of groups that name this group as their parent."
    )
    scheduledChildren: int = Field(
        0,
        description="scheduledChildren is the number of children that have reached their "
        "minCount or minGroupCount.",
    )


class Workload(BaseModel):
    """Workload defines how one workload is scheduled: templates of its groups, flat or as a tree.

    Controllers create PodGroups and CompositePodGroups from it.
    """

    spec: WorkloadSpec | None = Field(
        None, description="spec has the templates of the Workload and a reference to its owner."
    )


class PodGroup(BaseModel):
    """PodGroup is a set of pods with one policy: all or nothing (gang), or one by one (basic).

    A pod names its group by the label scheduling.muster.dev/pod-group, or by
    spec.schedulingGroup where Kubernetes has it.
    """

    spec: PodGroupSpec | None = Field(None, description="spec is the desired state of the group.")
    status: PodGroupStatus | None = Field(
        None, description="status is the most recently observed state of the group."
    )


class CompositePodGroup(BaseModel):
    """CompositePodGroup is a set of groups with one policy: an inner node of a tree of groups."""

    spec: CompositePodGroupSpec | None = Field(
        None, description="spec is the desired state of the group."
    )
    status: CompositePodGroupStatus | None = Field(
        None, description="status is the most recently observed state of the group."
    )
