"""The PodScheduled condition of waiting pods: when it is due, and its patch."""

from __future__ import annotations

from api.constants import CONDITION_POD_SCHEDULED
from kube.base.clock import Clock, rfc3339
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from scheduler.decoding.objects import ConditionType
from scheduler.status.conditions import PodView
from scheduler.status.number_writes import NumberWrites
from scheduler.status.pod_events import PodEvents
from scheduler.support.metrics import STATUS_WRITES
from scheduler.watch.event_handlers import PendingPod


class PodConditions:
    """Writer of the condition. `pending` has the waiting pods as the watch last delivered them."""

    def __init__(
        self, api: Client, events: PodEvents, clock: Clock, pending: dict[str, PendingPod]
    ) -> None:
        """Start the first term."""
        self._api = api
        self._events = events
        self._clock = clock
        self._pending = pending
        self.reset()

    def reset(self) -> None:
        """Start a new term: another leader may have written conditions since the last one."""
        # By UID: the significant part of the last view that was written.
        self._written: dict[str, tuple[object, ...]] = {}
        self._numbers: NumberWrites[str] = NumberWrites()

    def is_unchanged(self, view: PodView) -> bool:
        """Return True if the pod needs no write, except for new numbers."""
        # A pod that is no longer pending is bound or deleted.
        uid = view.pod.info.uid
        return uid not in self._pending or self._written.get(uid) == view.significant

    def numbers_due_in(self, view: PodView) -> float | None:
        """Return the seconds until new numbers are due for the pod; None if there are none."""
        seen = self._current_condition(view)
        if seen is None or seen.message == view.message:
            return None
        return self._numbers.due_in(view.pod.info.uid, self._clock.monotonic())

    async def write(self, view: PodView, *, with_event: bool) -> None:
        """Write the condition, and an event if `with_event` is True. Raises kube.base.errors."""
        info = view.pod.info
        seen, said = self._pending.get(info.uid), self._current_condition(view)
        # Bound, assumed or deleted since the round began: a Binding sets the condition to True.
        if seen is None or not (view.pod.waiting or view.pod.hold):
            return
        # After a change of leaders, the last leader may have written the same.
        same = said is not None and (said.reason, said.message) == (view.reason, view.message)
        if not same:
            ops = _patch(seen, self._condition(view, said))
            await self._api.patch(PODS, info.name, ops, info.namespace, subresource="status")
            STATUS_WRITES.labels("Pod", "written").inc()
        # After the write: if it failed, the next report tries it again.
        self._written[info.uid] = view.significant
        self._numbers.wrote(info.uid, info.namespace, self._clock.monotonic())
        if with_event and not same:
            self._events.failed(view, seen.controller)

    def forget_deleted(self) -> None:
        """Drop the entries of pods that no longer wait, if there are many."""
        # Rarely, so that a round does not visit all entries.
        if len(self._written) > 2 * len(self._pending) + 1000:
            written = self._written.items()
            self._written = {uid: each for uid, each in written if uid in self._pending}
        self._numbers.keep(self._pending)

    def _current_condition(self, view: PodView) -> ConditionType | None:
        """Return the pod's current condition if its status is False, otherwise None."""
        seen = self._pending.get(view.pod.info.uid)
        said = seen.scheduled if seen is not None else None
        return said if said is not None and said.status == "False" else None

    def _condition(self, view: PodView, said: ConditionType | None) -> Json:
        # As in kube-scheduler, a new reason or message is no transition: alerts on pods that are
        # unschedulable for long must see the first time.
        since = said.last_transition_time if said is not None else None
        return {
            "type": CONDITION_POD_SCHEDULED,
            "status": "False",
            "reason": view.reason,
            "message": view.message,
            "lastTransitionTime": since or rfc3339(self._clock.now()),
        }


def _patch(seen: PendingPod, condition: Json) -> PatchBuilder:
    # The version makes the index safe: a pod with other conditions by now fails the patch.
    ops = PatchBuilder().at_version(seen.resource_version)
    if CONDITION_POD_SCHEDULED in seen.conditions:
        index = seen.conditions.index(CONDITION_POD_SCHEDULED)
        return ops.replace(f"/status/conditions/{index}", condition)
    if seen.conditions:
        return ops.add("/status/conditions/-", condition)
    return ops.add("/status/conditions", [condition])
