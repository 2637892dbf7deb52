"""Fragmentation: the part of free resources that pods can still use, sampled at equal intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analysis.lab.trace import Job
from scheduler.core.nodes.node_table import Floats
from scheduler.core.state.state import State

MOST_SAMPLES: Final = 400
"""Samples of free capacity. Beyond it, every second one is dropped and the period doubles."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Free capacity at one time, in pods of the reference shape.

    `fits` is the number of pods that the nodes can hold, `ideal` the number if all free resources
    were on one node, and `largest` the number for the best single domain of each key.
    """

    time: float
    fits: int
    ideal: int
    largest: tuple[int, ...]


class Fragments:
    """Samples of the state. The reference is the pod shape with most work in the trace."""

    def __init__(self, state: State, jobs: Sequence[Job], keys: Sequence[str]) -> None:
        """Start without samples; `keys` are the topology keys whose domains are sampled."""
        self.reference = _reference(jobs)
        self.keys = tuple(keys)
        self.samples: list[Sample] = []
        self._state = state
        self._period = 60.0

    def sample(self, now: float, until: float) -> None:
        """Take the samples from `now` until `until`, between which the state does not change."""
        found: Sample | None = None
        while (time := len(self.samples) * self._period) < until:
            if time < now:
                raise RuntimeError(f"no sample was taken at {time}")
            # One look suffices for all samples of the span: nothing changes in it.
            found = self._sample(time) if found is None else replace(found, time=time)
            self.samples.append(found)
            if len(self.samples) == MOST_SAMPLES:
                self.samples = self.samples[::2]
                self._period *= 2

    def _sample(self, time: float) -> Sample:
        nodes = self._state.nodes
        free: dict[str, Floats] = {}
        for name, index in nodes.resources.indices.items():
            free[name] = nodes.free[index, : nodes.size].clip(min=0).astype(np.float64)
        wanted = (*self.reference, ("pods", 1))
        fits = np.min([free[name] // amount for name, amount in wanted], axis=0)
        ideal = min(free[name].sum() // amount for name, amount in wanted)
        largest = tuple(
            int(self._state.topologies.domains(key).sums(fits.astype(np.int64), None).max())
            for key in self.keys
        )
        return Sample(time, int(fits.sum()), int(ideal), largest)


def _reference(jobs: Sequence[Job]) -> tuple[tuple[str, int], ...]:
    work: Counter[tuple[tuple[str, int], ...]] = Counter()
    for job in jobs:
        work[job.requests] += round(job.total * job.duration)
    # The requests decide between equal work, so that equal traces give equal results.
    return max(work, key=lambda requests: (work[requests], requests))
