"""The values the decision core works on, plain and frozen: no Kubernetes object enters it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

POD_GROUP = "PodGroup"
COMPOSITE_POD_GROUP = "CompositePodGroup"
SINGLE_POD = "Pod"

GroupKey = tuple[str, str, str]
"""(kind, namespace, name) of a group, or of a pod that belongs to none."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; PreferNoSchedule only makes it less preferred."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; an empty key with Exists tolerates everything, an empty effect any."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement of a node selector term, over a label or over a node field."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """All expressions and all fields must match; a term with neither matches no node."""

    expressions: tuple[Expression, ...]
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods by label and by namespace.

    `expressions` None selects no pod. A namespace is meant if it is named or if its labels meet
    `of_namespaces`; None there selects none.
    """

    expressions: tuple[Expression, ...] | None
    namespaces: tuple[str, ...]
    of_namespaces: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pod affinity or anti-affinity to the selected pods, by domains of the node label `key`."""

    selector: PodSelector
    key: str


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preference: `weight` 1 to 100 is for affinity, -100 to -1 for anti-affinity."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class Spread:
    """A spread constraint over the domains of the node label `key`.

    Nodes that the pod's node affinity or its tolerations rule out are counted unless the policy
    honours those; `min_domains` is 1 where the pod asks for none.
    """

    selector: PodSelector
    key: str
    max_skew: int = 1
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself; the address 0.0.0.0 is all of the node's addresses."""

    protocol: str
    port: int
    address: str = "0.0.0.0"  # noqa: S104  # compared, never listened on


ClaimKey = tuple[str, str]
"""(namespace, name) of a PersistentVolumeClaim."""


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """A PersistentVolumeClaim; `volume` is empty until it is bound for good.

    `requested_volume` is what it names and is not bound to yet. `size` is in bytes; a volume that
    was made beforehand has to be as large, of the same `mode` and VolumeAttributesClass, with all
    of its `access` modes, and among those that the `selector` selects; None selects all.
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
    """A PersistentVolume; `affinity` None allows every node, `driver` is empty without CSI.

    `claim` is the one that it is meant for or bound to, `claim_uid` empty where any of that name
    will do. It is `available` while its phase says so; `size` is in bytes.
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
    """A StorageClass; `waits` for a first consumer, and provisions where `topologies` allow."""

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirements:
    """All that decides where a pod may go; pods with equal requirements share one shape.

    `requests` are in milli-units for cpu and whole units otherwise, sorted by name, without zeros.
    `affinity` is None where the pod has none, and matches nothing where it is empty.
    `preferred_node_affinity` are terms with their weights, 1 to 100. `spread` are the constraints
    that must hold (DoNotSchedule), `preferred_spread` the others (ScheduleAnyway).
    `unsupported` names features the scheduler cannot decide: such a pod is refused, never guessed.
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


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node; `allocatable` in the units of Requirements.requests, `pods` among them."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """The subtree's pods go to nodes with one value of the label `key`; preferred: if possible."""

    key: str
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A PodGroup or CompositePodGroup.

    `minimum` is minCount or minGroupCount, 1 for basic, None while the policy is not known yet.
    `priority` None means that nobody resolved it: the members' own priority counts.
    `preempts` is false for preemptionPolicy Never; `delay` seconds pass before anybody is evicted.
    `bind_within` seconds a root's bindings may take, 0 for the scheduler's own time.
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


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod that runs, or one that asks for this scheduler (`ours`).

    `phase` is the pod's; `node` is empty until it is bound; `group` names its PodGroup; `started`
    is in seconds since 1970, 0 while the kubelet has not said. `preempts` is false for
    preemptionPolicy Never, `delay` as in GroupSpec. `targeted` pods were chosen by this scheduler
    to be evicted; one that is terminating should be gone by `leaves_by`. `generation` is that of
    its spec, 0 where the API server does not count it.
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
    started: float = 0.0
    preempts: bool = True
    delay: float = 0.0
    targeted: bool = False
    leaves_by: float = 0.0
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
