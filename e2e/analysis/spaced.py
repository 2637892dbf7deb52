"""A trace whose events are far enough apart to replay on a real cluster one by one."""

import bisect
import itertools
import random
from dataclasses import dataclass, field

from analysis.lab.cluster import Cluster, Pool
from analysis.lab.lives import Life
from analysis.lab.simulation import Run, Simulation
from analysis.lab.trace import Job
from analysis.lab.variants import Variant

RACK = "example.com/rack"
NODES, CORES, RACK_OF = 8, 4, 4
CLUSTER = Cluster((Pool("n", NODES, {"cpu": CORES, "pods": 200}, {RACK: RACK_OF}),))

APART = 0.3
"""Minimum seconds between any two events."""

GRACE = 0.1
"""Seconds that victims take to end, so that they are deleted before the next event."""

URGENT = 1000
"""Priority of jobs that preempt others."""

_BATCH = 25
"""Number of jobs after which all must end before the next one arrives."""

Nodes = tuple[tuple[int, ...], ...]
"""The nodes of a job's pods, gang by gang, as sorted indices."""


@dataclass
class Event:
    """The arrival or end of a job, and its effects: victims, and starts with their nodes."""

    time: float
    name: str
    comes: bool
    victims: list[str] = field(default_factory=list)
    starts: list[tuple[str, Nodes]] = field(default_factory=list)


def spaced_trace(count: int, seed: int) -> list[Job]:
    """Return `count` jobs of one core per pod; one arrives every two seconds.

    They are gangs and trees of gangs; some require one rack, and some are urgent.
    """
    chance, jobs, empty = random.Random(seed), list[Job](), 0.0
    while len(jobs) < count:
        batch = _batch(len(jobs), min(_BATCH, count - len(jobs)), empty, chance)
        empty = max(life.ended or 0.0 for life in simulated(batch).lives)
        jobs += batch
    return jobs


def _batch(first: int, count: int, after: float, chance: random.Random) -> list[Job]:
    """Draw jobs for an empty cluster, so that the batch can be tried on its own."""
    jobs: list[Job] = []
    for _ in range(50 * count):
        job = _draw(first + len(jobs), jobs[-1].arrival if jobs else after, chance)
        if _gap(simulated([*jobs, job])) >= APART:
            jobs.append(job)
        if len(jobs) == count:
            return jobs
    raise RuntimeError(f"no trace of {count} jobs with events {APART} s apart was found")


def simulated(jobs: list[Job]) -> Run:
    return Simulation(CLUSTER, jobs, Variant()).run()


def expected(jobs: list[Job]) -> list[Event]:
    """Return the events that the lab predicts. Raises AssertionError if a job never ends."""
    lives = simulated(jobs).lives
    assert all(life.ended is not None for life in lives)
    events = [Event(life.job.arrival, life.job.name, comes=True) for life in lives]
    events += [Event(life.ended or 0.0, life.job.name, comes=False) for life in lives]
    events.sort(key=lambda event: event.time)
    times = [event.time for event in events]
    for life in lives:
        for stop in life.stops:
            events[bisect.bisect_right(times, stop) - 1].victims.append(life.job.name)
        for start in life.starts:
            begun = (life.job.name, tuple(map(indices, start.nodes)))
            events[bisect.bisect_right(times, start.time) - 1].starts.append(begun)
    for event in events:
        event.victims.sort()
        event.starts.sort()
    return events


def indices(names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the sorted numbers of nodes whose names end in their number."""
    return tuple(sorted(int(name.rpartition("-")[2]) for name in names))


def _draw(number: int, after: float, chance: random.Random) -> Job:
    replicas = chance.choice((1, 1, 1, 2, 3))
    pods = chance.choice((1, 2, 3, 4, 6, 8, 12) if replicas == 1 else (1, 2, 4))
    confined = pods * replicas <= RACK_OF * CORES // 2 and chance.random() < 0.4
    gang_confined = replicas > 1 and not confined and chance.random() < 0.5
    return Job(
        name=f"g{number:03}",
        arrival=round(after + chance.uniform(APART, 3.7), 2),
        duration=round(chance.uniform(3, 16), 2),
        pods=pods,
        replicas=replicas,
        requests=(("cpu", 1000),),
        priority=URGENT if chance.random() < 0.2 else 0,
        topology="required" if confined else "",
        key=RACK if confined else "",
        gang_topology="required" if gang_confined else "",
        gang_key=RACK if gang_confined else "",
        grace=GRACE,
    )


def _gap(run: Run) -> float:
    """Return the shortest time between two events; starts and evictions follow them at once."""
    times = sorted(time for life in run.lives for time in _moments(life))
    return min((b - a for a, b in itertools.pairwise(times)), default=APART)


def _moments(life: Life) -> list[float]:
    return [life.job.arrival, *([] if life.ended is None else [life.ended])]
