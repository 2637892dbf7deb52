"""Topology and preemption decisions alone, no I/O: python -m bench.topology

The targets are those of a machine with two cores. `--curve FILE` also times a decision of each
kind on 100 to 50,000 nodes and draws the growth as an SVG picture.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from bench.curve import draw
from scheduler.core.forest import Group
from scheduler.core.placement import Budget, Placement, Refusal, place
from scheduler.core.preemption import Plan, preempt
from scheduler.core.state import State
from scheduler.core.values import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Requirements,
    Topology,
)

GIB = 1 << 30
WANTS = Requirements((("cpu", 1000), ("memory", 10 * GIB)))
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)


def cluster(nodes: int, *, cpu: int = 10, racks: int = 50) -> State:
    """Racks of equal size, ten racks to a block, ten blocks to a zone."""
    state = State()
    for index in range(nodes):
        rack = index * racks // nodes
        labels = {"rack": f"r{rack:04}", "block": f"b{rack // 10:03}", "zone": f"z{rack // 100}"}
        allocatable = {"cpu": cpu * 1000, "memory": 10 * cpu * GIB, "pods": 110}
        state.set_node(NodeInfo(f"n{index}", allocatable, labels))
    return state


def gang(state: State, name: str, size: int, *, key: str | None = None, priority: int = 0,
         parent: str | None = None) -> Group:  # fmt: skip
    topology = Topology(key) if key else None
    spec = GroupSpec((POD_GROUP, "ns", name), size, True, parent, priority, topology=topology)
    state.set_group(spec)
    for index in range(size):
        pod = f"{name}-{index}"
        state.set_pod(PodInfo(pod, "ns", pod, WANTS, group=name, priority=priority))
    return state.forest.groups[spec.key]


def composite(state: State, name: str, children: int, key: str, parent: str | None) -> Group:
    key_of = (COMPOSITE_POD_GROUP, "ns", name)
    state.set_group(GroupSpec(key_of, children, True, parent, 0, topology=Topology(key)))
    return state.forest.groups[key_of]


def full(nodes: int, *, pods: int = 10, size: int = 10, racks: int = 50) -> State:
    """Every node full of groups of ten; half of these can only go as wholes."""
    state = cluster(nodes, cpu=pods, racks=racks)
    for number in range(nodes * pods // size):
        name, priority = f"v{number}", number % 3
        mode: Literal["all", "single"] = "all" if number % 2 else "single"
        state.set_group(
            GroupSpec((POD_GROUP, "ns", name), size, priority=priority, disruption=mode)
        )
        for member in range(size):
            index = number * size + member
            uid = f"{name}-{member}"
            state.set_pod(
                PodInfo(
                    uid,
                    "ns",
                    uid,
                    WANTS,
                    f"n{index // pods}",
                    name,
                    priority,
                    phase="Running",
                    started=float(index),
                )
            )
    return state


def many_racks(nodes: int = 5_000, gangs: int = 750) -> Iterator[float]:
    """All gangs of four, each in one rack of 50: the time for all of them."""
    yield sum(in_racks(nodes, gangs))


def in_racks(nodes: int, gangs: int = 20) -> Iterator[float]:
    """The same, one by one."""
    state = cluster(nodes)
    groups = [gang(state, f"g{index}", 4, key="rack") for index in range(gangs)]
    for group in groups:
        start = time.perf_counter()
        decision = place(state, group, Budget())
        assert isinstance(decision, Placement)
        state.assume(decision.pods, decision.rows)
        yield time.perf_counter() - start


def three_levels(nodes: int = 20_000) -> Iterator[float]:
    """A tree: one zone, two blocks in it, four racks in each."""
    state = cluster(nodes, racks=max(20, nodes // 20))
    for number in range(8):
        root = composite(state, f"t{number}", 2, "zone", None)
        for block in range(2):
            composite(state, f"t{number}-{block}", 4, "block", root.name)
            for rack in range(4):
                gang(state, f"t{number}-{block}-{rack}", 16, key="rack",
                     parent=f"t{number}-{block}")  # fmt: skip
        start = time.perf_counter()
        decision = place(state, root, Budget())
        seconds = time.perf_counter() - start
        if isinstance(decision, Refusal):  # the smallest cluster is full by then
            return
        yield seconds
        state.assume(decision.pods, decision.rows)


def refusal(nodes: int = 5_000) -> Iterator[float]:
    """A gang one pod larger than any rack."""
    state = cluster(nodes)
    root = gang(state, "never", nodes // 50 * 10 + 1, key="rack")
    for _ in range(20):
        state.columns.version += 1  # as after an event: nothing cached holds
        start = time.perf_counter()
        assert isinstance(place(state, root, Budget()), Refusal)
        yield time.perf_counter() - start


def preemption(
    nodes: int = 1_000, *, pods: int = 10, gangs: int = 200, racks: int = 50
) -> Iterator[float]:
    """Gangs of one to twenty take room from groups of ten pods, with and without a rack."""
    state = full(nodes, pods=pods, racks=racks)
    state.units.refresh()
    for number in range(gangs):
        size = (1, 4, 8, 20)[number % 4]
        root = gang(state, f"p{number}", size, priority=9, key="rack" if number % 8 > 3 else None)
        start = time.perf_counter()
        decision = place(state, root, Budget())
        if isinstance(decision, Placement):  # whole units left more room than was needed
            state.assume(decision.pods, decision.rows)
            continue
        plan = preempt(state, root, decision, Budget())
        yield time.perf_counter() - start
        assert isinstance(plan, Plan)
        for unit in plan.victims:
            for uid in list(unit.pods):
                state.remove_pod(uid)
        state.assume(plan.placement.pods, plan.placement.rows)


CASES: dict[str, tuple[Callable[[], Iterator[float]], float, float]] = {
    "750 gangs x 4, a rack each, 5,000 nodes, in all": (many_racks, 750, 750),
    "a tree of three levels on 20,000 nodes": (three_levels, 100, 100),
    "a refusal on 5,000 nodes and 50 racks": (refusal, 10, 10),
    "a preemption, 1,000 nodes, 10,000 pods in groups": (preemption, 10, 50),
}
"""Name -> case, and the targets of median and 99th percentile in milliseconds."""

CURVES: dict[str, Callable[[int], Iterator[float]]] = {
    "a gang of 4 in a rack": in_racks,
    "a tree of three levels": three_levels,
    "a refusal": refusal,
    "a preemption": lambda nodes: preemption(nodes, pods=2, gangs=8, racks=max(5, nodes // 20)),
}


def measure(case: Callable[[], Iterator[float]]) -> tuple[float, float, int]:
    """Median and 99th percentile in milliseconds, and how many were timed."""
    times = sorted(seconds * 1000 for seconds in case())
    return statistics.median(times), times[min(len(times) - 1, len(times) * 99 // 100)], len(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curve", type=Path)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    options = parser.parse_args()
    late = 0
    for name, (case, median_target, high_target) in CASES.items():
        median, high, count = measure(case)
        late += median > median_target or high > high_target
        print(
            f"{name:50} n={count:<4} P50 {median:8.2f} ms (target {median_target:.0f})"
            f"  P99 {high:8.2f} ms (target {high_target:.0f})"
        )
    if options.curve:
        sizes = [size for size in SIZES if size <= options.largest]
        lines = {
            # The fastest of several: what a noisy machine adds is not growth.
            name: [(size, min(case(size)) * 1000) for size in sizes]
            for name, case in CURVES.items()
        }
        options.curve.write_text(draw(lines, "nodes", "milliseconds for one decision"))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
