"""The workloads of Kubernetes' own benchmark suite, test/integration/scheduler_perf.

Sizes are those of its largest workloads that take minutes here, on nodes like its node-default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Content = Literal[
    "default",
    "affinity",
    "anti-affinity",
    "preferred-affinity",
    "preferred-anti-affinity",
    "node-affinity",
    "spreading",
    "preferred-spreading",
    "namespaces",
    "preferred-namespaces",
    "matching-anti-affinity",
    "host-port",
    "secret",
    "in-tree-volume",
    "csi-volume",
    "daemon",
    "large",
    "gated",
    "finalizer",
    "extended",
    "inclusion",
    "cordoned",
    "roomy",
    "near-alike",
    "labelled",
    "domains",
    "tolerating",
    "blocker",
    "room-blocked",
    "port-blocked",
    "anti-blocked",
    "spread-blocked",
    "once-blocker",
    "once-blocked",
    "limit-blocked",
    "migrated-volume",
    "near-namespaces",
    "preferred-near-namespaces",
    "labelled-alone",
    "gated-near",
    "served",
    "wide",
    "near-added",
    "added",
    "unlabelled",
    "behind",
    "ahead",
    "intolerant",
    "later",
    "bulky",
]
"""The suite's template of a pod."""

Coming = Literal[
    "default", "small", "large", "labelled", "tainted", "cordoned", "open", "tight", "wide", "kept"
]
"""The suite's template of a node that comes."""

Update = Literal["gates", "tolerations", "labels", "resize"]
"""The change of waiting or of running pods."""

_ALONE = ("anti-affinity", "namespaces", "host-port", "extended", "inclusion")
_PLAIN = ("default", "labelled-alone", "daemon", "secret")
_TAINTED = 5


@dataclass(frozen=True, slots=True)
class Stage:
    """Pods of these kinds, equally many of each, that wait for a change.

    The change is one of these. Nodes of the kind `node` come, as many as the case has, or `one`.
    With `before` they exist as that kind, and are updated. The blockers that fill all nodes are
    deleted. Pods that are `given`, one on each node, are updated. Running pods come (`adds`). Or
    the waiting pods are updated: their gates are removed, or they tolerate more.
    """

    pods: tuple[Content, ...]
    node: Coming | None = None
    before: Coming | None = None
    one: bool = False
    deletes: bool = False
    given: Content | None = None
    adds: Content | None = None
    update: Update = "gates"

    @property
    def own(self) -> bool:
        """True if each pod waits for a change of its own."""
        others = self.node or self.deletes or self.adds
        return not others and self.update in ("gates", "tolerations")


