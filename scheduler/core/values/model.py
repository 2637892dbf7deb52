"""The plain, frozen values that the decision core works on in place of Kubernetes objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from scheduler.core.values.device_asks import Ask
from scheduler.core.values.extended_devices import ContainerDevices

POD_GROUP = "PodGroup"
COMPOSITE_POD_GROUP = "CompositePodGroup"
SINGLE_POD = "Pod"

GroupKey = tuple[str, str, str]
"""(kind, namespace, name) of a group, or of a pod that belongs to no group."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node; a PreferNoSchedule taint only lowers the node's score."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; an empty key with Exists matches any key, an empty effect any effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement of a selector, on a label or, in a node selector term, on a node field."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term: all expressions and fields must match; without any, no node does."""

    expressions: tuple[Expression, ...]
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods by label and by namespace.

    `expressions` None selects no pod. A pod's namespace must be listed in `namespaces`, or the
    namespace's labels must match `of_namespaces` (namespaceSelector); None there matches none.
    """

    expressions: tuple[Expression, ...] | None
    namespaces: tuple[str, ...]
    of_namespaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod affinity or anti-affinity term; `key` is its topologyKey."""

    selector: PodSelector
    key: str


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """A pod's required affinity to pods of one group that it is in, itself among them.

    That group is `above` levels above the pod's PodGroup.
    """

    term: PodTerm
    above: int = 0


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preferred term; `weight` is 1 to 100 for affinity and -100 to -1 for anti-affinity."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint; `key` is its topologyKey.

    With `honours_affinity` (`honours_taints`), nodes that the pod's node affinity excludes (with
    taints that it does not tolerate) are not counted. `min_domains` is 1 if the pod sets none.
    """

    selector: PodSelector
    key: str
    max_skew: int = 1
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


WHOLE = ""
"""The part of what a pod uses on its node: all of it, so nobody else can use any of it."""

SHARED = "shared"
"""The part that any number of pods may use, as long as none uses the whole."""

_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # compared, never listened on


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port; the address 0.0.0.0 stands for all addresses of the node."""

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
    """A disk that a pod's volume names itself, without a claim.

    `kind` is the volume's field. An rbd image is one disk for each of its monitors, as two images
    are the same if they have one in common; `location` is the pool and the monitor, else empty.
    `shared` means that the pod only reads it and lets others do so, too.
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
    """A disk that a CSI driver attaches for a volume without a claim; `handle` is the driver's."""

    driver: str
    handle: str


ClaimKey = tuple[str, str]
"""(namespace, name) of a PersistentVolumeClaim or a ResourceClaim."""

