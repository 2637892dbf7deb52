"""Held places as groups' statuses report them, for observers of a cluster such as the console.

The scheduler keeps them in Reservations and reports them in `status.heldPlaces`. Users can write a
status, too: malformed entries, and places that do not fit, are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from api.reading import listing, mapping
from scheduler.core.groups.forest import Pod
from scheduler.core.search.place import assume_on
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.decoding.objects import GroupObject
from scheduler.expected.pods import ExpectedPods, KindNow


def assume_published(
    state: State, expected: ExpectedPods, observed: Mapping[GroupKey, GroupObject]
) -> None:
    """Assume expected pods at the places that their groups' statuses report."""
    for key in list(expected):
        obj = observed.get(key)
        if obj is None:
            continue
        if is_published_expired(obj):
            expected.expire(key).apply(state)
            continue
        places = _places(obj)
        for kind in expected.kinds(key):
            _assume(state, kind, places.get(kind.name, Counter()))


def follow_published(
    state: State, expected: ExpectedPods, key: GroupKey, obj: GroupObject | None
) -> bool:
    """Assume expected pods exactly where the status has them; return whether all could be."""
    if obj is None or key not in expected:
        return True
    over, complete = is_published_expired(obj), True
    expected.expire(key, expired=over).apply(state)
    places = {} if over else _places(obj)
    # After expire(), which creates the expected pods of a group whose time started again.
    for kind in expected.kinds(key):
        lacking = places.get(kind.name, Counter())
        pods = [pod for uid in kind.expected if (pod := state.pods.get(uid)) is not None]
        for pod in pods:
            # A pod that has one of the places keeps it, so an unchanged status changes nothing.
            if pod.assumed and lacking[pod.node] > 0:
                lacking[pod.node] -= 1
            elif pod.assumed:
                state.forget(pod.info.uid)
        waiting = (pod for pod in pods if pod.waiting)
        for node, pod in zip(sorted(lacking.elements()), waiting, strict=False):
            row = state.nodes.row_of.get(node)
            # `complete` last: the pod has to be assumed even if an earlier place failed.
            complete = row is not None and assume_on(state, pod, row) and complete
    return complete


def is_published_expired(obj: GroupObject) -> bool:
    """True if the status has `heldPlaces` without any place, as the time is over."""
    held = _held(obj)
    return held is not None and not any(nodes.total() for nodes in _places(obj).values())


def published_since(obj: GroupObject | None) -> datetime | None:
    """Return the time since which the status reports places as held."""
    return _moment(obj, "since")


def published_until(obj: GroupObject | None) -> datetime | None:
    """Return the time until which the status reports places as held."""
    return _moment(obj, "until")


def _moment(obj: GroupObject | None, name: str) -> datetime | None:
    held = _held(obj) if obj is not None else None
    written = held.get(name) if held is not None else None
    try:
        moment = datetime.fromisoformat(written) if isinstance(written, str) else None
        # A time without a zone cannot be compared with others.
        return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _held(obj: GroupObject) -> Mapping[str, Any] | None:
    held = (obj.status or {}).get("heldPlaces")
    return held if isinstance(held, dict) else None


def _places(obj: GroupObject) -> dict[str, Counter[str]]:
    """Return the places by kind and node."""
    found: dict[str, Counter[str]] = {}
    for each in map(mapping, listing((_held(obj) or {}).get("pods"))):
        name, node, count = (each.get(field) for field in ("name", "node", "count"))
        # type(), as true is an int for isinstance.
        if isinstance(name, str) and isinstance(node, str) and type(count) is int and count > 0:
            found.setdefault(name, Counter())[node] += count
    return found


def _assume(state: State, kind: KindNow, places: Counter[str]) -> None:
    """Assume pods that came and wait at these places, then expected ones."""
    takers = _takers(state, kind)
    for node, count in sorted(places.items()):
        row = state.nodes.row_of.get(node)
        for _ in range(count):
            pod = next(takers, None)
            if pod is None:
                return
            if row is not None:
                assume_on(state, pod, row)


def _takers(state: State, kind: KindNow) -> Iterator[Pod]:
    for uid in (*kind.came, *kind.expected):
        pod = state.pods.get(uid)
        if pod is not None and pod.waiting:
            yield pod
