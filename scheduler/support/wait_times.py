"""The wait times of gangs: from the last member to the first Binding, and to the last.

The time begins when this leader sees that a root has its quorum, as kube-scheduler's begins when it
first sees a pod. It ends when the Bindings of its minCount have results. A gang that lost pods
after it was complete is not measured again: that takes as long as others need to create new ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube.base.clock import Clock
from scheduler.core.state.state import State
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey, plain_kind
from scheduler.support.kinds import GROUP_RESOURCES
from scheduler.support.metrics import GANG_FIRST_BIND_SECONDS, GANG_SECONDS

KINDS = (POD_GROUP, COMPOSITE_POD_GROUP)


@dataclass(slots=True)
class _Wait:
    since: float
    begun: bool = False


class GangTimes:
    """The roots that have their quorum and are not complete, of each kind the oldest first."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        waits: dict[str, dict[GroupKey, _Wait]] = {kind: {} for kind in KINDS}
        # Native groups count with Muster's of the same kind.
        self._waits = {kind: waits[plain_kind(kind)] for kind in GROUP_RESOURCES}

    def reset(self) -> None:
        """Forget all times: another process may have led meanwhile."""
        for waits in self._waits.values():
            waits.clear()

    def changed(self, key: GroupKey) -> None:
        """Handle an entity or group that changed or is gone, in O(1)."""
        waits = self._waits.get(key[0])
        if waits is None:
            return
        if not self._waiting(key):
            waits.pop(key, None)
        elif key not in waits:
            group = self._state.forest.groups[key]
            # Without pending pods it was decided already, by an earlier leader for instance.
            if group.pending_total:
                waits[key] = _Wait(self._clock.monotonic())

    def on_pod_bound(self, key: GroupKey) -> None:
        """Record that a pod of the root is bound."""
        wait = self._waits.get(key[0], {}).get(key)
        if wait is not None and not wait.begun:
            wait.begun = True
            seconds = self._clock.monotonic() - wait.since
            GANG_FIRST_BIND_SECONDS.labels(plain_kind(key[0])).observe(seconds)

    def on_root_bound(self, key: GroupKey) -> None:
        """Record that all Bindings of the root's decision have results, and none was refused."""
        wait = self._waits.get(key[0], {}).pop(key, None)
        if wait is not None and wait.begun:
            GANG_SECONDS.labels(plain_kind(key[0])).observe(self._clock.monotonic() - wait.since)

    def longest(self, kind: str) -> float:
        """Return the seconds that the oldest root has waited; 0.0 if there is none."""
        waits = self._waits[kind]
        while waits:
            key, wait = next(iter(waits.items()))
            if self._waiting(key):
                return self._clock.monotonic() - wait.since
            del waits[key]
        return 0.0

    def _waiting(self, key: GroupKey) -> bool:
        """Return whether the group is a root with its quorum that was never complete."""
        group = self._state.forest.groups.get(key)
        if group is None or group.spec is None or group.parent is not None:
            return False
        return self._state.forest.ready(group) and not group.initially_scheduled
