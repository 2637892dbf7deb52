"""The growth of the lab's time with jobs and nodes, and the pictures.

`python -m tools.bench.components.lab [--record]` measures it.

Each point is a run of its own. For points of the same load the table shows the power by which
processor time grows from each to the next; 1 is linear. With --record the points and the week of
docs/lab.md are stored, and that page's tables and pictures are generated from them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from analysis.lab.amounts import seconds_of
from analysis.lab.cluster import Cluster, read_cluster
from analysis.lab.generate import Recipe, generate, read_recipe
from analysis.lab.results import result_of
from analysis.lab.simulation import Simulation
from analysis.lab.variants import Variant, variant_of
from tools.bench.page import write_lab
from tools.bench.report.lab_results import (
    BASELINES,
    MORE_NODES,
    Growth,
    Kept,
    Point,
    Week,
    keep,
    table,
    week_of,
)

EXAMPLES: Final = Path(__file__).resolve().parents[3] / "examples" / "lab"
PARTS: Final = (8, 4, 2, 1)
"""Divisors of examples/lab/week.yaml and its cluster: 1 is the complete week."""
_WEEK: Final = 7 * 86400.0


def part_of(
    cluster: Cluster, recipe: Recipe, *, of_nodes: int = 1, of_jobs: int = 1, of_time: int = 1
) -> tuple[Cluster, Recipe]:
    """Return an n-th of the nodes and of the jobs, in the same time or in an n-th of it."""
    pools = tuple(msgspec.structs.replace(it, count=it.count // of_nodes) for it in cluster.pools)
    span = seconds_of(recipe.span) / of_time
    return Cluster(pools), msgspec.structs.replace(recipe, jobs=recipe.jobs // of_jobs, span=span)


def measure(*, of_nodes: int = 1, of_jobs: int = 1, of_time: int = 1) -> Point:
    """Return the faster of two runs: other processes only make a run slower."""
    whole = read_cluster(EXAMPLES / "cluster.yaml"), read_recipe(EXAMPLES / "week.yaml")
    cluster, recipe = part_of(*whole, of_nodes=of_nodes, of_jobs=of_jobs, of_time=of_time)
    return min((_run(cluster, recipe) for _ in range(2)), key=lambda point: point.seconds)


def _run(cluster: Cluster, recipe: Recipe) -> Point:
    jobs = generate(recipe, 1)
    begun = time.process_time()
    run = Simulation(cluster, jobs, Variant()).run()
    seconds = round(time.process_time() - begun, 2)
    return Point(len(jobs), run.nodes, run.decisions, seconds)


def measure_growth() -> Growth:
    """Measure the growth of both together, and of each alone.

    Alone are jobs in a longer or in the same time, and nodes for few jobs.
    """
    few = PARTS[0]
    both = [measure(of_nodes=part, of_jobs=part) for part in PARTS]
    longer = [measure(of_jobs=part, of_time=part) for part in PARTS[:-1]]
    jobs = [measure(of_jobs=part) for part in PARTS[:-1]]
    nodes = [measure(of_nodes=part, of_jobs=few) for part in PARTS[1:-1]]
    return Growth(both, [*longer, both[-1]], [*jobs, both[-1]], [both[0], *nodes, jobs[0]])


def play_week(variant: str) -> Week:
    """Play the department's week of docs/lab.md."""
    cluster = read_cluster(EXAMPLES / "team-cluster.yaml")
    jobs = generate(read_recipe(EXAMPLES / "team-week.yaml"), 1)
    return week_of(result_of(Simulation(cluster, jobs, variant_of(variant)).run(_WEEK)))


def main(words: list[str]) -> int:
    growth = measure_growth()
    for points in (growth.both, growth.longer, growth.jobs, growth.nodes):
        print(table(points))
    if "--record" in words:
        keep(Kept(growth, [play_week(name) for name in (*BASELINES, *MORE_NODES)]))
        write_lab()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