@dataclass(frozen=True, slots=True)
class Workload:
    """Equal pods, and the objects that exist before these are scheduled.

    In each of `namespaces` others, so many pods run `there` of each kind in `kinds`. `blocked` pods
    of the kind `blocks` are in the case's own namespace and must not be bound. The nodes are in so
    many `zones`. With `churn` a node, a pod that never fits and a service come and go, so many
    seconds apart; with `arriving` pods of the kind `blocks` come, that many seconds apart. With
    `stages` the pods come in stages. If nodes come for them, the only node before is cordoned.
    """

    content: Content = "default"
    there: int = 0
    kinds: tuple[Content, ...] = ("default",)
    namespaces: int = 1
    blocked: int = 0
    blocks: Content = "gated"
    zones: int = 0
    churn: float = 0
    arriving: float = 0
    stages: tuple[Stage, ...] = ()

    @property
    def alone(self) -> bool:
        """True if each of the pods needs a node without other pods of the kind."""
        return self.content in _ALONE

    @property
    def one_node(self) -> bool:
        """True if all of the pods go to the first node, which has capacity for them."""
        return self.content in ("daemon", "labelled-alone")

    @property
    def plain(self) -> bool:
        """True if hardly anything but the API server limits the rate of its binds."""
        return self.content in _PLAIN and not self.stages

    @property
    def staged(self) -> int:
        """The number of kinds of pods in all stages."""
        return sum(len(stage.pods) for stage in self.stages)

    @property
    def grows(self) -> bool:
        """True if the nodes come in stages."""
        return any(stage.node for stage in self.stages)

    @property
    def filled(self) -> bool:
        """True if blockers fill all nodes at first."""
        return any(stage.deletes for stage in self.stages)

    def tainted(self, index: int) -> bool:
        """Return true if this node has a taint that no pod tolerates."""
        return self.content == "inclusion" and index % _TAINTED == 0

    def room(self, pods: int) -> int:
        """Return the fewest nodes for so many pods that each need one of their own."""
        return -(-pods * _TAINTED // (_TAINTED - 1)) if self.content == "inclusion" else pods

    @property
    def running(self) -> int:
        return self.there * self.namespaces * len(self.kinds)

    def scaled(self, share: float) -> Workload:
        if self.namespaces > 1:
            return replace(self, namespaces=max(1, round(self.namespaces * share)))
        there = max(1, round(self.there * share)) if self.there else 0
        blocked = max(1, round(self.blocked * share)) if self.blocked else 0
        return replace(self, there=there, blocked=blocked)


_MIXED: tuple[Content, ...] = (
    "default",
    "affinity",
    "anti-affinity",
    "preferred-affinity",
    "preferred-anti-affinity",
)


def _same(content: Content, there: int, zones: int = 0) -> Workload:
    return Workload(content, there, (content,), zones=zones)


WORKLOADS: dict[str, tuple[str, int, int, Workload]] = {
    "perf-basic": ("SchedulingBasic", 3_000, 5_000, Workload(there=1_000)),
    "perf-anti-affinity": (
        "SchedulingPodAntiAffinity", 2_000, 5_000, _same("anti-affinity", 1_000)
    ),
    "perf-matching-anti-affinity": (
        "SchedulingPodMatchingAntiAffinity", 3_000, 5_000,
        Workload("matching-anti-affinity", 1_000, ("anti-affinity",)),
    ),
    "perf-affinity": ("SchedulingPodAffinity", 3_000, 5_000, _same("affinity", 5_000, 1)),
    "perf-preferred-affinity": (
        "SchedulingPreferredPodAffinity", 3_000, 5_000, _same("preferred-affinity", 5_000)
    ),
    "perf-preferred-anti-affinity": (
        "SchedulingPreferredPodAntiAffinity", 3_000, 5_000,
        _same("preferred-anti-affinity", 5_000),
    ),
    "perf-node-affinity": (
        "SchedulingNodeAffinity", 3_000, 5_000, _same("node-affinity", 5_000, 1)
    ),
    "perf-mixed": ("MixedSchedulingBasePod", 3_000, 5_000, Workload(
        there=2_000, kinds=_MIXED, zones=1)),
    "perf-namespaces": (
        "SchedulingRequiredPodAntiAffinityWithNSSelector", 2_000, 6_000,
        Workload("namespaces", 40, ("namespaces",), 100),
    ),
    "perf-preferred-namespaces": (
        "SchedulingPreferredAntiAffinityWithNSSelector", 2_000, 5_000,
        Workload("preferred-namespaces", 40, ("preferred-namespaces",), 100),
    ),
    "perf-near-namespaces": (
        "SchedulingRequiredPodAffinityWithNSSelector", 2_000, 5_000,
        Workload("near-namespaces", 50, ("near-namespaces",), 100, zones=1),
    ),
    "perf-preferred-near-namespaces": (
        "SchedulingPreferredAffinityWithNSSelector", 5_000, 5_000,
        Workload("preferred-near-namespaces", 50, ("preferred-near-namespaces",), 100),
    ),
    "perf-gated-near": (
        "SchedulingGatedPodsWithPodAffinityImpactForThroughput", 20_000, 1,
        Workload("labelled-alone", blocked=10_000, blocks="gated-near"),
    ),
    "perf-default-spreading": (
        "DefaultTopologySpreading", 10_000, 5_000, Workload("served", 5_000, zones=3)
    ),
    "perf-spreading": ("TopologySpreading", 3_000, 5_000, Workload("spreading", 1_000, zones=3)),
    "perf-preferred-spreading": (
        "PreferredTopologySpreading", 3_000, 5_000,
        Workload("preferred-spreading", 1_000, zones=3),
    ),
    "perf-unschedulable": (
        "Unschedulable, five that never fit come each second", 3_000, 5_000,
        Workload(there=100, blocks="large", arriving=0.2),
    ),
    "perf-gated": (
        "SchedulingWhileGated, 10,000 gated", 3_000, 5_000, Workload(blocked=10_000)
    ),
    "perf-finalizers": (
        "SchedulingDeletedPodsWithFinalizers", 3_000, 5_000,
        Workload(blocked=5_000, blocks="finalizer"),
    ),
    "perf-extended": ("SchedulingWithExtendedResource", 5_000, 5_000, Workload("extended")),
    "perf-inclusion": (
        "SchedulingWithNodeInclusionPolicy", 4_000, 5_000, Workload("inclusion")
    ),
    "perf-churn": ("SchedulingWithMixedChurn", 3_000, 5_000, Workload(churn=1.0)),
    "perf-node-added": ("EventHandlingNodeAdd", 6_000, 100, Workload(stages=(
        Stage(("cordoned",), "small", one=True),
        Stage(("roomy",), "large"),
        Stage(("near-alike", "labelled", "domains"), "labelled"),
        Stage(("tolerating",), "tainted"),
    ))),
    "perf-node-updated": ("EventHandlingNodeUpdate", 6_000, 100, Workload(stages=(
        Stage(("cordoned",), "open", "cordoned"),
        Stage(("wide",), "wide", "tight"),
        Stage(("near-alike", "labelled", "domains"), "labelled", "open"),
        Stage(("tolerating",), "tainted", "open"),
    ))),
    "perf-pod-deleted": ("EventHandlingPodDelete", 3_000, 50, Workload(stages=(
        Stage(
            ("room-blocked", "port-blocked", "anti-blocked", "spread-blocked",
             "once-blocked", "limit-blocked"),
            deletes=True,
        ),
    ))),
    "perf-ungated": ("EventHandlingPodUpdate, gates only", 1_000, 100, Workload(stages=(
        Stage(("gated",)),
    ))),
    "perf-pod-added": ("EventHandlingPodAdd", 2_000, 100, Workload(zones=2, stages=(
        Stage(("behind",), given="ahead", adds="ahead"),
        Stage(("near-added",), adds="added"),
    ))),
    "perf-pod-updated": ("EventHandlingPodUpdate, all but gates", 3_000, 100, Workload(stages=(
        Stage(("near-added",), given="unlabelled", update="labels"),
        Stage(("intolerant",), before="kept", update="tolerations"),
        Stage(("later",), given="bulky", update="resize"),
    ))),
    "perf-migrated-volumes": (
        "SchedulingMigratedInTreePVs", 3_000, 5_000, Workload("migrated-volume", 1_000)
    ),
    "perf-host-port": ("a host port each", 2_000, 5_000, _same("host-port", 1_000)),
    "perf-daemon": ("SchedulingDaemonset", 3_000, 5_000, Workload("daemon")),
    "perf-secrets": ("SchedulingSecrets", 3_000, 5_000, _same("secret", 1_000)),
    "perf-in-tree-volumes": (
        "SchedulingInTreePVs", 2_000, 5_000, Workload("in-tree-volume", 1_000)
    ),
    "perf-csi-volumes": ("SchedulingCSIPVs", 3_000, 5_000, Workload("csi-volume", 1_000)),
}  # fmt: skip
"""Case name -> the suite's name, the number of pods, the number of nodes, and the workload."""
