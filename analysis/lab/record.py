"""A trace of a cluster's past, as its objects show it: groups, and pods that run or ended.

Deleted objects are missing: a Job with `ttlSecondsAfterFinished` leaves none. A root becomes one
job with equal gangs of equal pods. Their size and requests are the largest that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from analysis.lab.trace import Job, checked, job_of
from api.constants import NATIVE_POD_GROUP
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    SINGLE_POD,
    GroupKey,
    GroupSpec,
    PodInfo,
    parent_kind,
    plain_kind,
)
from scheduler.decoding import decode
from scheduler.decoding.objects import group_of, pod_of

T = TypeVar("T")
U = TypeVar("U")
_Json = Mapping[str, Any]
_DEEPEST: Final = 16
"""Parents that are followed to find the root. The limit ends a circle."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded jobs by arrival, the first at 0; `running` of them had not ended yet.

    `waiting` roots are left out, as their duration is unknown, and so are `odd` objects that cannot
    be decoded.
    """

    jobs: list[Job]
    running: int
    waiting: int
    odd: int


@dataclass(slots=True)
class _Root:
    spec: GroupSpec | None = None
    gangs: dict[str, list[_Span]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Span:
    """A pod from its start to its end, in seconds since 1970; `ended` is None while it runs."""

    info: PodInfo
    begun: float
    ended: float | None


def record(groups: Iterable[tuple[str, _Json]], pods: Iterable[_Json], now: float) -> Recording:
    """Return the jobs of these objects; `groups` are (kind of the key, object).

    Pods without a group are jobs of their own. Raises LabError if none of them ever ran.
    """
    odd: list[str] = []
    specs = {spec.key: spec for group in groups if (spec := _read(_spec, group, odd)) is not None}
    native = any(kind == NATIVE_POD_GROUP.full_kind for kind, _, _ in specs)
    roots: dict[GroupKey, _Root] = {}
    for pod in pods:
        span = _read(partial(_span, native=native), pod, odd)
        if span is not None and span.info.ours:
            key = _root_of(span.info, specs)
            root = roots.setdefault(key, _Root(specs.get(key)))
            gang = root.gangs.setdefault(span.info.group or "", [])
            if span.info.node and span.begun:
                gang.append(span)
    ran = {key: root for key, root in roots.items() if any(root.gangs.values())}
    found = [(key, root, _fields(key, root, specs, now)) for key, root in sorted(ran.items())]
    first = min((fields["arrival"] for _, _, fields in found), default=0.0)
    jobs = [
        job_of(fields | {"arrival": fields["arrival"] - first}, "/".join(key))
        for key, _, fields in found
    ]
    running = sum(any(span.ended is None for span in _spans(root)) for _, root, _ in found)
    return Recording(checked(jobs, "the cluster"), running, len(roots) - len(ran), len(odd))


def _read(convert: Callable[[T], U], obj: T, odd: list[str]) -> U | None:
    """Decode an object; leave out and count what a user wrote in an invalid form."""
    try:
        return convert(obj)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        odd.append(str(error))
        return None


def _span(pod: _Json, *, native: bool) -> _Span:
    info = decode.pod_info(pod_of(pod), native=native)
    status = pod.get("status") or {}
    return _Span(info, _seconds(status.get("startTime")) or 0.0, _ended(status))


def _spec(group: tuple[str, _Json]) -> GroupSpec:
    kind, obj = group
    return decode.group_spec(kind, group_of(obj))


def _root_of(info: PodInfo, specs: Mapping[GroupKey, GroupSpec]) -> GroupKey:
    if not info.group:
        return (SINGLE_POD, info.namespace, info.name)
    key: GroupKey = (info.group_kind, info.namespace, info.group)
    for _ in range(_DEEPEST):
        spec = specs.get(key)
        if spec is None or spec.parent is None:
            break
        key = (parent_kind(key[0]), key[1], spec.parent)
    return key


def _fields(
    key: GroupKey, root: _Root, specs: Mapping[GroupKey, GroupSpec], now: float
) -> dict[str, Any]:
    spans = list(_spans(root))
    # The groups of a tree have one API.
    leaf_kind = spans[0].info.group_kind
    leaves = [specs.get((leaf_kind, key[1], name)) for name in root.gangs]
    least = max((leaf.minimum or 0 for leaf in leaves if leaf is not None), default=0)
    pods = max(1, least, *(_at_once(gang, now) for gang in root.gangs.values()))
    tree = root.spec is not None and plain_kind(key[0]) == COMPOSITE_POD_GROUP
    replicas = max(len(root.gangs), (root.spec.minimum or 1) if tree and root.spec else 1)
    created = [_seconds(span.info.created) or span.begun for span in spans]
    if root.spec is not None:
        created.append(_seconds(root.spec.created) or min(created))
    end = max(now if span.ended is None else span.ended for span in spans)
    fields: dict[str, Any] = {
        "name": key[2],
        "namespace": key[1],
        "arrival": min(created),
        "duration": max(end - min(span.begun for span in spans), 1.0),
        "pods": pods,
        "min_pods": least,
        "replicas": replicas,
        "min_replicas": (root.spec.minimum or 0) if tree and root.spec else 0,
        "priority": max(span.info.priority for span in spans),
        "grace": max(span.info.preemption.grace for span in spans),
        "requests": _largest(spans),
    }
    if root.spec is not None:
        fields |= _constraint(root.spec, "topology", "key")
        fields["disruption"] = root.spec.disruption
    if tree:
        for leaf in filter(None, leaves):
            fields |= _constraint(leaf, "gang_topology", "gang_key")
    return fields


def _constraint(spec: GroupSpec, topology: str, key: str) -> dict[str, str]:
    """Return the group's topology constraint as fields of a job, under these names."""
    if spec.topology is None:
        return {}
    return {
        topology: "preferred" if spec.topology.preferred else "required",
        key: spec.topology.key,
    }


def _spans(root: _Root) -> Iterator[_Span]:
    for gang in root.gangs.values():
        yield from gang


def _at_once(gang: list[_Span], now: float) -> int:
    """Return how many of the gang's pods ran at once; replacements do not count extra."""
    # At equal times ends come before starts: a replacement succeeds its predecessor.
    changes = sorted(
        change
        for span in gang
        for change in ((span.begun, 1), (now if span.ended is None else span.ended, -1))
    )
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


def _largest(spans: Iterable[_Span]) -> dict[str, str]:
    largest: dict[str, int] = {}
    for span in spans:
        for name, amount in span.info.requirements.requests:
            largest[name] = max(largest.get(name, 0), amount)
    return {name: f"{value}m" if name == "cpu" else str(value) for name, value in largest.items()}


def _ended(status: _Json) -> float | None:
    """Return when the last container of a pod ended; None while it runs."""
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    ends = [
        _seconds(((each.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for each in status.get("containerStatuses") or ()
    ]
    if not any(ends):
        ends = [_seconds(each.get("lastTransitionTime")) for each in status.get("conditions") or ()]
    begun = _seconds(status.get("startTime"))
    return max((end for end in [*ends, begun] if end is not None), default=None)


def _seconds(written: str | None) -> float | None:
    return datetime.fromisoformat(written).timestamp() if written else None
