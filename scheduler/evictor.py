"""Carries plans out: marks victims, deletes them as wholes, and says where the winner will go.

All pods of a plan are marked DisruptionTarget before the first is deleted. So a process that dies
in between leaves marks behind, and whoever leads next ends what was begun: `resume`.
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

_LAST: Final = 1 << 62
"""The rank of what may wait for all plans."""

_Job = Callable[[Fence], Coroutine[Any, Any, None]]
_T = TypeVar("_T")


class Evictor:
    """Carries plans out side by side, with at most `writers` requests at a time.

    What an earlier plan asks for goes first: its winner can start while later victims still run.
    Nominations, which only tell, go last.
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
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a victim cannot be deleted."""
        self._api = api
        self._state = state
        self._events = events
        self._activity = activity
        self._clock = clock
        self._semaphore = PrioritySemaphore(writers)
        self._plans = count()
        self._changed = changed
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._nominated: dict[GroupKey, dict[str, tuple[Pod, str]]] = {}

    def evict(self, plan: Plan, priority: int) -> None:
        """Mark and delete all pods of the victims, in the background."""
        pods = [pod for unit in plan.victims for pod in unit.pods.values()]
        groups = [unit.group for unit in plan.victims if unit.group is not None]
        winner = "{} {}/{}".format(*plan.root)
        message = f"{SCHEDULER_NAME}: preempted for {winner} of priority {priority}"
        names = ", ".join(unit.name for unit in plan.victims[:5])
        more = f" and {len(plan.victims) - 5} more" if len(plan.victims) > 5 else ""
        self._events.entity(
            plan.root, "Normal", "Preempting", f"evicts {len(pods)} pods: {names}{more}"
        )
        for group in groups:
            self._events.entity(group.key, "Warning", "Preempted", message)
        for pod in pods:
            self._events.pod(pod, "Warning", "Preempted", message)
        self._begin(groups, pods, message)

    def nominate(self, placement: Placement) -> None:
        """Say on its pods where a root will go; what is said already is not said again."""
        said = self._nominated.setdefault(placement.root, {})
        name_of = self._state.nodes.name_of
        for pod, row in zip(placement.pods, placement.rows, strict=True):
            wanted = (pod, name_of(row))
            if said.get(pod.info.uid) != wanted:
                said[pod.info.uid] = wanted
                self._nominate(*wanted)

    def withdraw(self, root: GroupKey) -> None:
        """The place is not kept any more."""
        for pod, _ in self._nominated.pop(root, {}).values():
            if pod.waiting:
                self._nominate(pod, "")

    def forget(self, root: GroupKey) -> None:
        """The root is being bound: what was nominated has come true."""
        self._nominated.pop(root, None)

    def resume(self) -> None:
        """End what an earlier leader had begun: where one pod is marked its whole unit goes."""
        self._jobs = asyncio.Queue()
        self._activity.evicting.clear()
        EVICTIONS_OPEN.set(0)
        self._nominated.clear()
        begun = [p for p in self._state.pods.values() if p.info.targeted and p.placed]
        pods: dict[str, Pod] = {}
        for pod in begun:
            group, _ = unit_owner(pod, self._state.forest)
            unit = _running(group) if group is not None else [pod]
            pods.update((each.info.uid, each) for each in unit if not each.info.terminating)
        if pods:
            message = f"{SCHEDULER_NAME}: preempted; its eviction had begun before a restart"
            victims = list(pods.values())
            self._state.units.mark_evicting(victims)
            self._begin([], victims, message)

    async def run(self, fence: Fence) -> None:
        """Carry out plans while the lease holds; until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._jobs.get()
                group.create_task(self._do(job, fence))

    def _submit(self, job: _Job) -> None:
        EVICTIONS_OPEN.inc()
        self._jobs.put_nowait(job)

    async def _do(self, job: _Job, fence: Fence) -> None:
        await job(fence)
        EVICTIONS_OPEN.dec()

    def _begin(self, groups: list[Group], pods: list[Pod], message: str) -> None:
        plan = next(self._plans)
        self._activity.evicting.add(plan)
        self._submit(lambda fence: self._carry_out(plan, groups, pods, message, fence))

    async def _carry_out(
        self, plan: int, groups: list[Group], pods: list[Pod], message: str, fence: Fence
    ) -> None:
        marked = [each for group in groups for each in group.walk() if each.spec is not None]
        await self._each(plan, marked, lambda group: self._mark_group(group, message), fence)
        await self._each(plan, pods, lambda pod: self._mark_pod(pod, message), fence)
        await self._each(plan, pods, self._delete, fence)
        self._activity.evicting.discard(plan)

    async def _each(
        self, plan: int, things: Sequence[_T], act: Callable[[_T], Awaitable[None]], fence: Fence
    ) -> None:
        jobs = (self._persist(plan, partial(act, thing), fence) for thing in things)
        await asyncio.gather(*jobs)

    async def _persist(self, rank: int, act: Callable[[], Awaitable[None]], fence: Fence) -> None:
        """Do it, again as long as only the connection or a newer version is in the way."""

        async def request() -> None:
            async with self._semaphore.turn(rank):
                await act()

        try:
            await retry(request, fence, self._clock, on=(Conflict, *RETRIABLE))
        except NotFound:
            pass  # gone, which is what was wanted
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
        """Set the condition on the object as it is now."""
        obj = await self._api.get(resource, name, namespace)
        if uid is not None and obj["metadata"]["uid"] != uid:
            return  # a namesake
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
        kept = [c for c in conditions if c["type"] != CONDITION_DISRUPTION_TARGET]
        ops = PatchBuilder().at_version(obj["metadata"]["resourceVersion"])
        if not obj.get("status"):
            ops.add("/status", {})
        ops.add("/status/conditions", [*kept, condition])
        await self._api.patch(resource, name, ops, namespace, subresource="status")

    async def _delete(self, pod: Pod) -> None:
        """Delete with the pod's own grace; one that may not be deleted stays, and is spared."""
        info = pod.info
        try:
            await self._api.delete(PODS, info.name, info.namespace, uid=info.uid)
        except (NotFound, Conflict):
            return  # gone, or a namesake is there
        except RETRIABLE:
            raise
        except KubeError:
            self._state.units.spare([pod])
            self._state.stir_all()  # whoever waits for it waits in vain
            self._changed()
            raise
        VICTIMS.inc()

    def _nominate(self, pod: Pod, node: str) -> None:
        """An empty name takes the nomination back."""
        info = pod.info

        async def write() -> None:
            ops = PatchBuilder().of_uid(info.uid)
            ops.add("/status/nominatedNodeName", node)
            if pod.waiting:
                await self._api.patch(PODS, info.name, ops, info.namespace, subresource="status")

        self._submit(lambda fence: self._persist(_LAST, write, fence))


def _running(group: Group) -> list[Pod]:
    """All of a subtree that takes room."""
    return [pod for leaf in group.leaves() for pod in leaf.members.values() if pod.node]
