"""The limit of one scheduler process by itself, in ever larger clusters.

`python -m tools.bench.decisions.scale` measures it.

Queue and cycle of the scheduler decide thousands of waiting pods, without sending any Binding. The
result is the processor time for each pod, for the kinds of load that clusters have, together with
the cost of an event and the memory of the process. `--record` stores the results and updates
docs/scale.md. All times are those of a quiet machine with two cores, as in
`tools.bench.report.frame`.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kube.base.clock import SystemClock
from scheduler.core.explain.explain import Blocker
from scheduler.core.search.place import Placement
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, PodInfo, Requirements
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.parts import CycleParts
from scheduler.queue.scheduling_queue import Queue
from tools.bench import page
from tools.bench.decisions.clusters import GIB, SMALL, cluster, composite, gang
from tools.bench.decisions.events import decoded, heartbeats, memory
from tools.bench.report import frame, scale_results
from tools.bench.report.frame import clock
from tools.bench.report.scale_results import Held, Point, Scale

NODES: Final = (5_000, 15_000, 50_000)
PODS: Final = 4_800
RUNS: Final = 3
_MOST_PODS: Final = 100_000
"""Pods in memory; more take minutes to create."""


def single(state: State, pods: int) -> None:
    """Add equal pods without a group."""
    for index in range(pods):
        name = f"p{index:06}"
        state.set_pod(PodInfo(name, "ns", name, SMALL))


def alike(state: State, pods: int, *, key: str | None = None) -> None:
    """Add equal gangs of eight."""
    for number in range(pods // 8):
        gang(state, f"g{number:05}", 8, key=key)


def in_racks(state: State, pods: int) -> None:
    """Add equal gangs of eight, each in one rack."""
    alike(state, pods, key="rack")


def mixed(state: State, pods: int) -> None:
    """Add gangs of 1 to 16 in a hundred shapes, every other in a rack; consecutive ones differ."""
    number = given = 0
    while given < pods:
        size = min(pods - given, number % 16 + 1)
        cpu = 500 + 37 * (number % 100)
        wants = Requirements((("cpu", cpu), ("memory", GIB)))
        gang(state, f"g{number:05}", size, wants=wants, key="rack" if number % 2 else None)
        given += size
        number += 1


def large(state: State, pods: int) -> None:
    """Add gangs of 800."""
    for number in range(pods // 800):
        gang(state, f"g{number:05}", 800)


def trees(state: State, pods: int) -> None:
    """Add trees of 96 pods: one zone, two blocks in it, three racks in each, 16 pods a rack."""
    for number in range(pods // 96):
        root = composite(state, f"t{number:05}", 2, "zone")
        for block in range(2):
            name = f"{root.name}-{block}"
            composite(state, name, 3, "block", root.name)
            for rack in range(3):
                gang(state, f"{name}-{rack}", 16, key="rack", parent=name)


WORKLOADS: Final[Mapping[str, Callable[[State, int], None]]] = {
    "single pods that are alike": single,
    "gangs of 8 that are alike": alike,
    "gangs of 8, one rack each": in_racks,
    "gangs of 1 to 16, a hundred shapes, half in one rack": mixed,
    "gangs of 800": large,
    "trees of 96 on three levels": trees,
}


class Outcomes:
    """Collector of the cycle's decisions; sends and reports nothing."""

    def __init__(self) -> None:
        self.placed_pods = 0

    def submit(self, placement: Placement) -> None:
        self.placed_pods += len(placement.pods)

    def touched(self, keys: object) -> None:
        """Ignore the change."""

    def on_root_placed(self, key: GroupKey) -> None:
        """Ignore the call: `submit` counts the pods."""

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        raise AssertionError(f"{key} should have fitted: {blocker}")


def decide_all(nodes: int, pods: int, load: Callable[[State, int], None]) -> tuple[float, float]:
    """Return the seconds of ingesting all pods, and of deciding all of them."""
    state = cluster(nodes, cpu=64, racks=max(20, nodes // 20))
    queue, outcomes = Queue(state), Outcomes()
    cycle = Cycle(state, queue, CycleParts(outcomes, outcomes), clock=SystemClock())
    gc.collect()
    start = clock()
    load(state, pods)
    for _ in cycle.refresh():
        pass
    taken = clock()
    while len(queue):
        for _ in cycle.step():
            pass
        for _ in cycle.refresh():
            pass
    end = clock()
    assert outcomes.placed_pods == pods, (outcomes.placed_pods, pods)
    return taken - start, end - taken


def point(name: str, nodes: int, pods: int = PODS, runs: int = RUNS) -> Point:
    """Return the median of several runs, in microseconds of a quiet machine for each pod."""
    found: list[tuple[float, float]] = []
    for _ in range(runs):
        before = frame.quick_loop()
        taken, decided = decide_all(nodes, pods, WORKLOADS[name])
        unit = (before + frame.quick_loop()) / 2 * 1000 / frame.LOOP_MS * pods / 1e6
        found.append((taken / unit, decided / unit))
    taken, decided = (statistics.median(each) for each in zip(*found, strict=True))
    return Point(name, nodes, round(taken, 1), round(decided, 1))


def events(runs: int = RUNS) -> dict[str, float]:
    """Return microseconds of a quiet machine for one event of each kind."""
    kinds = {
        "a pod of 6 KB, as it is created": decoded,
        "a node of 5 KB that says the same again": heartbeats,
    }
    return {name: round(_microseconds(run, runs), 1) for name, run in kinds.items()}


def _microseconds(run: Callable[[], Iterable[float]], runs: int) -> float:
    case = frame.Case("", run, {"each": 0.0})
    (measured,) = frame.measure(case, max(2, runs))
    return measured.median * 1000


def held(nodes: int, pods: int) -> Held:
    """Return the MiB of a process of its own with so many nodes and running pods."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return Held(nodes, pods, pool.apply(memory, (nodes, pods)))


def measure(sizes: Sequence[int], pods: int = PODS, runs: int = RUNS) -> Scale:
    points = []
    for name in WORKLOADS:
        for nodes in sizes:
            points.append(point(name, nodes, pods, runs))
            print(points[-1], flush=True)
    found = [held(nodes, min(_MOST_PODS, 10 * nodes)) for nodes in sizes]
    return Scale(points, events(runs), found)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    options = parser.parse_args()
    measured = measure(options.nodes)
    for table in scale_results.tables(measured).values():
        print(table)
    if options.record:
        scale_results.keep(measured)
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
