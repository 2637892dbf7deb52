"""The condition PodScheduled of pods that wait: what it says, what was written, and the write."""

from __future__ import annotations

from typing import Final

from api.constants import CONDITION_POD_SCHEDULED
from kube.base.clock import Clock, rfc3339
from kube.client.meta import Json
from kube.client.object_client import StatusPatcher
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from scheduler.decoding.objects import ConditionType
from scheduler.status.conditions import PodView
from scheduler.status.pod_events import PodEvents
from scheduler.support.metrics import STATUS_WRITES
from scheduler.watch.event_handlers import PendingPod

_NUMBERS_SECONDS: Final = 15.0
_NUMBERS_PER_SECOND: Final = 20.0
"""How long the condition of a pod without a group stays as it is where only numbers changed. It is
longer where so many pods wait that more than this would be written a second."""


class PodConditions:
    """`pending` has what the watch has delivered of waiting pods."""

    def __init__(
        self, api: StatusPatcher, events: PodEvents, clock: Clock, pending: dict[str, PendingPod]
    ) -> None:
        """A term begins."""
        self._api = api
        self._events = events
        self._clock = clock
        self._pending = pending
        self.reset()

    def reset(self) -> None:
        """Begin a new term: others may have written since."""
        # What was written last, and when that was done, by UID.
        self._written: dict[str, tuple[tuple[object, ...], float]] = {}

    def says_the_same(self, view: PodView) -> bool:
        """Whether nothing is to be written for the pod but new numbers, if these."""
        uid = view.pod.info.uid
        written = self._written.get(uid)
        return uid not in self._pending or (written is not None and written[0] == view.significant)

    def numbers_due_in(self, view: PodView) -> float | None:
        """The seconds until new numbers are to be written; None if they are not.

        A pod without a group has no other status.
        """
        written, seen = self._written.get(view.pod.info.uid), self._said(view)
        if view.pod.group is not None or written is None or seen is None:
            return None
        if seen.message == view.message:
            return None
        pause = max(_NUMBERS_SECONDS, len(self._pending) / _NUMBERS_PER_SECOND)
        return written[1] + pause - self._clock.monotonic()

    async def write(self, view: PodView, *, told: bool) -> None:
        """Write the condition, and an event if it is `told`. Raises kube.base.errors."""
        info = view.pod.info
        seen, said = self._pending.get(info.uid), self._said(view)
        if seen is None or not (view.pod.waiting or info.exceeds or info.unclaimed):
            return
        same = said is not None and (said.reason, said.message) == (view.reason, view.message)
        if not same:
            ops = _patch(seen, self._condition(view, said))
            await self._api.patch(PODS, info.name, ops, info.namespace, subresource="status")
            STATUS_WRITES.labels("Pod", "written").inc()
        self._written[info.uid] = view.significant, self._clock.monotonic()
        if told and not same:
            self._events.failed(view)

    def forget_gone(self) -> None:
        """Forget pods that do not wait any more, if there are many."""
        if len(self._written) > 2 * len(self._pending) + 1000:
            written = self._written.items()
            self._written = {uid: each for uid, each in written if uid in self._pending}

    def _said(self, view: PodView) -> ConditionType | None:
        """The condition that is there, if it has the status False already."""
        seen = self._pending.get(view.pod.info.uid)
        said = seen.scheduled if seen is not None else None
        return said if said is not None and said.status == "False" else None

    def _condition(self, view: PodView, said: ConditionType | None) -> Json:
        since = said.last_transition_time if said is not None else None
        return {
            "type": CONDITION_POD_SCHEDULED,
            "status": "False",
            "reason": view.reason,
            "message": view.message,
            "lastTransitionTime": since or rfc3339(self._clock.now()),
        }


def _patch(seen: PendingPod, condition: Json) -> PatchBuilder:
    ops = PatchBuilder().at_version(seen.resource_version)
    if CONDITION_POD_SCHEDULED in seen.conditions:
        index = seen.conditions.index(CONDITION_POD_SCHEDULED)
        return ops.replace(f"/status/conditions/{index}", condition)
    if seen.conditions:
        return ops.add("/status/conditions/-", condition)
    return ops.add("/status/conditions", [condition])
