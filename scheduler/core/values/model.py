"""Plain, frozen values of Kubernetes objects for the decision core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from scheduler.core.values.device_asks import Ask
from scheduler.core.values.extended_devices import ContainerDevices

POD_GROUP = "PodGroup"
COMPOSITE_POD_GROUP = "CompositePodGroup"
SINGLE_POD = "Pod"
WORKLOAD = "Workload"

GroupKey = tuple[str, str, str]
"""(kind, namespace, name) of a group, or of a pod that belongs to no group.

The kind of another API's groups ends with the name of that API, as in `PodGroup.example.com`. One
tree never mixes the groups of two APIs.
"""


def plain_kind(kind: str) -> str:
    """Return the kind of a group without the name of its API."""
    return kind.partition(".")[0]


def parent_kind(kind: str) -> str:
    """Return the kind of the parents of groups of this kind, which has the same API."""
    return COMPOSITE_POD_GROUP + kind[len(plain_kind(kind)) :]


Release = tuple[int, int]
"""A release of Kubernetes: major and minor version."""

NEWEST_RELEASE: Final[Release] = (1, 37)
"""Release that decisions follow until another is known."""


@dataclass(frozen=True, slots=True)
class Taint:
    """Taint of a node; a PreferNoSchedule taint only lowers the node's score."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Toleration of a pod; an empty key with Exists matches any key, an empty effect any effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Expression:
    """Requirement of a selector, on a label or, in a node selector term, on a node field."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Node selector term: all expressions and fields must match; an empty term matches no node."""

    expressions: tuple[Expression, ...]
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selector of pods by label and by namespace.

    `expressions` None selects no pod. A pod's namespace must be listed in `namespaces`, or the
    namespace's labels must match `of_namespaces` (namespaceSelector); None there matches none.
    """

    expressions: tuple[Expression, ...] | None
    namespaces: tuple[str, ...]
    of_namespaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pod affinity or anti-affinity term; `key` is its topologyKey."""

    selector: PodSelector
    key: str


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """Required affinity of a pod to the pods of one of its own groups, including itself.

    That group is `above` levels above the pod's PodGroup.
    """

    term: PodTerm
    above: int = 0


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """Preferred term; `weight` is 1 to 100 for affinity and -100 to -1 for anti-affinity."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class Spread:
    """Topology spread constraint; `key` is its topologyKey.

    With `honours_affinity`, nodes that the pod's node affinity excludes do not count. With
    `honours_taints`, nodes with taints that it does not tolerate do not count. `min_domains` is 1
    if the pod sets none.
    """

    selector: PodSelector
    key: str
    max_skew: int = 1
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


WHOLE = ""
"""Part of a port or disk that a pod uses: all of it, so no other pod can use any of it."""

SHARED = "shared"
"""Part of a disk that any number of pods may use, as long as none uses all of it."""

_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # compared, never listened on


@dataclass(frozen=True, slots=True)
class HostPort:
    """Host port; the address 0.0.0.0 means all addresses of the node."""

    protocol: str
    port: int
    address: str = _ALL_ADDRESSES

    @property
    def key(self) -> tuple[str, int]:
        return (self.protocol, self.port)

    @property
    def part(self) -> str:
        return WHOLE if self.address == _ALL_ADDRESSES else self.address


@dataclass(frozen=True, slots=True)
class Disk:
    """Disk that a pod's volume names itself, without a claim.

    `kind` is the volume's field. An rbd image is one disk for each of its monitors, because two
    images are the same if they have one monitor in common; `location` is the pool and the monitor,
    else empty. `shared` means that the pod only reads it, so that others may read it as well.
    """

    kind: str
    name: str
    location: tuple[str, ...] = ()
    shared: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        return (self.kind, self.name, *self.location)

    @property
    def part(self) -> str:
        return SHARED if self.shared else WHOLE


@dataclass(frozen=True, slots=True)
class Attachment:
    """Disk that a CSI driver attaches for a volume without a claim; `handle` is the driver's."""

    driver: str
    handle: str


ClaimKey = tuple[str, str]
"""(namespace, name) of a PersistentVolumeClaim or a ResourceClaim."""

