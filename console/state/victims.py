"""Roots that lost pods to preemption, and their preemptors. Pods that end take this with them.

The preemptor is named as the scheduler does on the victim, without objects of other namespaces.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from api.constants import SCHEDULER_COMPONENT
from api.wording import count
from console.base.messages import Event
from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import GroupKey

MOST_ROOTS: Final = 5000
"""Roots whose preemptions are kept. The least recently active are dropped first."""

MOST_ROUNDS: Final = 40
"""Rounds of one root that are kept. The oldest are dropped first."""

_ONE_ROUND: Final = 60.0
"""Seconds within which the scheduler marks the victims of one plan, one after the other."""

_SAYS: Final = f"{SCHEDULER_COMPONENT}: "
_FOR: Final = "preempted for "


@dataclass(slots=True)
class _Round:
    """Pods whose condition has the same message."""

    says: str
    at: str
    pods: int = 0


@dataclass(slots=True)
class _Root:
    rounds: deque[_Round] = field(default_factory=lambda: deque(maxlen=MOST_ROUNDS))
    counted: set[str] = field(default_factory=set)
    """UIDs of marked pods that still exist."""


class Victims:
    """Rounds of preemption by root, in bounded memory; each pod is counted once."""

    def __init__(self) -> None:
        self._roots: OrderedDict[GroupKey, _Root] = OrderedDict()

    def follow(self, root: GroupKey, pods: Iterable[Pod]) -> None:
        """Compare the root's current pods to those counted before, and count new victims."""
        marked = {pod.info.uid: pod for pod in pods if pod.info.preemption.targeted}
        known = self._roots.get(root)
        if known is None:
            if not marked:
                return
            known = self._roots[root] = _Root()
            if len(self._roots) > MOST_ROOTS:
                self._roots.popitem(last=False)
        for uid in marked.keys() - known.counted:
            mark = marked[uid].info.preemption
            _round_of(known, mark.target_says, mark.targeted_at).pods += 1
            self._roots.move_to_end(root)
        known.counted = set(marked)

    def forget(self, root: GroupKey) -> None:
        """Forget a deleted root."""
        self._roots.pop(root, None)

    def of(self, roots: Iterable[GroupKey]) -> list[Event]:
        """Return the preemptions of these roots, with the preemptors."""
        found = (self._roots.get(root) for root in roots)
        return [
            preempted(each.at, each.says, count(each.pods, "pod"))
            for known in found
            if known is not None
            for each in known.rounds
        ]


def of_pods(pods: Iterable[Pod]) -> Iterator[Event]:
    """Yield the preemptions of pods whose root was not followed."""
    marks = (pod.info.preemption for pod in pods if pod.info.preemption.targeted)
    rounds = Counter((each.targeted_at, each.target_says) for each in marks)
    for (at, says), number in rounds.items():
        if at:
            yield preempted(at, says, count(number, "pod"))


def preempted(at: str, says: str, what: str) -> Event:
    """Return an eviction by preemption, with the preemptor if the condition names it."""
    said = says.removeprefix(_SAYS)
    if said.startswith(_FOR):
        return Event(
            at=at,
            event="Preempted",
            sentence=f"{what} preempted by a workload of higher priority",
            by=said.removeprefix(_FOR),
        )
    event = "Preempted" if not said or said.startswith("preempted") else "Evicted"
    why = f": {said}" if said else ""
    return Event(at=at, event=event, sentence=f"{what} evicted{why}", by=SCHEDULER_COMPONENT)


def _round_of(root: _Root, says: str, at: str) -> _Round:
    for known in reversed(root.rounds):
        if known.says == says and abs(_seconds(known.at) - _seconds(at)) < _ONE_ROUND:
            known.at = min(known.at, at)
            return known
    root.rounds.append(_Round(says, at))
    return root.rounds[-1]


def _seconds(moment: str) -> float:
    """Return the seconds since 1970 of an object's time; 0 if it is invalid."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return 0.0
