"""A trace: the jobs that arrive at a cluster, with their durations.

A file is CSV with a header, or JSON lines. The columns of both are the fields of `Job`; those with
a default may be left out. Resources are columns of their own in CSV (`cpu`, `memory`,
`nvidia.com/gpu`), in JSON one object, `requests`. Times are seconds or durations ("90s", "1d").
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from analysis.lab.amounts import seconds_of, text_of_amount
from analysis.lab.errors import LabError, input_of
from kube.client.quantity import QuantityError
from scheduler.decoding.requests import amount

MOST_PODS: Final = 100_000
"""Pods of one job. The limit keeps a wrong column from filling the memory."""

Topology = Literal["", "required", "preferred"]
Disruption = Literal["all", "single"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job: a gang of `pods` equal pods or, with `replicas` above 1, a tree of so many gangs.

    It runs once `min_pods` pods of `min_replicas` gangs are placed, and ends `duration` seconds
    later. `requests` are those of one pod, in the units of the decision core (milli for cpu).
    `topology` requires or prefers one domain of `key` for all its pods, `gang_topology` one of
    `gang_key` for each gang. An evicted job restarts from its last checkpoint; 0 means that it has
    none.
    """

    name: str
    arrival: float
    duration: float
    pods: int = 1
    min_pods: int = 0
    replicas: int = 1
    min_replicas: int = 0
    requests: tuple[tuple[str, int], ...] = ()
    priority: int = 0
    namespace: str = "default"
    topology: Topology = ""
    key: str = ""
    gang_topology: Topology = ""
    gang_key: str = ""
    disruption: Disruption = "all"
    grace: float = 30.0
    checkpoint: float = 0.0

    @property
    def least_pods(self) -> int:
        """Pods of one gang that it needs to run."""
        return self.min_pods or self.pods

    @property
    def least_replicas(self) -> int:
        """Gangs that it needs to run."""
        return self.min_replicas or self.replicas

    @property
    def total(self) -> int:
        """Number of all pods."""
        return self.pods * self.replicas


_TIMES: Final = frozenset({"arrival", "duration", "grace", "checkpoint"})
_NUMBERS: Final = frozenset({"pods", "min_pods", "replicas", "min_replicas", "priority"})
_TEXTS: Final = frozenset(Job.__struct_fields__) - _TIMES - _NUMBERS - {"requests"}
_NEEDED: Final = ("name", "arrival", "duration")


def read_trace(file: Path) -> list[Job]:
    """Read the jobs, ordered by arrival. Raises LabError, which names the line and the field."""
    with input_of(str(file)):
        text = file.read_text("utf-8")
    rows = _json_rows if file.suffix in (".jsonl", ".json") else _csv_rows
    jobs = (job_of(fields, f"{file}: line {line}") for line, fields in rows(text, str(file)))
    return checked(jobs, str(file))


def checked(jobs: Iterable[Job], source: str) -> list[Job]:
    """Return the jobs by arrival, then name. Raises LabError for a duplicate name, or no job."""
    found: dict[tuple[str, str], Job] = {}
    for job in jobs:
        key = (job.namespace, job.name)
        if key in found:
            raise LabError(f"{source}: two jobs have the name {job.namespace}/{job.name}")
        found[key] = job
    if not found:
        raise LabError(f"{source}: no jobs found")
    return sorted(found.values(), key=lambda job: (job.arrival, job.namespace, job.name))


def from_zero(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs, ordered by arrival, shifted so that the first one arrives at second 0."""
    first = jobs[0].arrival
    return [msgspec.structs.replace(job, arrival=job.arrival - first) for job in jobs]


def job_of(fields: Mapping[str, Any], place: str) -> Job:
    """Create a job from its fields as written. Raises LabError, which begins with `place`."""
    for name in _NEEDED:
        if fields.get(name) in (None, ""):
            raise LabError(f"{place}: {name}: Required value")
    values: dict[str, Any] = {}
    requests: dict[str, Any] = dict(fields.get("requests") or {})
    for name, value in fields.items():
        if name == "requests" or value in (None, ""):
            continue
        if name in _TIMES:
            values[name] = _read(seconds_of, name, value, place)
        elif name in _NUMBERS:
            values[name] = _read(int, name, value, place)
        elif name in _TEXTS:
            values[name] = str(value)
        else:
            # Any other column is a resource. A misspelt field fails later, as no node offers it.
            requests[name] = value
    values["requests"] = _requests(requests, place)
    with input_of(place):
        job = msgspec.convert(values, Job)
    _check(job, place)
    return job


def write_trace(jobs: Iterable[Job]) -> str:
    """Return the jobs as JSON lines, without fields that have their default."""
    return "".join(f"{msgspec.json.encode(_written(job)).decode()}\n" for job in jobs)


def _written(job: Job) -> dict[str, Any]:
    fields = {
        field.name: getattr(job, field.name)
        for field in msgspec.structs.fields(job)
        if getattr(job, field.name) != field.default
    }
    fields["requests"] = {name: text_of_amount(name, value) for name, value in job.requests}
    return fields


def _json_rows(text: str, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        with input_of(f"{source}: line {number}"):
            fields = msgspec.json.decode(line, type=dict[str, Any])
        yield number, fields


def _csv_rows(text: str, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), restkey="", strict=True)
    try:
        for fields in reader:
            if "" in fields:
                raise LabError(
                    f"{source}: line {reader.line_num}: more values than columns in the header"
                )
            yield reader.line_num, fields
    except csv.Error as error:
        raise LabError(f"{source}: line {reader.line_num}: {error}") from error


def _read(convert: Any, name: str, value: Any, place: str) -> Any:
    try:
        return convert(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise LabError(f"{place}: {name}: {error}") from error


def _requests(written: Mapping[str, Any], place: str) -> tuple[tuple[str, int], ...]:
    found = []
    for name, quantity in sorted(written.items()):
        if not isinstance(quantity, str | int | float):
            raise LabError(f"{place}: {name}: {quantity!r} is not a quantity")
        try:
            value = amount(name, str(quantity))
        except QuantityError as error:
            raise LabError(
                f"{place}: {name}: {error}: it is a resource, as jobs have no field of this name"
            ) from error
        if value < 0:
            raise LabError(f"{place}: {name}: must be greater than or equal to 0")
        if value:
            found.append((name, value))
    return tuple(found)


def _check(job: Job, place: str) -> None:
    if job.pods < 1 or job.replicas < 1 or job.total > MOST_PODS:
        raise LabError(f"{place}: pods times replicas must be between 1 and {MOST_PODS}, inclusive")
    if not 0 <= job.min_pods <= job.pods:
        raise LabError(f"{place}: min_pods must be between 0 and pods ({job.pods})")
    if not 0 <= job.min_replicas <= job.replicas:
        raise LabError(f"{place}: min_replicas must be between 0 and replicas ({job.replicas})")
    if abs(job.priority) > 2**31 - 1:
        raise LabError(f"{place}: priority must be an int32")
    for topology, key, name in (
        (job.topology, job.key, "key"),
        (job.gang_topology, job.gang_key, "gang_key"),
    ):
        if bool(topology) != bool(key):
            raise LabError(
                f"{place}: {name} and its topology must be used together: set both or neither"
            )
