"""How the lab's time grows with jobs and nodes: python -m bench.lab

At the same load: twice the nodes run twice the jobs. Each point is a run of its own; beside them
stands the power by which processor time grows from each to the next, of which 1 is linear.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from lab.cluster import Cluster, read_cluster
from lab.generate import Recipe, generate, read_recipe
from lab.simulation import Simulation
from lab.variants import Variant

EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples" / "lab"
PARTS: Final = (8, 4, 2, 1)
"""The parts of examples/lab/week.yaml and its cluster, in whole: 1 is all of them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run; `seconds` of processor time."""

    jobs: int
    nodes: int
    decisions: int
    seconds: float


def part_of(cluster: Cluster, recipe: Recipe, part: int) -> tuple[Cluster, Recipe]:
    """An n-th of the nodes, and an n-th of the jobs in the same time."""
    pools = tuple(msgspec.structs.replace(it, count=it.count // part) for it in cluster.pools)
    return Cluster(pools), msgspec.structs.replace(recipe, jobs=recipe.jobs // part)


def measure(part: int) -> Point:
    whole = read_cluster(EXAMPLES / "cluster.yaml"), read_recipe(EXAMPLES / "week.yaml")
    cluster, recipe = part_of(*whole, part)
    jobs = generate(recipe, 1)
    begun = time.process_time()
    run = Simulation(cluster, jobs, Variant()).run()
    return Point(len(jobs), run.nodes, run.decisions, time.process_time() - begun)


def table(points: Sequence[Point]) -> list[str]:
    """Lines of Markdown."""
    lines = ["| jobs | nodes | decisions | processor time | power |", "|---|---|---|---|---|"]
    for before, point in zip([None, *points], points, strict=False):
        power = "" if before is None else f"{growth(before, point):.2f}"
        lines.append(
            f"| {point.jobs:,} | {point.nodes:,} | {point.decisions:,} | {point.seconds:.1f} s"
            f" | {power} |"
        )
    return lines


def growth(before: Point, after: Point) -> float:
    """The power by which the time grows with jobs and nodes together."""
    return math.log(after.seconds / before.seconds) / math.log(after.jobs / before.jobs)


def main() -> int:
    for line in table([measure(part) for part in PARTS]):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
