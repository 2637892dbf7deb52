"""Traces that begin at any time, moved to second 0."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.lab.trace import Job


def from_zero(jobs: Sequence[Job]) -> list[Job]:
    """The jobs, which are by arrival, moved so that the first one comes at second 0."""
    first = jobs[0].arrival
    return [msgspec.structs.replace(job, arrival=job.arrival - first) for job in jobs]
