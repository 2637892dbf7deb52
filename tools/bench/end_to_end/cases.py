"""The cases that are measured, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tools.bench.end_to_end.workloads import WORKLOADS, Workload

RAW, AS_MUSTER, KUBE_SCHEDULER, MUSTER = "raw", "raw as muster", "kube-scheduler", "muster"
MUSTER_NATIVE = "muster, native groups"
"""Muster with the PodGroups of Kubernetes instead of its own."""
ALL = (RAW, KUBE_SCHEDULER, MUSTER)
COMPARED = (RAW, AS_MUSTER, KUBE_SCHEDULER, MUSTER)
"""Subjects of cases in which Muster's distance to its own writes counts."""
WITH_NATIVE = (*COMPARED, MUSTER_NATIVE)
"""Subjects of cases in which the API of the groups may make a difference."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of a case's pods, which exist before it begins.

    Each node has so many `devices`, or all nodes together if `content` is about a network. Each pod
    has a claim of its own as from a template, or `sharers` pods of its gang share one. `taken` is
    the share of devices that other claims have already, or with `free` all but so many.
    """

    devices: int = 8
    sharers: int = 0
    taken: float = 0.0
    free: int = 0
    content: Literal[
        "plain", "selector", "list", "tolerations", "shares", "partitions", "network"
    ] = "plain"

    @property
    def own(self) -> bool:
        return not self.sharers


