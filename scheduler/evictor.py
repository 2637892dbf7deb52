"""Carries out preemption: marks victims, deletes them, and nominates nodes for the preemptor.

All pods of a plan get the condition DisruptionTarget before the first is deleted. If the process
dies in between, the next leader finds the condition and completes the eviction: `resume`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

import structlog

from api.constants import (
    CONDITION_DISRUPTION_TARGET,
    REASON_PREEMPTION,
    SCHEDULER_NAME,
)
from kube.clock import Clock, rfc3339
from kube.election import Fence
from kube.errors import Conflict, KubeError, NotFound
from kube.patch import PatchBuilder
from kube.resources import PODS, Resource
from scheduler.activity import Activity
from scheduler.api_protocols import EvictorApi
from scheduler.core.forest import Group, Pod
from scheduler.core.model import GroupKey
from scheduler.core.place import Placement
from scheduler.core.preemption.plan import Plan
from scheduler.core.preemption.units import unit_owner
from scheduler.core.state import State
from scheduler.group_events import GroupEvents
from scheduler.metrics import EVICTIONS_OPEN, VICTIMS
from scheduler.priority_semaphore import PrioritySemaphore
from scheduler.resources import GROUPS
from scheduler.retry import RETRIABLE, retry

_log = structlog.get_logger()

_LOWEST: Final = 1 << 62
"""The priority of nominations: all plans go first."""

_Job = Callable[[Fence], Coroutine[Any, Any, None]]
_T = TypeVar("_T")


class Evictor:
    """Carries out plans concurrently, with at most `writers` requests at a time.

    Requests of an earlier plan go first: its preemptor can start while later victims still run.
    Nominations go last, as nobody waits for them.
    """

    def __init__(
        self,
        api: EvictorApi,
        state: State,
        events: GroupEvents,
        activity: Activity,
        *,
        clock: Clock,
        writers: int,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when a victim cannot be deleted."""
        self._api = api
        self._state = state
        self._events = events
        self._activity = activity
        self._clock = clock
        self._semaphore = PrioritySemaphore(writers)
        self._plans = count()
        self._on_change = on_change
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._nominated: dict[GroupKey, dict[str, tuple[Pod, str]]] = {}

    def evict(self, plan: Plan, priority: int) -> None:
        """Mark and delete all pods of the victims, in the background."""
        pods = [pod for unit in plan.victims for pod in unit.pods.values()]
        groups = [unit.group for unit in plan.victims if unit.group is not None]
        preemptor = "{} {}/{}".format(*plan.root)
        message = f"{SCHEDULER_NAME}: preempted for {preemptor} of priority {priority}"
        names = ", ".join(unit.name for unit in plan.victims[:5])
        more = f" and {len(plan.victims) - 5} more" if len(plan.victims) > 5 else ""
        self._events.entity(
            plan.root, "Normal", "Preempting", f"evicts {len(pods)} pods: {names}{more}"
        )
        for group in groups:
            self._events.entity(group.key, "Warning", "Preempted", message)
        for pod in pods:
            self._events.pod(pod, "Warning", "Preempted", message)
        self._start(groups, pods, message)

    def nominate(self, placement: Placement) -> None:
        """Set nominatedNodeName of the root's pods, where it is not set already."""
        nominated = self._nominated.setdefault(placement.root, {})
        name_of = self._state.nodes.name_of
        for pod, row in zip(placement.pods, placement.rows, strict=True):
            wanted = (pod, name_of(row))
            if nominated.get(pod.info.uid) != wanted:
                nominated[pod.info.uid] = wanted
                self._nominate(*wanted)

    def withdraw(self, root: GroupKey) -> None:
        """The nomination is over: clear nominatedNodeName of the root's pods."""
        for pod, _ in self._nominated.pop(root, {}).values():
            if pod.waiting:
                self._nominate(pod, "")

    def forget(self, root: GroupKey) -> None:
        """The root is being bound: its nomination needs no clearing."""
        self._nominated.pop(root, None)

    def resume(self) -> None:
        """Complete what an earlier leader began: the whole unit of a marked pod is evicted."""
        self._jobs = asyncio.Queue()
        self._activity.evicting.clear()
        EVICTIONS_OPEN.set(0)
        self._nominated.clear()
        marked = [p for p in self._state.pods.values() if p.info.targeted and p.placed]
        pods: dict[str, Pod] = {}
        for pod in marked:
            group, _ = unit_owner(pod, self._state.forest)
            unit = _running(group) if group is not None else [pod]
            pods.update((each.info.uid, each) for each in unit if not each.info.terminating)
        if pods:
            message = f"{SCHEDULER_NAME}: preempted; its eviction had begun before a restart"
            victims = list(pods.values())
            self._state.units.mark_evicting(victims)
            self._start([], victims, message)

    async def run(self, fence: Fence) -> None:
        """Carry out plans while the lease is held; until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._jobs.get()
                group.create_task(self._run_job(job, fence))

    def _submit(self, job: _Job) -> None:
        EVICTIONS_OPEN.inc()
        self._jobs.put_nowait(job)

    async def _run_job(self, job: _Job, fence: Fence) -> None:
        await job(fence)
        EVICTIONS_OPEN.dec()

    def _start(self, groups: list[Group], pods: list[Pod], message: str) -> None:
        plan = next(self._plans)
        self._activity.evicting.add(plan)
        self._submit(lambda fence: self._carry_out(plan, groups, pods, message, fence))

    async def _carry_out(
        self, plan: int, groups: list[Group], pods: list[Pod], message: str, fence: Fence
    ) -> None:
        marked = [each for group in groups for each in group.walk() if each.spec is not None]
        await self._for_each(plan, marked, lambda group: self._mark_group(group, message), fence)
        await self._for_each(plan, pods, lambda pod: self._mark_pod(pod, message), fence)
        await self._for_each(plan, pods, self._delete, fence)
        self._activity.evicting.discard(plan)

    async def _for_each(
        self, plan: int, things: Sequence[_T], act: Callable[[_T], Awaitable[None]], fence: Fence
    ) -> None:
        jobs = (self._send(plan, partial(act, thing), fence) for thing in things)
        await asyncio.gather(*jobs)

    async def _send(self, priority: int, act: Callable[[], Awaitable[None]], fence: Fence) -> None:
        """Send a request; retry while only the connection or a newer version is at fault."""

        async def request() -> None:
            async with self._semaphore.acquired(priority):
                await act()

        try:
            await retry(request, fence, self._clock, on=(Conflict, *RETRIABLE))
        except NotFound:
            pass  # gone already
        except KubeError as error:
            _log.error("eviction refused", problem=str(error))

    async def _mark_group(self, group: Group, message: str) -> None:
        kind, namespace, name = group.key
        await self._mark(GROUPS[kind], namespace, name, None, message)

    async def _mark_pod(self, pod: Pod, message: str) -> None:
        info = pod.info
        await self._mark(PODS, info.namespace, info.name, info.uid, message)

    async def _mark(
        self, resource: Resource, namespace: str, name: str, uid: str | None, message: str
    ) -> None:
        """Set the condition DisruptionTarget on the object as it is now."""
        obj = await self._api.get(resource, name, namespace)
        if uid is not None and obj["metadata"]["uid"] != uid:
            return  # another pod has its name
        conditions = (obj.get("status") or {}).get("conditions") or []
        condition = {
            "type": CONDITION_DISRUPTION_TARGET,
            "status": "True",
            "reason": REASON_PREEMPTION,
            "message": message,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        if resource is not PODS:
            condition["observedGeneration"] = obj["metadata"].get("generation", 0)
        others = [c for c in conditions if c["type"] != CONDITION_DISRUPTION_TARGET]
        ops = PatchBuilder().at_version(obj["metadata"]["resourceVersion"])
        if not obj.get("status"):
            ops.add("/status", {})
        ops.add("/status/conditions", [*others, condition])
        await self._api.patch(resource, name, ops, namespace, subresource="status")

    async def _delete(self, pod: Pod) -> None:
        """Delete with the pod's own grace period; a pod that cannot be deleted is spared."""
        info = pod.info
        try:
            await self._api.delete(PODS, info.name, info.namespace, uid=info.uid)
        except (NotFound, Conflict):
            return  # gone, or another pod has its name
        except RETRIABLE:
            raise
        except KubeError:
            self._state.units.spare([pod])
            self._state.reconsider_all()  # the roots that wait for it must be decided again
            self._on_change()
            raise
        VICTIMS.inc()

    def _nominate(self, pod: Pod, node: str) -> None:
        """An empty name clears the nomination."""
        info = pod.info

        async def write() -> None:
            ops = PatchBuilder().of_uid(info.uid)
            ops.add("/status/nominatedNodeName", node)
            if pod.waiting:
                await self._api.patch(PODS, info.name, ops, info.namespace, subresource="status")

        self._submit(lambda fence: self._send(_LOWEST, write, fence))


def _running(group: Group) -> list[Pod]:
    """All pods of a subtree that are bound or assumed."""
    return [pod for leaf in group.leaves() for pod in leaf.members.values() if pod.node]
