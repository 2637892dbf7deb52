"""Google's Borg trace of 2019, `instance_events` as JSON lines, as BigQuery exports them.

Fields: time (microseconds; 0 is before the trace), type, collection_id, collection_type, priority,
instance_index and resource_request {cpus, memory}, which are shares of the largest machine. A
collection becomes one gang with a pod for each instance. Each pod requests the most that an
instance requested. It lasts from the first SUBMIT to the last end, less the time before the first
SCHEDULE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from analysis.lab.errors import input_of
from analysis.lab.trace import Job, checked, from_zero, job_of

MACHINE_CPU: Final = 64
"""Cores of a share of 1, as the nodes have on which the trace is played."""

MACHINE_MEMORY: Final = 256 << 30
"""Bytes of memory of a share of 1, as the nodes have on which the trace is played."""

_NAMES: Final = ("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")
_ENDS: Final = frozenset({"FAIL", "FINISH", "KILL", "LOST"})
_TRACE_TIERS: Final = 450
"""Highest priority of the trace; the lowest is 0."""


class Resources(msgspec.Struct, frozen=True):
    """Shares of the largest machine."""

    cpus: float = 0.0
    memory: float = 0.0


class Event(msgspec.Struct, frozen=True):
    """One event of an instance; BigQuery writes 64-bit integers as strings."""

    time: int
    type: int | str
    collection_id: int
    instance_index: int = 0
    collection_type: int | str = 0
    priority: int = 0
    resource_request: Resources | None = None


@dataclass(slots=True)
class _Collection:
    submitted: int
    priority: int
    instances: set[int] = field(default_factory=set)
    begun: int | None = None
    ended: int | None = None
    cpus: float = 0.0
    memory: float = 0.0

    def add(self, event: Event, kind: str) -> None:
        self.instances.add(event.instance_index)
        if event.resource_request is not None:
            self.cpus = max(self.cpus, event.resource_request.cpus)
            self.memory = max(self.memory, event.resource_request.memory)
        if kind == "SCHEDULE" and self.begun is None:
            self.begun = event.time
        if kind in _ENDS:
            self.ended = max(self.ended or 0, event.time)


def read_instance_events(file: Path) -> list[Job]:
    """Read the jobs that ran and ended in the trace. Raises LabError, which names the line."""
    with input_of(str(file)), file.open(encoding="utf-8") as lines:
        collections = _collected(lines, str(file))
    return from_zero(checked(_jobs(collections, str(file)), str(file)))


def _collected(lines: Iterator[str], source: str) -> dict[int, _Collection]:
    decoder = msgspec.json.Decoder(Event, strict=False)
    found: dict[int, _Collection] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        with input_of(f"{source}: line {number}"):
            event = decoder.decode(line)
        # An alloc set reserves resources for jobs, and is not a job.
        if event.collection_type in (1, "1", "ALLOC_SET"):
            continue
        collection = found.setdefault(event.collection_id, _Collection(event.time, event.priority))
        collection.add(event, _kind(event.type))
    return found


def _kind(written: int | str) -> str:
    text = str(written)
    if not text.isdecimal():
        return text
    return _NAMES[int(text)] if int(text) < len(_NAMES) else "UPDATE"


def _jobs(collections: dict[int, _Collection], source: str) -> Iterator[Job]:
    for identity, found in collections.items():
        if found.begun is None or found.ended is None or not found.submitted:
            continue  # it began before the trace, or runs beyond it
        requests = {
            "cpu": f"{max(round(found.cpus * MACHINE_CPU * 1000), 1)}m",
            "memory": max(round(found.memory * MACHINE_MEMORY), 1),
        }
        fields = {
            "name": str(identity),
            "arrival": found.submitted / 1e6,
            "duration": max((found.ended - found.begun) / 1e6, 1.0),
            "pods": len(found.instances),
            "requests": requests,
            "priority": min(found.priority, _TRACE_TIERS),
        }
        yield job_of(fields, f"{source}: collection {identity}")
