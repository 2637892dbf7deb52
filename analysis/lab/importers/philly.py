"""Microsoft's Philly trace of 2017, `cluster_job_log`: a JSON list of jobs with their attempts.

Each entry has `jobid`, `vc` (the virtual cluster), `submitted_time` and `attempts`, each with
`start_time`, `end_time` and `detail`, a list of machines with the GPUs that the attempt had there.
A job becomes a gang with one pod for each machine of its last attempt, and runs as long as all its
attempts together. If machines had unequal numbers of GPUs, all its pods request the largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from analysis.lab.errors import input_of
from analysis.lab.importers.alibaba import GPU
from analysis.lab.trace import Job, checked, from_zero, job_of


class Machine(msgspec.Struct, frozen=True):
    """The GPUs that an attempt had on one machine."""

    gpus: list[str] = []


class Attempt(msgspec.Struct, frozen=True):
    """One run of the job."""

    start_time: str | None = None
    end_time: str | None = None
    detail: list[Machine] = []


class Entry(msgspec.Struct, frozen=True):
    """One job of the log."""

    jobid: str
    submitted_time: str
    vc: str = "default"
    attempts: list[Attempt] = []


def read_job_log(file: Path) -> list[Job]:
    """Read the jobs that ran and ended. Raises LabError, which names the field."""
    with input_of(str(file)):
        entries = msgspec.json.decode(file.read_bytes(), type=list[Entry])
    return from_zero(checked(_jobs(entries, str(file)), str(file)))


def _jobs(entries: list[Entry], source: str) -> Iterator[Job]:
    for number, entry in enumerate(entries, 1):
        place = f"{source}: entry {number} ({entry.jobid})"
        ran = [seconds for each in entry.attempts if (seconds := _seconds(each, place)) is not None]
        machines = (
            [each for each in entry.attempts[-1].detail if each.gpus] if entry.attempts else []
        )
        if not ran or not machines:
            continue  # it never ran, or without GPUs
        fields = {
            "name": entry.jobid,
            "namespace": entry.vc,
            "arrival": _time(entry.submitted_time, place),
            "duration": max(sum(ran), 1.0),
            "pods": len(machines),
            "requests": {GPU: max(len(each.gpus) for each in machines)},
        }
        yield job_of(fields, place)


def _seconds(attempt: Attempt, place: str) -> float | None:
    if not attempt.start_time or not attempt.end_time:
        return None
    return _time(attempt.end_time, place) - _time(attempt.start_time, place)


def _time(written: str, place: str) -> float:
    """Return seconds since 2017. The log's time zone is ignored, as only differences count."""
    with input_of(place):
        moment = datetime.strptime(written[:19], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007
    return (moment - datetime(2017, 1, 1)).total_seconds()  # noqa: DTZ001