VolumeUse = ClaimKey | Attachment
"""What a pod uses that a node attaches for it."""


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """A PersistentVolumeClaim; `volume` is empty until binding is complete.

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
    """A PersistentVolume; `affinity` None allows every node, `driver` is empty unless it is CSI.

    `claim` is its claimRef, the claim that it is reserved for or bound to; an empty `claim_uid`
    accepts any claim of that name. `available` means phase Available; `size` is in bytes.
    """

    name: str
    affinity: tuple[Term, ...] | None = None
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
    """A StorageClass; `waits` means WaitForFirstConsumer, `topologies` is allowedTopologies."""

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """When a pod of a tree runs: pods of two stages of one tree never do at the same time.

    `number` is 1 or more. A pod that does not `exist` has a held place alone. `tree` is the root
    of the pod's group, as far as it is known.
    """

    number: int
    exists: bool = True
    tree: GroupKey | None = None

    def apart(self, other: Stage | None) -> bool:
        """Whether pods of the two are never there together; those that both exist are."""
        if other is None or self.tree != other.tree or (self.exists and other.exists):
            return False
        return self.number != other.number


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a pod requires of its node; pods with equal requirements and matches share a shape.

    `requests` are in milli-units for cpu and whole units otherwise, sorted by name, without zeros.
    `affinity` is the required node affinity: None if the pod has none; empty matches no node.
    `preferred_node_affinity` holds (weight, term) pairs, weights 1 to 100. `spread` holds the
    DoNotSchedule constraints, `preferred_spread` the ScheduleAnyway ones. `unsupported` names
    features that the scheduler does not implement: a pod that uses one is always refused. So is one
    with an `excess`, which says what it has too many of; its terms are left out then. `disks` and
    `attachments` are those of volumes without a claim; a disk may be both. `asks` are the pod's
    ResourceClaims in the order of its spec: what one of its own asks for that has no allocation
    yet, or the key of another. `extended` are the containers that request extended resources for
    which devices stand, if some may. A pod that has a node needs neither: its claims hold its
    devices. `stage` is None for a pod that may run beside all others of its tree.
    """

    requests: tuple[tuple[str, int], ...] = ()
    node_name: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    unsupported: tuple[str, ...] = ()
    ports: tuple[HostPort, ...] = ()
    required_affinity: tuple[PodTerm, ...] = ()
    required_anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    claims: tuple[ClaimKey, ...] = ()
    preferred_node_affinity: tuple[tuple[int, Term], ...] = ()
    preferred_affinity: tuple[WeightedPodTerm, ...] = ()
    preferred_spread: tuple[Spread, ...] = ()
    excess: str = ""
    disks: tuple[Disk, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    asks: tuple[Ask | ClaimKey, ...] = ()
    extended: tuple[ContainerDevices, ...] = ()
    stage: Stage | None = None

    @property
    def needs_devices(self) -> bool:
        """Whether devices have to be found for its pods, on some nodes at least."""
        return bool(self.asks or self.extended)

    @property
    def volumes(self) -> tuple[VolumeUse, ...]:
        return (*self.claims, *self.attachments)

    @property
    def needs_counts(self) -> bool:
        """Whether it has terms about other pods, or volumes: their pods have to be counted."""
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
    """A node; `allocatable` includes `pods` and has the units of Requirements.requests.

    `uid` is known to administrators and the node only; it tells mirror pods from forged ones.
    """

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology constraint: the subtree's pods share a domain of `key`; preferred: if possible."""

    key: str
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A PodGroup or CompositePodGroup.

    `minimum` is minCount or minGroupCount, 1 for the basic policy, None while there is no policy.
    `priority` None means that it was not resolved; the priorities of the members are used instead.
    `preempts` is false for preemptionPolicy Never; `delay` is how many seconds preemption waits.
    `bind_within` is how many seconds binding a root may take; 0 means the scheduler's default.
    `template` is the name of the template of `workload` that it was made from.
    `priority_class` is the name of its PriorityClass, empty if it names none. `owner` is the kind
    and name of what Muster made it for, None for a user's. `requested` is when capacity was
    requested for it, in seconds since 1970, long ago if that failed; None if it was not.
    `hold` is for how many seconds it asks to have places held for expected pods; None: the usual.
    `gate_off` names a feature gate that is off and without which none of its pods is placed;
    `maker_off` one that is off and by which it was made: it waits unless it was scheduled once.
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
    bind_within: float = 0.0
    template: str = ""
    priority_class: str = ""
    owner: tuple[str, str] | None = None
    requested: float | None = None
    gate_off: str = ""
    maker_off: str = ""
    hold: float | None = None


@dataclass(frozen=True, slots=True)
class PreemptionInfo:
    """What preemption goes by of a pod, besides its priority; `PodInfo` has what others need too.

    As a preemptor: `preempts` is false for preemptionPolicy Never; `delay` is as in GroupSpec. As a
    victim: `targeted` means that this scheduler set the DisruptionTarget condition to evict it, at
    the time `targeted_at` (as in `created`), and `target_says` is its message. `leaves_by` is the
    deletionTimestamp in seconds of the monotonic clock, 0 if unset. `grace` is the
    terminationGracePeriodSeconds. `daemon_set` is the UID of the DaemonSet that it says controls
    it, `mirror_of` that of the node whose static pod it says it shows.
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


@dataclass(frozen=True, slots=True)
class MembershipInfo:
    """What a pod has to do with its PodGroup.

    `claims` says whose the group must be (`api.membership`), `managed` means that admission named
    it, `asks` that the pod says what it is to be. `maker` is the kind and name of the controller of
    a pod that has a group. `held` means gated by this scheduler, as the group is not the pod's.
    `bound_at` is when a Failed pod was bound (as `created`).
    """

    claims: tuple[str, ...] = ()
    maker: str = ""
    managed: bool = False
    held: bool = False
    bound_at: str = ""
    asks: bool = False


_PREEMPTION: Final = PreemptionInfo()
_MEMBERSHIP: Final = MembershipInfo()


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod; `ours` if its schedulerName is one of this scheduler's, which `scheduler` then is.

    `node` is empty until the pod is bound; `group` is the name of its PodGroup. `group_affinity` is
    required affinity that its requirements leave out, as long as a topology constraint of its
    groups says the same. `exceeds`: the group is to grow, and has to be as large as its owner
    before the pod may be placed. `started` is the startTime in seconds since 1970, 0 if unset.
    `nominated` is the nominatedNodeName. `generation` is metadata.generation, 0 if the API server
    does not maintain it. `device_claims` are the keys of the ResourceClaims that
    `requirements.asks` are about, in the same order, and last that of the claim for
    `requirements.extended`, which need not exist; those of a bound pod are all that it uses.
    `unclaimed` says why its ResourceClaims keep it from being decided: until then it counts as one
    with a scheduling gate. Empty if they do not. Most pods share `preemption` and `membership`:
    each field costs every event of every pod.
    `expected` means that no such pod exists yet: it stands for one that its group will have. It has
    no uid of a pod, waits like one, and once assumed holds its place until the pod comes.
    `version` and `conditions` are what a patch of its status needs: the resourceVersion as last
    delivered, and whether it had conditions then ("some"), and DisruptionTarget among them
    ("target"). No decision goes by them.
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
    preemption: PreemptionInfo = _PREEMPTION
    membership: MembershipInfo = _MEMBERSHIP
    unclaimed: str = ""
    expected: bool = False
    version: str = field(default="", compare=False)
    conditions: Literal["", "some", "target"] = field(default="", compare=False)
