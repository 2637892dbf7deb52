"""Small clusters and jobs for the lab's tests."""

from typing import Any

from analysis.lab.cluster import Cluster, Pool
from analysis.lab.simulation import Run, Simulation
from analysis.lab.trace import Job
from analysis.lab.variants import variant_of

RACK = "example.com/rack"


def cluster(count: int, cpu: int = 4, *, rack_of: int = 0) -> Cluster:
    """Return `count` nodes with `cpu` cores; with `rack_of`, that many of them in each rack."""
    domains = {RACK: rack_of} if rack_of else {}
    return Cluster((Pool("n", count, {"cpu": cpu}, domains),))


def job(
    name: str, arrival: float, duration: float, pods: int = 1, cpu: int = 1, **more: Any
) -> Job:
    return Job(
        name=name,
        arrival=arrival,
        duration=duration,
        pods=pods,
        requests=(("cpu", cpu * 1000),),
        **{"grace": 0.0, **more},
    )


def play(nodes: Cluster, *jobs: Job, variant: str = "muster", until: float | None = None) -> Run:
    ordered = sorted(jobs, key=lambda each: each.arrival)
    return Simulation(nodes, ordered, variant_of(variant)).run(until)


def started(run: Run) -> dict[str, float | None]:
    return {life.job.name: life.started for life in run.lives}


def ended(run: Run) -> dict[str, float | None]:
    return {life.job.name: life.ended for life in run.lives}
