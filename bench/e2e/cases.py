"""What is measured: the cases by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

RAW, KUBE_SCHEDULER, MUSTER = "raw", "kube-scheduler", "muster"
ALL = (RAW, KUBE_SCHEDULER, MUSTER)


@dataclass(frozen=True, slots=True)
class Case:
    """Pods to be scheduled on nodes.

    `gangs` of `size` pods each; no gangs means `size` plain pods. With `racks` each gang must be
    in one of them. With `preemption` all nodes are full of gangs of the same size and lower
    priority, which are evicted as wholes. With `rate` the pods come at so many a second while
    they are scheduled; otherwise they are there before the scheduler starts. What is not bound
    after `limit` seconds does not count as scheduled. The raw rate and Muster are measured in
    `rounds`, in turns.
    """

    name: str
    title: str
    size: int
    gangs: int = 0
    racks: int = 0
    preemption: bool = False
    rate: int = 0
    limit: float = 120
    rounds: int = 1
    subjects: tuple[str, ...] = ALL
    nodes: int = 5_000

    @property
    def pods(self) -> int:
        return self.size * (self.gangs or 1)

    def scaled(self, nodes: int, share: float) -> Case:
        """The same on so many nodes, with this share of the gangs, or of the plain pods."""
        if self.gangs:
            return replace(self, nodes=nodes, gangs=max(1, round(self.gangs * share)))
        return replace(self, nodes=nodes, size=max(1, round(self.size * share)))


CASES = {
    case.name: case
    for case in (
        Case("plain", "3,000 plain pods", 3_000, rounds=5),
        Case("gangs-3", "1,000 gangs x 3", 3, gangs=1_000, rounds=5),
        Case("gangs-1000", "3 gangs x 1,000", 1_000, gangs=3, rounds=5),
        Case("racks", "750 gangs x 4, each in one of 50 racks", 4, gangs=750, racks=50, rounds=5),
        Case("gangs-5000", "10 gangs x 5,000", 5_000, gangs=10, subjects=(RAW, MUSTER)),
        Case(
            "preemption",
            "100 gangs x 100, evicting lower gangs",
            100,
            gangs=100,
            preemption=True,
            limit=240,
        ),
        Case("arrivals", "2,000 gangs x 5, 500 pods/s", 5, gangs=2_000, rate=500),
    )
}
