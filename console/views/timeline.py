"""Events of a workload, as far as its objects and their conditions have times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from api.constants import (
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_DISRUPTION_TARGET,
    CONDITION_POD_GROUP_SCHEDULED,
    SCHEDULER_COMPONENT,
)
from api.wording import count
from console.base.messages import Condition, Event
from console.base.times import rfc3339
from console.state import victims
from console.state.state import ClusterState
from console.views.quorum import quorum
from console.views.refusals import of_blocker, status_blocker
from scheduler.core.groups.forest import Group, Pod
from scheduler.decoding.decode import FAR_AWAY as _FAR_AWAY

FAR_AWAY: Final = min(_FAR_AWAY, 250_000_000_000.0)
"""Seconds since 1970 from which times are after the year 9999."""

MOST: Final = 200
"""Entries of a time line. Older ones are left out."""

_ORDER: Final = (
    *("Created", "First pod", "Last pod", "Quorum", "Incomplete", "Unschedulable", "Preempting"),
    *("Nominated", "Scheduled", "Started", "All started"),
)
_SCHEDULED: Final = (CONDITION_POD_GROUP_SCHEDULED, CONDITION_COMPOSITE_SCHEDULED)


def of(cluster: ClusterState, groups: Sequence[Group], pods: Sequence[Pod]) -> list[Event]:
    """Return the events by time, the earliest first."""
    found = [*_of_pods(pods)]
    for top in groups:
        for group in top.subtree():
            found += _of_group(cluster, group, named=group is not groups[0] or len(groups) > 1)
    keys = [group.key for group in groups]
    found += cluster.chronicle.of(keys)
    lost = cluster.victims.of(keys) or list(victims.of_pods(pods))
    # Groups name their preemptor, but not the number of victims. The counted entry replaces theirs.
    counted = {(event.event, event.by) for event in lost}
    found = [each for each in found if (each.event, each.by) not in counted] + lost
    told: dict[tuple[str, str, str], Event] = {}
    for event in found:
        # The chronicle and a status may both have an event.
        told.setdefault((event.at, event.event, event.sentence), event)
    return sorted(told.values(), key=lambda event: (event.at, _order(event)))[-MOST:]


def _order(event: Event) -> int:
    """Return the order of events with the same second."""
    return _ORDER.index(event.event) if event.event in _ORDER else len(_ORDER)


def _of_group(cluster: ClusterState, group: Group, *, named: bool) -> Iterator[Event]:
    whose = f"{group.key[0]} {group.name}: " if named else ""
    spec = group.spec
    if spec is not None and spec.created:
        field = "minGroupCount" if group.composite else "minCount"
        minimum = f" with {field} {group.minimum}" if spec.gang and group.minimum else ""
        yield Event(
            at=spec.created, event="Created", sentence=f"{group.key[0]} {group.name}{minimum}"
        )
    reached = quorum(group)
    if reached is not None:
        yield Event(at=reached.at, event="Quorum", sentence=f"{whose}{reached.sentence}")
    for each in conditions_of(cluster, group):
        if each.type and each.last_transition_time:
            yield _of_condition(each, each.last_transition_time, whose)
    said = status_blocker(cluster, group)
    if said is not None and said.since and group.parent is None:
        event = of_blocker(said).event
        yield Event(at=said.since, event=event, sentence=f"{whose}{said.summary}")


def _of_condition(condition: Condition, at: str, whose: str) -> Event:
    said = condition.message
    marked = condition.type == CONDITION_DISRUPTION_TARGET and condition.status == "True"
    if marked and said.startswith(f"{SCHEDULER_COMPONENT}:"):
        return victims.preempted(at, said, f"{whose}pods")
    return Event(
        at=at,
        event=_event_of(condition),
        sentence=f"{whose}{said or condition.reason}",
        by=SCHEDULER_COMPONENT if condition.type in _SCHEDULED else None,
    )


def _event_of(condition: Condition) -> str:
    if condition.type in _SCHEDULED:
        return "Scheduled" if condition.status == "True" else condition.reason or "Unschedulable"
    return condition.type if condition.status == "True" else f"Not {condition.type}"


def conditions_of(cluster: ClusterState, group: Group) -> Iterator[Condition]:
    """Yield the group's conditions. Entries that are not valid conditions are left out."""
    obj = cluster.observed.get(group.key)
    said: Any = obj.status.get("conditions") if obj is not None and obj.status else None
    for each in said if isinstance(said, list) else ():
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(each, Condition)


def _of_pods(pods: Iterable[Pod]) -> Iterator[Event]:
    known = list(pods)
    created = sorted(pod.info.created for pod in known if pod.info.created)
    if created:
        yield Event(
            at=created[0], event="First pod", sentence=f"the first of {_pods(known)} was created"
        )
        if created[-1] != created[0]:
            yield Event(at=created[-1], event="Last pod", sentence=f"all {_pods(known)} exist")
    began = sorted(pod.info.started for pod in known if 0 < pod.info.started < FAR_AWAY)
    if began:
        yield Event(
            at=rfc3339(began[0]), event="Started", sentence=f"the first of {_pods(known)} started"
        )
        if len(began) == len(known):
            yield Event(
                at=rfc3339(began[-1]), event="All started", sentence=f"{_pods(known)} started"
            )


def _pods(pods: Sequence[Pod]) -> str:
    return count(len(pods), "pod")