VolumeUse = ClaimKey | Attachment
"""Volume of a pod that a node attaches: a claim, or a disk without a claim."""


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """PersistentVolumeClaim; `volume` is empty until binding is complete.

    `requested_volume` is the volume that an unbound claim names. `one_pod` means ReadWriteOncePod.
    An existing volume must have at least `size` bytes and the same class, `mode` and
    VolumeAttributesClass (`attributes`). Unless its claimRef names the claim, it must also have all
    `access` modes and match `selector`; None matches every volume.
    """

    key: ClaimKey
    volume: str = ""
    storage_class: str = ""
    selected_node: str = ""
    one_pod: bool = False
    lost: bool = False
    terminating: bool = False
    uid: str = ""
    requested_volume: str = ""
    size: int = 0
    access: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes: str = ""
    selector: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """PersistentVolume; `affinity` None allows every node, `driver` is empty unless it is CSI.

    `claim` is its claimRef, the claim that it is reserved for or bound to; an empty `claim_uid`
    accepts any claim of that name. `available` means phase Available; `size` is in bytes.
    """

    name: str
    affinity: tuple[NodeTerm, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    storage_class: str = ""
    size: int = 0
    access: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes: str = ""
    claim: ClaimKey | None = None
    claim_uid: str = ""
    available: bool = False
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class StorageClassInfo:
    """StorageClass; `waits` means WaitForFirstConsumer, `topologies` is allowedTopologies."""

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: tuple[NodeTerm, ...] = ()


CapacityKey = tuple[str, str]
"""(namespace, name) of a CSIStorageCapacity."""


@dataclass(frozen=True, slots=True)
class StorageCapacityInfo:
    """CSIStorageCapacity: the largest volume of the class, in bytes, on nodes with these labels.

    An empty `topology` matches all nodes.
    """

    key: CapacityKey
    storage_class: str
    largest: int
    topology: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage of a tree: pods of two stages of one tree never run at the same time.

    `number` is 1 or more. `exists` is False for an expected pod, which only has a held place.
    `tree` is the root of the pod's group, or None if unknown.
    """

    number: int
    exists: bool = True
    tree: GroupKey | None = None

    def apart(self, other: Stage | None) -> bool:
        """Return True if pods of the two stages never run together."""
        # Two pods that both exist do run together, whatever their owner states about stages.
        if other is None or self.tree != other.tree or (self.exists and other.exists):
            return False
        return self.number != other.number


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements of a pod; pods with equal requirements and matches share a shape.

    `requests` are in milli-units for cpu and in units otherwise, sorted by name, without zeros.
    `affinity` is the required node affinity: None if the pod has none; empty matches no node.
    `preferred_node_affinity` has (weight, term) pairs, weights 1 to 100. `spread` has the
    DoNotSchedule constraints, `preferred_spread` the ScheduleAnyway ones. `unsupported` names
    features that the scheduler does not implement: a pod that uses one is always rejected. A pod
    with an `excess` is rejected as well: the text states what it has too many of, and its terms are
    left out. `disks` and `attachments` are those of volumes without a claim; a disk may be in both.
    `asks` are the pod's ResourceClaims in the order of its spec: the `Ask` of an own claim without
    an allocation, or the key of any other claim. `extended` are the containers that request
    extended resources which devices may provide. A pod with a node needs neither of them: its
    claims hold its devices. `stage` is None for a pod that may run at the same time as all others
    of its tree. `declared_features` are those that the pod's node must declare. `assumed` are the
    cpu (milli) and memory (bytes) that LeastAllocated adds for containers that request none.
    """

    requests: tuple[tuple[str, int], ...] = ()
    node_name: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    unsupported: tuple[str, ...] = ()
    ports: tuple[HostPort, ...] = ()
    required_affinity: tuple[PodTerm, ...] = ()
    required_anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    claims: tuple[ClaimKey, ...] = ()
    preferred_node_affinity: tuple[tuple[int, NodeTerm], ...] = ()
    preferred_affinity: tuple[WeightedPodTerm, ...] = ()
    preferred_spread: tuple[Spread, ...] = ()
    excess: str = ""
    disks: tuple[Disk, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    asks: tuple[Ask | ClaimKey, ...] = ()
    extended: tuple[ContainerDevices, ...] = ()
    stage: Stage | None = None
    declared_features: tuple[str, ...] = ()
    assumed: tuple[int, int] = (0, 0)

    @property
    def needs_devices(self) -> bool:
        """True if its pods need devices, at least on some nodes."""
        return bool(self.asks or self.extended)

    @property
    def volumes(self) -> tuple[VolumeUse, ...]:
        return (*self.claims, *self.attachments)

    @property
    def needs_counts(self) -> bool:
        """True if it has terms about other pods, or volumes, which need match counts."""
        return bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.spread
            or self.preferred_affinity
            or self.preferred_spread
            or self.claims
            or self.attachments
        )


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """Node; `allocatable` includes `pods` and has the units of Requirements.requests.

    Only administrators and the node know `uid`; it distinguishes mirror pods from forged ones.
    `declared_features` are those that its kubelet declares, sorted.
    """

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    uid: str = ""
    declared_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Topology constraint: the subtree's pods share a domain of `key`; preferred: if possible."""

    key: str
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slices of a PodGroup: each has `size` pods, which share a domain of the topology `key`.

    A `flaw` is what is wrong with the values, for users; then no pod of the group gets a node.
    `job_pods` is the number of indexes of each Job if several Jobs have pods in the group, 0 if it
    is not known.
    """

    size: int
    key: str
    flaw: str = ""
    job_pods: int = 0


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """PodGroup or CompositePodGroup.

    `minimum` is minCount or minGroupCount, 1 for the basic policy, None while there is no policy.
    `priority` None means that it was not resolved; the priorities of the members are used instead.
    `preempts` is false for preemptionPolicy Never; `delay` is the time in seconds that preemption
    waits. `min_run` is the time in seconds for which a root asks to run before it is evicted, None
    if it does not. `start_within` is the time in seconds within which a root must start for the
    first time; 0 means that it may wait forever. `eviction_cost` and `checkpoint` are what the
    owner of a root reports of its cost as a victim, the latter as the time of the last one in
    seconds since 1970, 0 for none. `preempted` are the number of its recent preemptions and the
    time of the first. `bind_within` is the time in seconds for binding a root; 0 means the
    scheduler's default. `template` is the name of the template of `workload` that it was created
    from. `priority_class` is the name of its PriorityClass, empty if it names none. `owner` is the
    kind and name of the object that Muster created it for, None for a user's group. `requested` is
    the time at which capacity was requested for it, in seconds since 1970, long ago if that failed;
    None if it was not requested. `hold` is the time in seconds to hold places for expected pods;
    None means the default. `reserves` means that they are held before any of its pods exists.
    `gate_off` names a disabled feature gate without which none of its pods is placed. `maker_off`
    names a disabled feature gate by which the group was created: it waits unless it was scheduled
    before. `shared` means that the group is of an API that other schedulers serve, too: it is this
    scheduler's if its pods are. It need not agree with a template, nor with the priority and
    disruption mode of its parent: all pods must have the priority of the root. `slicing` are the
    slices of a PodGroup, None without any. `movable` is true if a root may be moved for another,
    None if only its namespace decides. For a root that waits, others may be moved until
    `defragment_until`, in seconds since 1970.
    """

    key: GroupKey
    minimum: int | None
    gang: bool = True
    parent: str | None = None
    priority: int | None = None
    workload: str | None = None
    topology: Topology | None = None
    disruption: Literal["single", "all"] = "single"
    created: str = ""
    preempts: bool = True
    delay: float = 0.0
    min_run: float | None = None
    start_within: float = 0.0
    eviction_cost: int = 0
    checkpoint: float = 0.0
    preempted: tuple[int, float] = (0, 0.0)
    bind_within: float = 0.0
    template: str = ""
    priority_class: str = ""
    owner: tuple[str, str] | None = None
    requested: float | None = None
    gate_off: str = ""
    maker_off: str = ""
    hold: float | None = None
    reserves: bool = False
    shared: bool = False
    slicing: Slicing | None = None
    movable: bool | None = None
    defragment_until: float = 0.0


@dataclass(frozen=True, slots=True)
class PreemptionInfo:
    """Fields of a pod that only preemption reads, apart from its priority.

    As a preemptor: `preempts` is false for preemptionPolicy Never; `delay` is as in GroupSpec. As a
    victim: `min_run` and `eviction_cost` are as in GroupSpec, for a pod without a group;
    `checkpoint` also counts for the root of the pod's group. `targeted` means that this scheduler
    set the DisruptionTarget condition to evict it, at the time `targeted_at` (as in `created`), and
    `target_says` is its message. `leaves_by` is the deletionTimestamp in seconds of the monotonic
    clock, 0 if unset. `grace` is the terminationGracePeriodSeconds. `daemon_set` is the UID of the
    DaemonSet that controls the pod, `mirror_of` the UID of the node whose static pod it mirrors;
    both as the pod claims. `deadline` is the activeDeadlineSeconds, 0 if unset.
    """

    preempts: bool = True
    delay: float = 0.0
    targeted: bool = False
    targeted_at: str = ""
    leaves_by: float = 0.0
    grace: float = 30.0
    daemon_set: str = ""
    mirror_of: str = ""
    target_says: str = ""
    min_run: float | None = None
    eviction_cost: int = 0
    checkpoint: float = 0.0
    deadline: float = 0.0


HoldKind = Literal["gate", "reference", "owner", "growth", "claims"]
"""Why this scheduler holds a pod that waits, see `PodInfo.hold`."""


@dataclass(frozen=True, slots=True)
class MembershipInfo:
    """Relation of a pod to its PodGroup.

    `claims` are the owners that the group must have (`api.membership`). `managed` means that
    admission named the group, `asks` that the pod's annotations define it. `maker` is the kind and
    name of the controller of a pod that has a group. `held` means that the group belongs to another
    owner, or that the pod names no complete group. `workload` is the Workload that the labels of a
    waiting pod name, if its group is created from one. `bound_at` is the time at which a Failed pod
    was bound (as in `created`).
    """

    claims: tuple[str, ...] = ()
    maker: str = ""
    managed: bool = False
    held: bool = False
    bound_at: str = ""
    asks: bool = False
    workload: str = ""


@dataclass(frozen=True, slots=True)
class GroupConsumer:
    """The group, by its UID, that these `claims` of its pods are reserved for, not each pod."""

    uid: str
    claims: tuple[ClaimKey, ...]


_PREEMPTION: Final = PreemptionInfo()
_MEMBERSHIP: Final = MembershipInfo()


@dataclass(frozen=True, slots=True)
class PodInfo:
    """Pod; `ours` means that its schedulerName, in `scheduler`, is one of this scheduler's.

    `node` is empty until the pod is bound; `group` is the name of its PodGroup, `group_kind` its
    kind. `group_affinity` is required affinity that its requirements leave out, as long as a
    topology constraint of its groups requires the same. `exceeds` means that the group must first
    grow to the size of its owner before the pod may be placed. `started` is the startTime in
    seconds since 1970, 0 if unset. `nominated` is the nominatedNodeName. `generation` is
    metadata.generation, 0 if the API server does not maintain it.

    `device_claims` are the keys of the ResourceClaims of `requirements.asks`, in the same order.
    The last key is that of the claim for `requirements.extended`, which may not exist yet. Those of
    a bound pod are all claims that it uses. `consumer` has those of a waiting pod that are reserved
    for its group, if any. `unclaimed` is the reason why its ResourceClaims block
    a decision: such a pod counts as one with a scheduling gate. It is empty if they do not.

    `expected` means that no such pod exists yet: it represents one that its group will have. It has
    no UID of a pod, is pending like one, and holds its place after it is assumed until the pod
    exists.

    `controller` is the UID of the ReplicaSet, ReplicationController or StatefulSet that controls
    the pod, if one does. `images` are those of the containers and volumes of a waiting pod, with
    their tags, one for each use; of a bound pod they are left out.

    A patch of the pod's status needs `version` and `conditions`: the last delivered
    resourceVersion, and whether the pod had conditions then ("some"), including DisruptionTarget
    ("target"). No decision depends on them.
    """

    uid: str
    namespace: str
    name: str
    requirements: Requirements
    node: str = ""
    group: str | None = None
    priority: int = 0
    created: str = ""
    phase: str = "Pending"
    ours: bool = True
    gated: bool = False
    exceeds: bool = False
    started: float = 0.0
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    nominated: str = ""
    scheduler: str = ""
    group_affinity: tuple[GroupTerm, ...] = ()
    device_claims: tuple[ClaimKey, ...] = ()
    # Most pods share these two objects: each field of a pod costs every event of every pod.
    preemption: PreemptionInfo = _PREEMPTION
    membership: MembershipInfo = _MEMBERSHIP
    unclaimed: str = ""
    group_kind: str = POD_GROUP
    consumer: GroupConsumer | None = None
    expected: bool = False
    controller: str = ""
    images: tuple[str, ...] = ()
    # Not compared: a pod that differs only in these counts as unchanged.
    version: str = field(default="", compare=False)
    conditions: Literal["", "some", "target"] = field(default="", compare=False)

    @property
    def hold(self) -> HoldKind | None:
        """Why the pod is not decided while it waits, the first reason to remove; None if it is.

        `gate`: it has schedulingGates; `reference`: its labels name a group only in part; `owner`:
        its group belongs to another owner; `growth`: it `exceeds` its group; `claims`: `unclaimed`.
        """
        if self.gated:
            return "gate"
        if self.membership.held:
            return "reference" if self.group is None else "owner"
        if self.exceeds:
            return "growth"
        return "claims" if self.unclaimed else None
