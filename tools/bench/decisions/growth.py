"""The growth of decision times, as pictures: python -m tools.bench.decisions.growth

Over nodes, pods, gangs, the size of a gang and the depth of a tree. Each point is the fastest of
several runs: the noise of a machine is not growth. Each line has the power by which it grows over
its upper half. It should be 1 at most, which is linear. `--record` writes
docs/pictures/growth-*.svg and updates docs/performance-results.md.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from scheduler.core.groups.forest import Group
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.state import State
from tools.bench import page
from tools.bench.decisions import growth_curves
from tools.bench.decisions.clusters import cluster, composite, full, gang
from tools.bench.decisions.decisions import (
    in_racks,
    one_large,
    placed,
    preemption,
    refusal,
    refusal_in_racks,
    small_gangs,
    three_levels,
)
from tools.bench.decisions.events import decoded, received, woken
from tools.bench.decisions.growth_curves import power
from tools.bench.report.frame import clock

LINEAR = 1.15
"""Highest power that counts as linear: a processor's caches are exceeded somewhere on the way."""

NODES = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
PODS = (1_000, 3_000, 10_000, 30_000, 100_000)
GANGS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
DEPTHS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Axis:
    """One picture. A line returns the seconds of one piece of work, or of several, at a size."""

    name: str
    sizes: Sequence[int]
    lines: dict[str, Callable[[int], Iterable[float]]] = field(default_factory=dict)


def among_running(pods: int) -> Iterator[float]:
    """Time a gang of four that is placed among so many running pods."""
    state = full(1_000, pods=pods // 1_000)
    for index in range(100):
        state.remove_pod(f"v{index // 10}-{index % 10}")
    for number in range(5):
        yield placed(state, gang(state, f"g{number}", 4))


def units_updated(pods: int) -> Iterator[float]:
    """Time the first update of the units, for which all running pods are new."""
    state = full(1_000, pods=pods // 1_000)
    start = clock()
    state.units.refresh()
    yield clock() - start


def evicting_among(pods: int) -> Iterator[float]:
    """Time a gang of eight that evicts some of so many pods."""
    state = full(1_000, pods=pods // 1_000)
    state.units.refresh()
    for number in range(5):
        root = gang(state, f"p{number}", 8, priority=9)
        start = clock()
        refused = place(state, root, SearchBudget())
        assert not isinstance(refused, Placement)
        assert isinstance(preempt(state, root, refused, SearchBudget()), Plan)
        yield clock() - start


def deep(depth: int) -> Iterator[float]:
    """Time a tree of 64 gangs of four with so many levels, which share the fan-out."""
    for number in range(5):
        state = cluster(5_000)
        yield placed(state, _tree(state, f"t{number}", depth))


def _tree(state: State, name: str, depth: int) -> Group:
    """Return 64 leaves below `depth - 1` levels of composites; at depth 1 one leaf of all."""
    if depth == 1:
        return gang(state, name, 256)
    fan_out = round(64 ** (1 / (depth - 1)))
    root = composite(state, name, fan_out)
    level = [root.name]
    for step in range(depth - 2):
        children = [f"{parent}-{number}" for parent in level for number in range(fan_out)]
        for child in children:
            composite(state, child, fan_out, None, child.rpartition("-")[0])
        level = children
        assert len(level) == fan_out ** (step + 1)
    for parent in level:
        for number in range(fan_out):
            gang(state, f"{parent}-{number}", 4, parent=parent)
    return root


def all_of(samples: Iterable[float]) -> Iterator[float]:
    """Yield the sum, as one piece of work."""
    yield sum(samples)


def _each(samples: Iterable[float], count: int) -> Iterator[float]:
    yield from (seconds * count for seconds in samples)


AXES = (
    Axis("nodes", NODES, {
        "a gang of 4 in a rack": lambda n: in_racks(n, 20),
        "a gang of 50": lambda n: one_large(n, 50),
        "a tree on three levels": lambda n: three_levels(n, 4),
        "a refusal": refusal,
        "a refusal in 50 racks": refusal_in_racks,
        "a preemption": lambda n: preemption(n, pods=2, gangs=8, racks=max(5, n // 20)),
    }),
    Axis("pods", PODS, {
        "a gang of 4 among running pods": among_running,
        "a preemption among running pods": evicting_among,
        "all units updated": units_updated,
        "all watch events decoded": lambda n: _each(decoded(n), n),
    }),
    Axis("gangs", GANGS, {
        "all placed, 4 pods each": lambda n: all_of(small_gangs(5_000, n)),
        "all placed, a rack each": lambda n: all_of(small_gangs(5_000, n, key="rack")),
        "all received": lambda n: all_of(_each(received(n), n)),
        "a node is freed": lambda n: woken(n, 1_000),
    }),
    Axis("size", SIZES, {
        "placed on 5,000 nodes": lambda n: one_large(5_000, n),
        "placed on 50,000 nodes": lambda n: one_large(50_000, n),
    }),
    Axis("depth", DEPTHS, {"placed on 5,000 nodes": deep}),
)  # fmt: skip


def best(line: Callable[[int], Iterable[float]], size: int, runs: int = 3) -> float:
    """Return the milliseconds of the fastest piece of work of all runs."""
    fastest = math.inf
    for _ in range(runs):
        gc.collect()
        fastest = min(fastest, *line(size), math.inf)
    return fastest * 1000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axis", action="append", choices=[axis.name for axis in AXES])
    parser.add_argument("--largest", type=int, default=sys.maxsize, help="no size beyond this")
    parser.add_argument("--record", action="store_true", help="keep the curves and show them")
    options = parser.parse_args()
    measured: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for axis in AXES:
        if options.axis and axis.name not in options.axis:
            continue
        sizes = [size for size in axis.sizes if size <= options.largest]
        for name, line in axis.lines.items():
            points = [(float(size), best(line, size)) for size in sizes]
            measured.setdefault(axis.name, {})[name] = points
            print(f"{axis.name:8} {name:35} power {power(points):5.2f}", flush=True)
    print(growth_curves.table(measured))
    if options.record:
        growth_curves.keep(measured)
        page.write()
    powers = [power(points) for lines in measured.values() for points in lines.values()]
    return 1 if max(powers) > LINEAR else 0


if __name__ == "__main__":
    sys.exit(main())
