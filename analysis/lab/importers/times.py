"""Shift of traces that begin at any time to second 0."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.lab.trace import Job


def from_zero(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs, ordered by arrival, shifted so that the first one arrives at second 0."""
    first = jobs[0].arrival
    return [msgspec.structs.replace(job, arrival=job.arrival - first) for job in jobs]
