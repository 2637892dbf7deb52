"""A trace whose events are so far apart that a real cluster's delays cannot change their order."""

import itertools
import random
from dataclasses import dataclass

from lab.cluster import Cluster, Pool
from lab.simulation import Run, Simulation
from lab.trace import Job
from lab.variants import Variant

RACK = "example.com/rack"
NODES, CORES, RACK_OF = 8, 4, 4
CLUSTER = Cluster((Pool("n", NODES, {"cpu": CORES, "pods": 200}, {RACK: RACK_OF}),))

APART = 0.3
"""Seconds between any two events: far more than a small cluster takes to place a gang."""


@dataclass(frozen=True)
class Expected:
    """What the lab says: the gangs in the order of their starts, and their nodes as indices."""

    starts: list[str]
    nodes: dict[str, list[int]]


def spaced_trace(count: int, seed: int) -> list[Job]:
    """`count` gangs of one core a pod, some for one rack; one comes every two seconds."""
    chance = random.Random(seed)
    jobs: list[Job] = []
    for _ in range(50 * count):
        job = _draw(len(jobs), jobs[-1].arrival if jobs else 0.0, chance)
        if _gap(simulated([*jobs, job])) >= APART:
            jobs.append(job)
        if len(jobs) == count:
            return jobs
    raise RuntimeError(f"no trace of {count} gangs with events {APART} s apart was found")


def simulated(jobs: list[Job]) -> Run:
    return Simulation(CLUSTER, jobs, Variant()).run()


def expected(jobs: list[Job]) -> Expected:
    """Raises AssertionError if a gang never starts."""
    run = simulated(jobs)
    started = {life.job.name: life.started for life in run.lives}
    assert None not in started.values()
    nodes = {life.job.name: sorted(_index(name) for name in life.first_nodes) for life in run.lives}
    return Expected(sorted(started, key=lambda name: (started[name], name)), nodes)


def _draw(number: int, after: float, chance: random.Random) -> Job:
    pods = chance.choice((1, 2, 3, 4, 6, 8, 12))
    confined = pods <= RACK_OF * CORES // 2 and chance.random() < 0.4
    return Job(
        name=f"g{number:03}",
        arrival=round(after + chance.uniform(APART, 3.7), 2),
        duration=round(chance.uniform(3, 16), 2),
        pods=pods,
        requests=(("cpu", 1000),),
        topology="required" if confined else "",
        key=RACK if confined else "",
    )


def _gap(run: Run) -> float:
    """The least time between two events: arrivals and ends, as starts follow these at once."""
    times = [life.job.arrival for life in run.lives]
    times += [life.ended for life in run.lives if life.ended is not None]
    times.sort()
    return min((b - a for a, b in itertools.pairwise(times)), default=APART)


def _index(name: str) -> int:
    return int(name.rpartition("-")[2])
