"""Results of a run, as plain values in a fixed order: equal runs give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from analysis.lab.lives import Life
from analysis.lab.simulation import Run
from analysis.lab.usage import UsedDomains

SIZES: Final = (1, 4, 8, 16, 64)
"""The most pods of each size class of jobs. Larger jobs are in the last class."""


class Waits(msgspec.Struct, frozen=True):
    """Seconds until jobs ran, as nearest ranks; for those that never did, until the end."""

    jobs: int
    unstarted: int
    mean: float
    median: float
    p90: float
    p99: float
    longest: float


class Resource(msgspec.Struct, frozen=True):
    """One resource, in shares of the capacity over the time from 0 to the end.

    `used` is the share of bound pods, and `idle_partial` its part with pods whose job did not run.
    `lost` is the work of evicted jobs since their last checkpoint. `over_time` and
    `partial_over_time` are the first two for each span.
    """

    name: str
    capacity: float
    used: float
    idle_partial: float
    lost: float
    over_time: list[float]
    partial_over_time: list[float]


class Domains(msgspec.Struct, frozen=True):
    """The use of a key's domains, in shares of the capacity of each.

    `used` has the least, the median and the most of each resource over the entire time. `over_time`
    has the shares of each domain by resource, for each `span` seconds.
    """

    key: str
    count: int
    used: dict[str, tuple[float, float, float]]
    span: float
    over_time: dict[str, dict[str, list[float]]]


class Fragmentation(msgspec.Struct, frozen=True):
    """Fragmentation in pods of the reference shape, as means over time.

    `share` is the part of free resources that no such pod could use. `fits` is the number of pods
    that the nodes could hold, `largest` the number for the best domain of each key. `over_time` is
    the share at `times`.
    """

    reference: dict[str, int]
    share: float
    fits: float
    largest: dict[str, float]
    times: list[float]
    over_time: list[float]


class Result(msgspec.Struct, frozen=True):
    """One variant. Times are seconds of the simulation.

    `confined` is a share of the jobs that ran and have a topology key: those in one domain of it.
    """

    variant: str
    nodes: int
    jobs: int
    pods: int
    finished: int
    end: float
    span: float
    decisions: int
    evicted_pods: int
    evicted_jobs: int
    given_up: int
    confined: float
    wait: Waits
    wait_by_size: dict[str, Waits]
    wait_by_priority: dict[str, Waits]
    to_whole: Waits
    resources: list[Resource]
    domains: list[Domains]
    fragmentation: Fragmentation


def result_of(run: Run) -> Result:
    """Return the results of a run."""
    lives, end = run.lives, run.end
    return Result(
        variant=run.variant.name,
        nodes=run.nodes,
        jobs=len(lives),
        pods=sum(life.job.total for life in lives),
        finished=sum(life.ended is not None for life in lives),
        end=end,
        span=run.usage.over_time.seconds,
        decisions=run.decisions,
        evicted_pods=run.evictions,
        evicted_jobs=sum(bool(life.stops) for life in lives),
        given_up=sum(life.given_up for life in lives),
        confined=_confined(lives),
        wait=_waits(lives, end),
        wait_by_size=_by(lives, end, _size),
        wait_by_priority=_by(lives, end, lambda life: str(life.job.priority)),
        to_whole=_ranks(list(_until_complete(lives, end))),
        resources=_resources(run),
        domains=[_used_domains(run, key, each) for key, each in run.usage.domains.items()],
        fragmentation=_fragmentation(run),
    )


def _waits(lives: Iterable[Life], end: float) -> Waits:
    waits, unstarted = [], 0
    for life in lives:
        begun = end if life.started is None else life.started
        unstarted += life.started is None
        waits.append(max(begun - life.job.arrival, 0.0))
    return _ranks(waits, unstarted)


def _confined(lives: Iterable[Life]) -> float:
    known = [life.confined for life in lives if life.confined is not None]
    return _share(sum(known) / len(known)) if known else 1.0


def _ranks(seconds: Sequence[float], unstarted: int = 0) -> Waits:
    ordered = sorted(seconds)
    if not ordered:
        return Waits(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def rank(share: float) -> float:
        return round(ordered[max(math.ceil(share * len(ordered)) - 1, 0)], 3)

    mean = round(math.fsum(ordered) / len(ordered), 3)
    return Waits(len(ordered), unstarted, mean, rank(0.5), rank(0.9), rank(0.99), rank(1.0))


def _until_complete(lives: Iterable[Life], end: float) -> Iterator[float]:
    """Yield the seconds from the first bound pod until the job runs; 0 if it starts complete."""
    for life in lives:
        if life.first_placed is not None:
            yield (end if life.started is None else life.started) - life.first_placed


def _by(lives: Iterable[Life], end: float, of: Callable[[Life], str]) -> dict[str, Waits]:
    classes: dict[str, list[Life]] = {}
    for life in sorted(lives, key=lambda life: (life.job.total, life.job.priority)):
        classes.setdefault(of(life), []).append(life)
    return {name: _waits(members, end) for name, members in classes.items()}


def _size(life: Life) -> str:
    least = 1
    for most in SIZES:
        if life.job.total <= most:
            return str(most) if least == most else f"{least}-{most}"
        least = most + 1
    return f"{least}+"


def _resources(run: Run) -> list[Resource]:
    usage, found = run.usage, []
    whole = usage.capacity * max(run.end, 1e-9)
    used, partial = usage.over_time.sums, usage.partial_over_time.sums
    over_time = usage.over_time.means(run.end) / usage.capacity
    partial_over_time = usage.partial_over_time.means(run.end) / usage.capacity
    for index, name in enumerate(usage.resources):
        found.append(
            Resource(
                name=name,
                capacity=float(usage.capacity[index]),
                used=_share(used[:, index].sum() / whole[index]),
                idle_partial=_share(partial[:, index].sum() / whole[index]),
                lost=_share(run.lost.get(name, 0.0) / whole[index]),
                over_time=[_share(value) for value in over_time[:, index]],
                partial_over_time=[_share(value) for value in partial_over_time[:, index]],
            )
        )
    return found


def _used_domains(run: Run, key: str, domains: UsedDomains) -> Domains:
    capacity = domains.capacity.clip(min=1e-9)
    shares = domains.over_time.sums.sum(axis=0) / capacity / max(run.end, 1e-9)
    over_time = domains.over_time.means(run.end) / capacity
    resources = list(enumerate(run.usage.resources))
    return Domains(
        key=key,
        count=len(domains.names),
        used={
            name: (
                _share(shares[:, index].min()),
                _share(np.median(shares[:, index])),
                _share(shares[:, index].max()),
            )
            for index, name in resources
        },
        span=domains.over_time.seconds,
        over_time={
            name: {
                domain: [_share(value) for value in over_time[:, row, index]]
                for row, domain in enumerate(domains.names)
            }
            for index, name in resources
        },
    )


def _fragmentation(run: Run) -> Fragmentation:
    fragments = run.fragments
    samples = fragments.samples
    shares = [1 - sample.fits / sample.ideal if sample.ideal else 0.0 for sample in samples]
    count = max(len(samples), 1)
    largest = {
        key: round(sum(sample.largest[index] for sample in samples) / count, 3)
        for index, key in enumerate(fragments.keys)
    }
    return Fragmentation(
        reference=dict(fragments.reference),
        share=_share(sum(shares) / count),
        fits=round(sum(sample.fits for sample in samples) / count, 3),
        largest=largest,
        times=[sample.time for sample in samples],
        over_time=[_share(share) for share in shares],
    )


def _share(value: float) -> float:
    """Round a share, so that another order of additions on another machine does not show."""
    # Adding 0.0 turns -0.0 into 0.0.
    return round(float(value), 6) + 0.0
