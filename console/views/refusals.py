"""Reasons why a root waits, in the scheduler's words: from its status, or from the solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from api.wording import count
from console.base.messages import Nearest, Reason
from console.state.state import ClusterState, observed_blocker
from scheduler.core.decide import decide
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Refusal
from scheduler.status.conditions import held_condition, waiting_for

_BY_KIND: Final[dict[str, Reason]] = {
    "capacity": "Unschedulable",
    "constraint": "Unschedulable",
    "quorum": "Incomplete",
    "timeout": "StartTimeout",
    "priority": "Gate",
    "invalid": "Invalid",
    "binding": "SchedulerError",
    "error": "SchedulerError",
}
_log = structlog.get_logger()


class _BestDomain(msgspec.Struct, rename="camel"):
    key: str = ""
    value: str = ""
    missing: int = 0


class StatusBlocker(msgspec.Struct, rename="camel"):
    """The fields of a group's `status.blocker` that are shown."""

    summary: str
    kind: str = ""
    needed: int = 0
    free: int = 0
    since: str = ""
    best_domain: _BestDomain | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why a root waits. `since` is when the scheduler first reported it, or empty.

    `undecided` means that the scheduler has reported none yet.
    """

    reason: Reason
    sentence: str
    waits_for: str = ""
    nearest: Nearest | None = None
    since: str = ""
    undecided: bool = False

    @property
    def event(self) -> str:
        """The event of the time line: the reason, in the words of the group's condition."""
        return "Unschedulable" if self.reason == "Gate" else self.reason


_NOT_YET: Final = Cause("Unschedulable", "The scheduler has not decided it yet.", undecided=True)


def status_blocker(cluster: ClusterState, group: Group) -> StatusBlocker | None:
    """Return the scheduler's blocker; None if there is none, or it has another form."""
    return blocker_of(observed_blocker(cluster.observed.get(group.key)))


def blocker_of(said: Any) -> StatusBlocker | None:
    """Decode the result of `observed_blocker`; None if the scheduler did not write it."""
    if said is None:
        return None
    try:
        # Any user with access to the status may have written it.
        return msgspec.convert(said, StatusBlocker)
    except msgspec.ValidationError:
        return None


def cause(cluster: ClusterState, entity: Group | Pod) -> Cause:
    """Return why a root waits, from the state or the scheduler, without a search."""
    if isinstance(entity, Pod):
        if entity.hold is not None:
            waits = "its ResourceClaims" if entity.hold == "claims" else ""
            return Cause("Incomplete", held_condition(entity, entity.hold)[1], waits)
        return _nominated(cluster, entity) or _NOT_YET
    held = waiting_for(cluster.state, entity, cluster.settings.gates)
    said = status_blocker(cluster, entity)
    if held is not None:
        reason: Reason = "Gate" if entity.switched_off else _BY_KIND[held.kind]
        missing = max(0, held.needed - held.free)
        members = "child group" if entity.composite else "pod"
        waits = count(missing, f"more {members}") if missing else ""
        return Cause(reason, held.summary, waits, since=said.since if said else "")
    nominated = _nominated(cluster, entity)
    if said is None:
        return nominated or _NOT_YET
    if nominated is not None:
        return Cause(nominated.reason, nominated.sentence, nominated.waits_for, since=said.since)
    return of_blocker(said, said.since)


def of_blocker(said: StatusBlocker | Blocker, since: str = "") -> Cause:
    """Return the cause in a status that the scheduler wrote, or in a result of the solver."""
    best, nearest = said.best_domain, None
    if best is not None:
        slots = max(0, said.needed - best.missing)
        nearest = Nearest(key=best.key, value=best.value, slots=slots, needed=said.needed)
    waits = _free_amount(said.kind, said.needed, said.free)
    return Cause(_BY_KIND.get(said.kind, "Unschedulable"), said.summary, waits, nearest, since)


def decided(cluster: ClusterState, entity: Group | Pod) -> Cause:
    """Return why a root waits; run the solver if the scheduler has not decided it."""
    found = cause(cluster, entity)
    if not found.undecided:
        return found
    outcome = decide(cluster.state, entity, cluster.budget())
    if not isinstance(outcome, Refusal):
        return Cause(
            "Unschedulable", "It fits, and is about to be scheduled.", "its scheduling attempt"
        )
    return of_blocker(explain(cluster.state, outcome))


def safely(
    cluster: ClusterState,
    entity: Group | Pod,
    ask: Callable[[ClusterState, Group | Pod], Cause],
) -> Cause:
    """Return why a root waits. An error in one workload must not hide the others."""
    try:
        return ask(cluster, entity)
    except Exception:  # noqa: BLE001 - logged, and said in its row
        _log.exception("failed to explain a workload", key="/".join(entity.key))
        return Cause("SchedulerError", "The console failed to find the reason. Check its log.")


def _free_amount(kind: str, needed: int, free: int) -> str:
    if kind == "priority":
        return "the workload that is first"
    if _BY_KIND.get(kind) != "Unschedulable":
        return ""
    missing = needed - free
    return f"capacity for {count(missing, 'more pod')}" if missing > 0 else "capacity in one domain"


def _nominated(cluster: ClusterState, entity: Group | Pod) -> Cause | None:
    """Return the cause of a nominated root: pods on its nodes that still terminate."""
    state = cluster.state
    if not state.nominations.own(entity.key):
        return None
    nomination = next(each for each in state.nominations if each.root == entity.key)
    nodes = {name for _, there in nomination.places for name, _ in there}
    places = sum(number for _, there in nomination.places for _, number in there)
    ending = [pod for node in nodes for pod in state.pods_on(node) if pod.info.terminating]
    evicted = [pod for node in nodes for pod in state.pods_on(node) if pod.info.preemption.targeted]
    # A victim soon terminates as well, and must not count twice.
    leaving = len({pod.info.uid for pod in (*ending, *evicted)})
    where = f"{count(places, 'pod')} nominated to {count(len(nodes), 'node')}"
    if not leaving:
        return Cause("Nominated", f"{where}, about to be bound", "its scheduling attempt")
    victims = count(leaving, "pod")
    waits = f"{victims} to terminate"
    if evicted:
        return Cause("Preempting", f"{where}; {victims} there must be evicted", waits)
    return Cause("Nominated", f"{where}; {victims} there must terminate", waits)