@dataclass(frozen=True, slots=True)
class Victims:
    """Single pods of the lowest priority that fill the nodes before a case begins.

    Each node has `cpu` millicores, of which `each` victims take `taken` each; a pod of the case
    takes `wanted`. With `composite` the victims are gangs of 10, so many to a composite group. With
    `anchored` each node has a pod of the highest priority, which the case's pods have affinity to.
    With `volumes` each of the case's pods has one. With `urgent` the case's pods evict none.
    Instead, other pods that each need `wanted` arrive so many seconds apart meanwhile, and evict.
    """

    each: int
    taken: int
    wanted: int
    cpu: int = 4_000
    composite: int = 0
    anchored: bool = False
    volumes: bool = False
    urgent: float = 0

    @property
    def fewest(self) -> int:
        """The number of victims that must end for one pod of the case."""
        free = self.cpu - self.each * self.taken - ANCHOR_CPU * self.anchored
        return -(-(self.wanted - free) // self.taken)


ANCHOR_CPU = 10
"""Millicores of an anchor."""


@dataclass(frozen=True, slots=True)
class Case:
    """Pods to be scheduled on nodes.

    `gangs` of `size` pods each; no gangs means `size` plain pods. With `racks` each gang must be in
    one of them. With `preemption` all nodes are full of gangs of the same size and lower priority,
    which are evicted completely; with `victims` they are full of those. With `composite` so many
    gangs form a composite gang. With `workload` the pods and nodes are those of one of
    scheduler_perf's. Those of its `suite` run by a flag of their own. With `rate` the pods arrive
    at so many a second while they are scheduled; otherwise they exist before the scheduler starts.
    For `steady` seconds the pods arrive, run, and are deleted with their claims once all of them
    run, repeatedly. Pods that are not bound after `limit` seconds do not count as scheduled. The
    raw rate and Muster are measured in `rounds`, in turns.
    """

    name: str
    title: str
    size: int
    gangs: int = 0
    racks: int = 0
    preemption: bool = False
    rate: int = 0
    steady: float = 0
    limit: float = 120
    rounds: int = 1
    subjects: tuple[str, ...] = ALL
    nodes: int = 5_000
    claims: Claims | None = None
    victims: Victims | None = None
    composite: int = 0
    workload: Workload | None = None
    suite: bool = False

    @property
    def evicts(self) -> bool:
        return self.preemption or self.victims is not None

    @property
    def prioritized(self) -> bool:
        """True if its pods name a priority class."""
        of = self.workload
        return self.evicts or (of is not None and (of.churn > 0 or of.blocks == "large"))

    @property
    def first(self) -> int:
        """Number of nodes that exist from the beginning."""
        return 1 if self.workload and self.workload.grows else self.nodes

    @property
    def staged(self) -> bool:
        """True if its pods wait for a change of a stage."""
        return self.workload is not None and bool(self.workload.stages)

    @property
    def pods(self) -> int:
        return self.size * (self.gangs or 1)

    def scaled(self, nodes: int | None, share: float) -> Case:
        """Return the case on so many nodes, with a share of its gangs, pods, or seconds."""
        nodes = nodes or self.nodes
        if self.steady:
            return replace(self, nodes=nodes, steady=max(1.0, self.steady * share))
        if self.gangs:
            return replace(self, nodes=nodes, gangs=max(1, round(self.gangs * share)))
        size = max(1, round(self.size * share))
        if self.workload is None:
            return replace(self, nodes=nodes, size=size)
        workload = self.workload.scaled(share)
        if workload.alone:
            nodes = max(nodes, workload.room(size + workload.running))
        if workload.stages:
            size = max(workload.staged, size - size % workload.staged)
        return replace(self, nodes=nodes, size=size, workload=workload)


def _floor(workload: Workload) -> tuple[str, ...]:
    """Return the raw rate to measure with it, where it may limit the lead over kube-scheduler.

    That is where the raw rate may be less than five times kube-scheduler's.
    """
    if workload.stages:
        return (RAW,)
    return (AS_MUSTER,) if workload.plain else ()


def _composite(name: str, title: str, size: int, gangs: int, racks: int = 0) -> Case:
    subjects = (*ALL, MUSTER_NATIVE)
    return Case(
        name, title, size, gangs, racks, composite=2, suite=True, rounds=3, subjects=subjects
    )


CASES = {
    case.name: case
    for case in (
        Case("plain", "3,000 plain pods", 3_000, rounds=5, subjects=COMPARED),
        Case("gangs-3", "1,000 gangs x 3", 3, gangs=1_000, rounds=5, subjects=WITH_NATIVE),
        Case("gangs-1000", "3 gangs x 1,000", 1_000, gangs=3, rounds=5, subjects=WITH_NATIVE),
        Case(
            "racks",
            "750 gangs x 4, each in one of 50 racks",
            4,
            gangs=750,
            racks=50,
            rounds=5,
            subjects=WITH_NATIVE,
        ),
        Case("gangs-5000", "10 gangs x 5,000", 5_000, gangs=10, subjects=(RAW, MUSTER)),
        Case(
            "preemption",
            "100 gangs x 100, evicting lower gangs",
            100,
            gangs=100,
            preemption=True,
            limit=240,
            subjects=(*ALL, MUSTER_NATIVE),
        ),
        Case("arrivals", "2,000 gangs x 5, 500 pods/s", 5, gangs=2_000, rate=500),
        Case(
            "claims-plain",
            "3,000 pods with a claim each",
            3_000,
            rounds=3,
            limit=240,
            claims=Claims(),
            subjects=COMPARED,
        ),
        Case(
            "claims-gangs-3",
            "1,000 gangs x 3 with a claim each",
            3,
            gangs=1_000,
            rounds=3,
            limit=240,
            claims=Claims(),
            subjects=COMPARED,
        ),
        Case(
            "claims-gangs-1000",
            "3 gangs x 1,000 with a claim each",
            1_000,
            gangs=3,
            rounds=3,
            limit=240,
            claims=Claims(),
            subjects=COMPARED,
        ),
        Case(
            "claims-racks",
            "750 gangs x 4 with a claim each, in one of 50 racks",
            4,
            gangs=750,
            racks=50,
            rounds=3,
            limit=240,
            claims=Claims(),
            subjects=COMPARED,
        ),
        Case(
            "claims-network",
            "12 gangs x 250, one network claim each",
            250,
            gangs=12,
            rounds=3,
            limit=240,
            claims=Claims(16, 250, content="network"),
        ),
        # As in scheduler_perf: PreemptionBasic, and the three CPGPreemptions.
        Case(
            "perf-preemption",
            "500 pods, evicting three of 2,000 each on 500 nodes",
            500,
            limit=240,
            rounds=3,
            nodes=500,
            victims=Victims(each=4, taken=900, wanted=3_000),
        ),
        Case(
            "perf-preemption-volumes",
            "1,000 pods with a volume each, evicting three of 4,000 each on 1,000 nodes",
            1_000,
            limit=240,
            nodes=1_000,
            victims=Victims(each=4, taken=900, wanted=3_000, volumes=True),
        ),
        Case(
            "perf-preemption-beside",
            "5,000 pods that fit, beside five a second that evict some of 20,000",
            5_000,
            limit=240,
            subjects=(AS_MUSTER, KUBE_SCHEDULER, MUSTER),
            victims=Victims(each=4, taken=900, wanted=3_000, urgent=0.2),
        ),
        Case(
            "perf-preemption-tree",
            "a composite gang of 10 x 10, evicting 1,000 pods",
            10,
            gangs=10,
            composite=10,
            limit=240,
            rounds=3,
            subjects=(*ALL, MUSTER_NATIVE),
            nodes=100,
            victims=Victims(each=10, taken=40, wanted=3_970),
        ),
        Case(
            "perf-preemption-trees",
            "a composite gang of 10 x 10, evicting 500 pods of composite gangs",
            10,
            gangs=10,
            composite=10,
            limit=240,
            rounds=3,
            subjects=(*ALL, MUSTER_NATIVE),
            nodes=100,
            victims=Victims(each=5, taken=600, wanted=3_500, composite=10),
        ),
        Case(
            "perf-preemption-affinity",
            "the same with affinity, evicting 1,000 pods beside anchors",
            10,
            gangs=10,
            composite=10,
            limit=240,
            rounds=3,
            subjects=(*ALL, MUSTER_NATIVE),
            nodes=100,
            victims=Victims(each=10, taken=40, wanted=3_970, anchored=True),
        ),
        # As in scheduler_perf: of the cases without feature names, the largest sizes there.
        Case(
            "perf-template",
            "2,500 pods with a claim each, half of 500 x 10 devices in use",
            2_500,
            limit=240,
            nodes=500,
            claims=Claims(10, taken=0.5),
        ),
        Case(
            "perf-shared",
            "2,500 pods, five to a claim, half of 500 x 2 devices in use",
            2_500,
            limit=240,
            nodes=500,
            claims=Claims(2, 5, taken=0.5),
        ),
        Case(
            "perf-selector",
            "2,500 pods with a selector, 500 x 10 devices",
            2_500,
            limit=240,
            nodes=500,
            claims=Claims(10, content="selector"),
        ),
        Case(
            "perf-list",
            "2,500 pods with a list of two, 500 x 10 devices",
            2_500,
            limit=240,
            nodes=500,
            claims=Claims(10, content="list"),
        ),
        Case(
            "perf-tolerations",
            "2,500 pods that tolerate the taint of 500 x 10 devices",
            2_500,
            limit=240,
            nodes=500,
            claims=Claims(10, content="tolerations"),
        ),
        Case(
            "perf-shares",
            "2,000 pods with two shares each of 2,000 devices",
            2_000,
            limit=240,
            nodes=100,
            claims=Claims(content="shares"),
        ),
        Case(
            "perf-partitions",
            "1,000 pods with two partitions each of 1,000 devices",
            1_000,
            limit=240,
            nodes=100,
            claims=Claims(content="partitions"),
        ),
        *(
            Case(
                f"perf-steady-{name}",
                f"10 pods with a claim each come and go, {title} 500 x 10 devices in use",
                10,
                steady=10,
                nodes=500,
                claims=content,
            )
            for name, title, content in (
                ("empty", "none of", Claims(10)),
                ("half", "half of", Claims(10, taken=0.5)),
                ("full", "all but 10 of", Claims(10, free=10)),
            )
        ),
        *(
            Case(
                name,
                f"{title}: {pods:,} pods",
                pods,
                limit=240,
                rounds=3,
                subjects=(*_floor(workload), KUBE_SCHEDULER, MUSTER),
                nodes=nodes,
                workload=workload,
                suite=True,
            )
            for name, (title, pods, nodes, workload) in WORKLOADS.items()
        ),
        _composite("perf-trees-small", "500 composite gangs of 2 x 3", 3, 1_000),
        _composite("perf-trees-large", "3 composite gangs of 2 x 500", 500, 6),
        _composite("perf-trees-racks", "500 composite gangs of 2 x 4, in racks", 4, 1_000, 50),
    )
}
