"""For how long decisions let nothing else run: python -m tools.bench.decisions.gaps

While the scheduler decides, watch events, renewals of its lease and writes wait for the next pause
of the decision. Each situation is decided as the scheduler does: placed, or refused, explained, and
planned with victims. The table shows the longest time between two pauses, in processor time of a
quiet machine. Ends with 1 if one is beyond the range.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.core.decide import decide
from scheduler.core.explain.explain import explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import preempt
from scheduler.core.search.place import Placement
from scheduler.core.state.disruption_budgets import DisruptionBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import (
    POD_GROUP,
    Expression,
    GroupSpec,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Topology,
)
from scheduler.core.values.search_budget import SearchBudget
from tools.bench.decisions.clusters import GIB, SMALL, cluster, composite, full, gang, preemptor
from tools.bench.report.frame import LOOP_MS, quick_loop

LIMITS: Final = {15_000: 50.0, 50_000: 100.0}
"""Milliseconds between two pauses, by nodes."""

SECONDS: Final = 0.1
"""Seconds of one search, as by default."""

HOST: Final = "kubernetes.io/hostname"
ALL: Final = PodSelector((), ("ns",))
Decided = tuple[State, Group | Pod]


@dataclass(slots=True)
class Pauses:
    """The longest time of this thread between two pauses, and the time since `begin`, in seconds.

    A search expires by the time since it began.
    """

    longest: float = 0.0
    where: str = ""
    total: float = 0.0
    _last: float = field(default_factory=time.thread_time)
    _begun: float = field(default_factory=time.thread_time)

    def pause(self, where: str = "search") -> None:
        now = time.thread_time()
        if now - self._last > self.longest:
            self.longest, self.where = now - self._last, where
        self.total += now - self._last
        self._last = now

    def begin(self) -> None:
        self._last = self._begun = time.thread_time()

    def expired(self) -> bool:
        return time.thread_time() - self._begun > SECONDS


def decided(state: State, root: Group | Pod) -> Pauses:
    """Decide once; return the pauses."""
    pauses = Pauses()
    budget = SearchBudget(pause=pauses.pause, expired=pauses.expired)
    gc.collect()
    gc.disable()
    try:
        pauses.begin()
        outcome = decide(state, root, budget)
        pauses.pause()
        if isinstance(outcome, Placement):
            return pauses
        pauses.begin()
        explain(state, outcome)
        pauses.pause("explanation")
        for _ in state.units.refresh_in_steps():
            pauses.pause("units")
        pauses.begin()
        plan = preempt(state, root, outcome, replace(budget, pause=lambda: pauses.pause("victims")))
        pauses.pause("victims")
        assert plan is not None
    finally:
        gc.enable()
    return pauses


def equal_pods(nodes: int) -> Decided:
    state = cluster(nodes)
    return state, gang(state, "g", 10_000)


def preferred_host(nodes: int) -> Decided:
    """A gang larger than any of as many domains as nodes, which it only prefers."""
    state = cluster(nodes)
    spec = GroupSpec((POD_GROUP, "ns", "g"), 10_000, topology=Topology(HOST, preferred=True))
    state.set_group(spec)
    _members(state, "g", 10_000, SMALL)
    return state, state.forest.groups[spec.key]


def too_large_for_racks(nodes: int) -> Decided:
    state = cluster(nodes, racks=nodes // 20)
    return state, gang(state, "g", 201, key="rack")


def nearly_full_racks(nodes: int) -> Decided:
    """Unequal pods, in racks that are just large enough by the sum of their sizes."""
    state = cluster(nodes, racks=nodes // 20)
    spec = GroupSpec((POD_GROUP, "ns", "g"), 60, topology=Topology("rack"))
    state.set_group(spec)
    for index in range(60):
        wants = Requirements((("cpu", 3334 + index), ("memory", GIB)))
        state.set_pod(PodInfo(f"g-{index}", "ns", f"g-{index}", wants, group="g"))
    return state, state.forest.groups[spec.key]


def three_levels(nodes: int) -> Decided:
    state = cluster(nodes, racks=nodes // 20)
    root = composite(state, "t", 2, "zone")
    for block in range(2):
        name = f"t-{block}"
        composite(state, name, 8, "block", root.name)
        for rack in range(8):
            gang(state, f"{name}-{rack}", 150, key="rack", parent=name)
    return state, root


def two_spreads(nodes: int) -> Decided:
    """A large gang with a spread over racks and one over hosts."""
    state = cluster(nodes, racks=nodes // 20)
    wants = replace(SMALL, spread=(Spread(ALL, "rack", 2), Spread(ALL, HOST)))
    return state, gang(state, "g", 2_000, wants=wants)


def apart(nodes: int) -> Decided:
    """A gang whose pods each need a host for themselves."""
    state = cluster(nodes)
    wants = replace(SMALL, required_anti_affinity=(PodTerm(ALL, HOST),))
    return state, gang(state, "g", 2_000, wants=wants)


def together(nodes: int) -> Decided:
    """A tree whose gangs need one rack, by the affinity of their pods."""
    state = cluster(nodes, racks=nodes // 20)
    wants = replace(SMALL, required_affinity=(PodTerm(ALL, "rack"),))
    root = composite(state, "t", 6)
    for number in range(6):
        gang(state, f"t-{number}", 32, wants=wants, parent="t")
    return state, root


def a_hundred_shapes(nodes: int) -> Decided:
    return of_sizes(cluster(nodes), 100)


def own_shapes_in_a_rack(nodes: int) -> Decided:
    """Each pod has requests of its own, as a hostile tenant may give them."""
    return of_sizes(cluster(nodes, cpu=64, racks=nodes // 50), 2_000, "rack")


def of_sizes(state: State, sizes: int, key: str = "") -> Decided:
    spec = GroupSpec((POD_GROUP, "ns", "g"), 2_000, topology=Topology(key) if key else None)
    state.set_group(spec)
    for index in range(2_000):
        wants = Requirements((("cpu", 1000 + index % sizes), ("memory", GIB)))
        state.set_pod(PodInfo(f"g-{index}", "ns", f"g-{index}", wants, group="g"))
    return state, state.forest.groups[spec.key]


def one_too_many(nodes: int) -> Decided:
    state = cluster(nodes, cpu=2)
    return state, gang(state, "g", min(2 * nodes + 1, 50_001))


def evicting(nodes: int, *, size: int = 1, key: str | None = None) -> Decided:
    state = full(nodes, pods=2, racks=nodes // 20)
    state.units.refresh()
    return state, gang(state, "high", size, priority=9, key=key)


def evicting_many(nodes: int) -> Decided:
    return evicting(nodes, size=2_000)


def evicting_a_rack(nodes: int) -> Decided:
    return evicting(nodes, size=30, key="rack")


def evicting_protected(nodes: int) -> Decided:
    """Single pods that 2,000 budgets cover, one budget each."""
    state = cluster(nodes, cpu=1)
    for index in range(nodes):
        info = PodInfo(
            f"v{index}", "ns", f"v{index}", SMALL, f"n{index}", phase="Running",
            labels={"app": str(index % 2_000)}, started=float(index),
        )  # fmt: skip
        state.set_pod(info)
    for number in range(2_000):
        selector = (Expression("app", "In", (str(number),)),)
        state.disruption_budgets.set(DisruptionBudget(("ns", f"b{number}"), selector, number % 3))
    state.units.refresh()
    return state, gang(state, "high", 200, priority=9)


def evicting_elastic(nodes: int) -> Decided:
    """A pod that evicts an extra pod of a gang: it has as many as there are nodes, half extra."""
    state = cluster(nodes, cpu=1)
    state.set_group(GroupSpec((POD_GROUP, "ns", "low"), nodes // 2))
    for index in range(nodes):
        uid = f"v{index}"
        state.set_pod(
            PodInfo(uid, "ns", uid, SMALL, f"n{index}", "low", phase="Running", started=index + 1)
        )
    return state, gang(state, "high", 1, priority=9)


def a_pod_that_evicts(nodes: int) -> Decided:
    state = full(nodes, pods=4, racks=nodes // 20)
    state.units.refresh()
    return state, preemptor(state, 0)


SITUATIONS: Final[dict[str, Callable[[int], Decided]]] = {
    "10,000 equal pods": equal_pods,
    "10,000 pods that prefer one host": preferred_host,
    "201 pods, in racks for 200": too_large_for_racks,
    "60 unequal pods, in racks that are too small": nearly_full_racks,
    "2,400 pods in a tree on three levels": three_levels,
    "2,000 pods with two spreads": two_spreads,
    "2,000 pods, one for each host": apart,
    "a tree of 192 pods with one affinity": together,
    "2,000 pods of 100 sizes": a_hundred_shapes,
    "2,000 pods of 2,000 sizes, in one rack": own_shapes_in_a_rack,
    "one pod more than fits": one_too_many,
    "a pod that evicts a unit": evicting,
    "2,000 pods that evict": evicting_many,
    "30 pods that evict in one rack": evicting_a_rack,
    "200 pods that evict, 2,000 budgets": evicting_protected,
    "a pod that evicts an extra pod of a huge gang": evicting_elastic,
    "a single pod that evicts three": a_pod_that_evicts,
}


def _members(state: State, group: str, count: int, wants: Requirements) -> None:
    for index in range(count):
        uid = f"{group}-{index}"
        state.set_pod(PodInfo(uid, "ns", uid, wants, group=group))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="situations with these words in their title")
    parser.add_argument("--nodes", type=int, action="append", choices=LIMITS)
    options = parser.parse_args()
    missed = 0
    print("| situation | nodes | longest step | in | all | range | |")
    print("|---|---:|---:|---|---:|---:|---|")
    for nodes in options.nodes or LIMITS:
        for title, build in SITUATIONS.items():
            if options.only not in title:
                continue
            # The first decision also fills caches: it is the one that counts.
            before = quick_loop()
            pauses = decided(*build(nodes))
            unit = LOOP_MS / ((before + quick_loop()) / 2)
            longest, limit = pauses.longest * unit, LIMITS[nodes]
            missed += longest > limit
            verdict = "kept" if longest <= limit else "**missed**"
            print(
                f"| {title} | {nodes:,} | {longest:.1f} ms | {pauses.where} |"
                f" {pauses.total * unit:,.0f} ms | < {limit:g} ms | {verdict} |",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
