"""A trace whose events are apart, so that a real cluster can be given one after the other."""

import bisect
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
"""Seconds between any two events."""


@dataclass(frozen=True)
class Event:
    """A gang comes or ends; `starts` are how many have started once that was taken in."""

    time: float
    name: str
    comes: bool
    starts: int


@dataclass(frozen=True)
class Expected:
    """What the lab says: the gangs in the order of their starts, and their nodes as indices."""

    starts: list[str]
    nodes: dict[str, list[int]]
    events: list[Event]


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
    lives = simulated(jobs).lives
    started = {life.job.name: life.started for life in lives}
    times = sorted(time for time in started.values() if time is not None)
    assert len(times) == len(jobs)
    moments = [(life.job.arrival, life.job.name, True) for life in lives]
    moments += [(life.ended, life.job.name, False) for life in lives if life.ended is not None]
    return Expected(
        sorted(started, key=lambda name: (started[name], name)),
        {life.job.name: sorted(_index(name) for name in life.first_nodes) for life in lives},
        [Event(*moment, bisect.bisect_right(times, moment[0])) for moment in sorted(moments)],
    )


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
