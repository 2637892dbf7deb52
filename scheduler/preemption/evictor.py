"""The evictor: sets conditions on victims, deletes them, and nominates nodes for the preemptor.

All pods of a plan get the condition DisruptionTarget before the first is deleted. If the process
dies in between, the next leader finds the condition and completes the eviction: `resume`. A victim
whose deletion is refused, or has no response in time, is spared: its condition is reverted, and the
roots are decided again without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import chain, count
from typing import Any, Final, TypeVar

import structlog

from api.constants import SCHEDULER_COMPONENT
from kube.base.errors import Conflict, KubeError, NotFound
from kube.client.client import Client
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from kube.leader.election import Fence
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.state.units import LONGEST_GRACE, unit_owner
from scheduler.core.values.model import GroupKey, PodInfo
from scheduler.events.group_events import GroupEvents
from scheduler.preemption.disrupted_roots import disrupted_roots
from scheduler.preemption.disruption_target import DisruptionMarks
from scheduler.preemption.messages import (
    MOVED,
    places_text,
    preemptor_text,
    single_victims,
    victims_text,
)
from scheduler.preemption.nominated_nodes import NominatedNodes
from scheduler.preemption.pod_deletions import delete_pod
from scheduler.queue.shell import Shell
from scheduler.support.config import Preemption
from scheduler.support.kinds import GROUP_RESOURCES
from scheduler.support.metrics import (
    EVICTIONS_OPEN,
    PREEMPTIONS_REPEATED,
    VICTIMS,
    VICTIMS_SPARED,
)
from scheduler.support.priority_semaphore import SharedSemaphore
from scheduler.support.retry import RETRIABLE, retry

_log = structlog.get_logger()

_LOWEST: Final = 1 << 62
"""The priority of nominations: all plans go first."""

_NOMINATIONS: Final = 8
"""Nominations of one namespace at a time. All namespaces together have twice as many."""

_NOT_YET_BOUND: Final = 1.0
"""Seconds after the deletion of the victims when nodes of pods that still wait are written."""

SPARED_FOR: Final = 600.0
"""Seconds until a victim whose deletion failed may be chosen again: by then the component that

refused it, or did not respond, may act otherwise.
"""

_Job = Callable[[Fence], Coroutine[Any, Any, None]]
_T = TypeVar("_T")
Message = Callable[[str], str]
"""The message about an eviction, for readers of a namespace."""


def granted(info: PodInfo) -> float:
    """Return the seconds that a victim gets to end: its own grace period, up to the longest."""
    return max(1.0, min(info.preemption.grace, LONGEST_GRACE))


class NotTogetherError(Exception):
    """Pods that are moved with others stay, because those cannot be evicted."""


class Evictor:
    """A bounded number of concurrent requests that carry out plans.

    One namespace gets fewer than all together, as `Preemption` has it: slow requests of one leave
    capacity for others. Requests of an earlier plan go first: its preemptor can start while later
    victims still run. Nominations go last and few at a time, as nothing waits for them. They are
    written only once all victims were deleted, for pods that wait a moment later: others need none.
    """

    def __init__(self, api: Client, shell: Shell, events: GroupEvents, config: Preemption) -> None:
        """Carry out plans through `api`. Nothing is spared during a freeze."""
        self._freeze = shell.freeze
        self._api = api
        self._state = shell.state
        self._events = events
        self._activity = shell.activity
        self._clock = shell.clock
        self._patience, writers = config.patience_seconds, config.writers
        self._repeat_window = config.repeat_window_seconds
        self._marks = DisruptionMarks(api, shell.clock)
        self._semaphore = SharedSemaphore(2 * writers, writers)
        nominations = min(_NOMINATIONS, writers)
        self._nominating = SharedSemaphore(2 * nominations, nominations)
        self._plans = count()
        self._on_change = shell.on_change
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._nominated = NominatedNodes()
        # Set once the last plan of a root is carried out.
        self._carried_out: dict[GroupKey, asyncio.Event] = {}
        self._spared_until: dict[str, float] = {}

    def evict(self, plan: Plan, priority: int) -> None:
        """Set the condition on all pods of the victims and delete them, in the background."""
        # Held places are victims, too, but have no object to delete: the preemptor forgets them.
        pods = [pod for pod in plan.pods if not pod.info.expected]
        groups = [unit.group for unit in plan.victims if unit.group is not None]

        def message(namespace: str) -> str:
            # The name of the preemptor is only for its own namespace (`messages`).
            preemptor = preemptor_text(plan.root, priority, namespace)
            return f"{SCHEDULER_COMPONENT}: preempted for {preemptor}"

        victims = victims_text(plan.victims, plan.root[1], most=5)
        self._events.entity(plan.root, "Normal", "Preempting", f"evicts {victims}")
        for group in groups:
            self._events.entity(group.key, "Warning", "Preempted", message(group.key[1]))
        for key, number in single_victims(plan.victims).items():
            preemptor = preemptor_text(plan.root, priority, key[1])
            text = f"{SCHEDULER_COMPONENT}: {places_text(number, 0)} preempted for {preemptor}"
            self._events.entity(key, "Warning", "Preempted", text)
        for pod in pods:
            self._events.pod(pod, "Warning", "Preempted", message(pod.info.namespace))
        units = [[pod for pod in pods if pod.info.uid in it.pods] for it in plan.victims]
        done = self._carried_out[plan.root] = asyncio.Event()
        counted = self._counted(plan)
        self._start(
            [unit for unit in units if unit],
            groups,
            message,
            partial(self._done, plan.root, done),
            counted=counted,
        )
        # Nothing waits for these, whose groups get no other condition.
        for key in counted.difference(each.key for group in groups for each in group.walk()):
            self._submit(partial(self._count_preemption, key))

    def _counted(self, plan: Plan) -> set[GroupKey]:
        """Return the roots whose status counts this preemption."""
        roots = disrupted_roots(self._state.units, plan.victims) if self._repeat_window else []
        return {root.key for root in roots}

    def _done(self, root: GroupKey, done: asyncio.Event) -> None:
        done.set()
        # The root may have evicted again meanwhile, by another plan.
        if self._carried_out.get(root) is done:
            del self._carried_out[root]

    def disrupt(self, root: Group, pods: Sequence[Pod], why: str) -> None:
        """Evict pods of a root for another reason than preemption."""
        text = f"{SCHEDULER_COMPONENT}: {why}"
        now = self._clock.monotonic()
        for pod in pods:
            self._events.pod(pod, "Warning", "Evicted", text)
        self._start([list(pods)], [root], lambda _namespace: text)
        for pod in pods:
            self._state.units.mark_evicting([pod], now + granted(pod.info))

    def move(self, moved: Mapping[Group, Sequence[Pod]], message: Message) -> None:
        """Evict these pods of roots that are moved: all, or none if one cannot be marked."""
        now = self._clock.monotonic()
        for root, pods in moved.items():
            self._events.entity(root.key, "Normal", "Moved", message(root.key[1]))
            for pod in pods:
                self._events.pod(pod, "Normal", "Moved", message(pod.info.namespace))
                self._state.units.mark_evicting([pod], now + granted(pod.info))
        counted = {root.key for root in moved} if self._repeat_window else set()
        units = [list(pods) for pods in moved.values()]
        self._start(units, list(moved), message, counted=counted, together=True)

    def readmit(self) -> None:
        """Let victims be chosen again whose deletion failed long ago."""
        now = self._clock.monotonic()
        # They are in the order in which they were spared, all for the same time.
        while self._spared_until:
            uid, until = next(iter(self._spared_until.items()))
            if until > now:
                return
            del self._spared_until[uid]
            pod = self._state.pods.get(uid)
            if pod is not None:
                self._state.units.readmit([pod])

    def nominate(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """Set nominatedNodeName of these pods of the root, and clear that of its others."""
        nodes = {pod: node for pod, node in nodes.items() if not pod.info.expected}
        self._clear(self._nominated.set(root, nodes))
        self._submit(partial(self._nominate_later, root))

    def adopt(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """Record that these pods of the root have their nominatedNodeName already."""
        self._nominated.adopt(root, nodes)

    def withdraw(self, root: GroupKey) -> None:
        """End the nomination: clear nominatedNodeName of the root's pods that wait."""
        self._clear(self._nominated.withdraw(root))

    def reset(self) -> None:
        """Begin a new term: nothing is being evicted, and no victim was spared."""
        self._jobs = asyncio.Queue()
        self._activity.evicting.clear()
        EVICTIONS_OPEN.set(0)
        self._nominated.clear()
        self._carried_out.clear()
        self._spared_until.clear()
        self._state.units.forget_choices()

    def resume(self) -> None:
        """Complete what an earlier leader began: delete the pods that have the condition.

        The others of their units are deleted, too, unless they came after the condition. Pods that
        are terminating were deleted already: their condition means nothing for pods that came
        since.
        """
        units: dict[GroupKey, dict[str, Pod]] = {}
        slices: dict[GroupKey, dict[str, list[Pod]]] = {}
        for pod in self._state.pods.values():
            if pod.info.preemption.targeted and pod.placed and not pod.info.terminating:
                group = unit_owner(pod, self._state.forest).group
                # A gang is moved complete, even if its pods are evicted one by one otherwise.
                if pod.info.preemption.target_says.startswith(MOVED) and pod.group is not None:
                    group = pod.group.top
                members = self._slice_of(pod, slices) if group is None else _running(group)
                key = min(each.key for each in members) if group is None else group.key
                unit = units.setdefault(key, {})
                unit[pod.info.uid] = pod
                for other in members:
                    if other.node and _ran_before(other, pod.info.preemption.targeted_at):
                        unit[other.info.uid] = other
        if units:
            victims = [list(unit.values()) for unit in units.values()]
            now = self._clock.monotonic()
            for pod in (each for unit in victims for each in unit):
                self._state.units.mark_evicting([pod], now + granted(pod.info))
            text = f"{SCHEDULER_COMPONENT}: preempted; its eviction had begun before a restart"
            self._start(victims, [], lambda _namespace: text)

    def _slice_of(self, pod: Pod, known: dict[GroupKey, dict[str, list[Pod]]]) -> list[Pod]:
        """Return the running pods of the pod's slice, or the pod; `known` has those by group."""
        gang = pod.group
        if gang is None or gang.slicing is None:
            return [pod]
        if gang.key not in known:
            known[gang.key] = self._state.units.by_slice(gang)
        return known[gang.key].get(pod.info.uid, [pod])

    async def run(self, fence: Fence) -> None:
        """Carry out plans while the lease is held, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._jobs.get()
                group.create_task(self._run_job(job, fence))

    def _submit(self, job: _Job) -> None:
        EVICTIONS_OPEN.inc()
        self._jobs.put_nowait(job)

    async def _run_job(self, job: _Job, fence: Fence) -> None:
        try:
            await job(fence)
        except Exception:  # noqa: BLE001 - logged; the root is decided again
            _log.exception("eviction raised an unexpected error")
        finally:
            EVICTIONS_OPEN.dec()

    def _start(
        self,
        units: list[list[Pod]],
        groups: list[Group],
        message: Message,
        done: Callable[[], None] = lambda: None,
        *,
        counted: Collection[GroupKey] = (),
        together: bool = False,
    ) -> None:
        """Submit an eviction. If the units go `together`, one that is spared spares all."""
        plan = next(self._plans)
        self._activity.evicting.add(plan)

        async def carry_out(fence: Fence) -> None:
            try:
                await self._mark(plan, units, groups, message, fence, counted=counted)
                if together and not all(map(self._state.units.leaves, chain(*units))):
                    self._call_off(units)
                await self._evict_all(plan, units, fence)
            finally:
                # After an error, too: statuses and events wait for evictions under way.
                self._activity.evicting.discard(plan)
                done()

        self._submit(carry_out)

    async def _mark(
        self,
        plan: int,
        units: list[list[Pod]],
        groups: list[Group],
        message: Message,
        fence: Fence,
        *,
        counted: Collection[GroupKey],
    ) -> None:
        # A tree's condition is on each of its groups that exists as an object.
        marked = [
            each
            for group in groups
            for each in group.walk()
            if each.spec is not None and not each.of_others
        ]
        await asyncio.gather(
            # Side by side: conditions of groups only inform, so those of pods do not wait for them.
            self._for_each(
                marked, partial(self._set_group_condition, plan, counted, message, fence)
            ),
            self._for_each(units, partial(self._set_unit_condition, plan, message, fence)),
        )
        await self._freeze.over()

    async def _evict_all(self, plan: int, units: list[list[Pod]], fence: Fence) -> None:
        # Victims that were spared since, or are gone, are left out.
        pods = [pod for unit in units for pod in unit if self._state.units.leaves(pod)]
        await self._for_each(pods, partial(self._evict_pod, plan, fence))

    def _call_off(self, units: list[list[Pod]]) -> None:
        """Spare all that still run: a part of the units would be evicted without effect."""
        leaving = filter(self._state.units.leaves, chain(*units))
        pods = [pod for pod in leaving if not pod.info.terminating]
        if pods:
            self._spare(pods, NotTogetherError("other pods of the same move could not be evicted"))

    async def _for_each(self, things: Iterable[_T], act: Callable[[_T], Awaitable[None]]) -> None:
        await asyncio.gather(*map(act, things))

    async def _set_group_condition(
        self,
        plan: int,
        counted: Collection[GroupKey],
        message: Message,
        fence: Fence,
        group: Group,
    ) -> None:
        window = self._repeat_window if group.key in counted else 0.0
        await self._write_group(plan, group.key, message(group.key[1]), window, fence)

    async def _count_preemption(self, root: GroupKey, fence: Fence) -> None:
        await self._write_group(_LOWEST, root, "", self._repeat_window, fence)

    async def _write_group(
        self, priority: int, key: GroupKey, message: str, window: float, fence: Fence
    ) -> None:
        """Write conditions of a group. They only inform, so a failure is logged."""
        kind, namespace, name = key

        async def write() -> None:
            number = await self._marks.set_group(
                GROUP_RESOURCES[kind], namespace, name, message, window
            )
            if number > 1:
                PREEMPTIONS_REPEATED.inc()

        error = await self._send(priority, namespace, write, fence)
        if error is not None:
            _log.error("failed to write the preemption to a group", error=str(error))

    async def _set_unit_condition(
        self, plan: int, message: Message, fence: Fence, unit: Sequence[Pod]
    ) -> None:
        """Set the condition on the pods of a unit; if one fails, spare the complete unit."""

        async def mark(pod: Pod) -> Exception | None:
            if pod.info.preemption.targeted:
                return None  # an earlier leader did
            text = message(pod.info.namespace)
            # The pod as known when its request is sent, which may be later.
            act = lambda: self._marks.set_pod(pod.info, text)  # noqa: E731
            return await self._send(plan, pod.info.namespace, act, fence)

        errors = await asyncio.gather(*map(mark, unit))
        # A part of a unit is never evicted: one failure spares all of it.
        error = next(filter(None, errors), None)
        if error is not None:
            await self._freeze.over()
            self._spare(unit, error)

    async def _evict_pod(self, plan: int, fence: Fence, pod: Pod) -> None:
        error = await self._send(plan, pod.info.namespace, partial(self._delete, pod), fence)
        if error is not None:
            await self._freeze.over()
            self._spare([pod], error)

    async def _send(
        self,
        priority: int,
        namespace: str,
        act: Callable[[], Awaitable[None]],
        fence: Fence,
        *,
        within: SharedSemaphore | None = None,
    ) -> Exception | None:
        """Send a request; retry while only the connection or a newer version is at fault.

        No permit is held between two attempts. Returns the error if it was given up; None if it
        succeeded, the object is gone, or the lease is lost.
        """
        semaphore = self._semaphore if within is None else within

        async def request() -> None:
            async with semaphore.acquired(namespace, priority):
                await act()

        # A victim that cannot be evicted in time is spared, so that the root can choose others.
        until = self._clock.monotonic() + self._patience
        try:
            await retry(request, fence, self._clock, on=(Conflict, *RETRIABLE), until=until)
        except NotFound:
            return None
        except KubeError as error:
            return error
        except Exception as error:  # noqa: BLE001 - logged; it is about this object alone
            _log.exception("eviction raised an unexpected error")
            return error
        return None

    async def _delete(self, pod: Pod) -> None:
        """Delete the pod with its own grace period, up to the longest.

        If another client deleted it, this shortens the grace period, which the API server allows.
        """
        info = pod.info
        shorter = info.terminating or info.preemption.grace > LONGEST_GRACE
        # Without a value the API server uses the pod's own grace period.
        grace = int(granted(info)) if shorter else None
        if await delete_pod(self._api, info, grace):
            VICTIMS.inc()

    def _spare(self, pods: Sequence[Pod], error: Exception) -> None:
        """Give up evicting these pods: revert their conditions, and decide the roots again."""
        refused = not isinstance(error, (Conflict, *RETRIABLE))
        until = self._clock.monotonic() + SPARED_FOR
        self._state.units.spare(pods)
        for pod in pods:
            _log.error(
                "eviction failed", pod=f"{pod.info.namespace}/{pod.info.name}", error=str(error)
            )
            VICTIMS_SPARED.labels("refused" if refused else "unanswered").inc()
            self._events.pod(
                pod, "Warning", "EvictionFailed", f"{SCHEDULER_COMPONENT}: not evicted: {error}"
            )
            self._submit(partial(self._clear_condition, pod))
            # Removed first, as the order of the entries is that of their times.
            self._spared_until.pop(pod.info.uid, None)
            self._spared_until[pod.info.uid] = until
        self._state.reconsider_all()  # the roots that wait for the pods must be decided again
        self._on_change()

    async def _clear_condition(self, pod: Pod, fence: Fence) -> None:
        """Revert the condition of the pod, or the next leader would evict it again."""
        info = pod.info
        clear = partial(self._marks.clear, PODS, info.namespace, info.name, info.uid)
        error = await self._send(_LOWEST, info.namespace, clear, fence)
        if error is not None:
            _log.error("failed to clear DisruptionTarget", error=str(error))

    async def _nominate_later(self, root: GroupKey, _fence: Fence) -> None:
        """Write the nodes of pods that are not bound soon after their victims were deleted."""
        done = self._carried_out.get(root)
        if done is not None:
            await done.wait()
        # Most victims end within a second, and then the pods are bound: they need no nomination.
        await self._clock.sleep(_NOT_YET_BOUND)
        for pod, node in self._nominated.take(root).items():
            self._submit(partial(self._send_nomination, pod, node))

    def _clear(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.waiting:
                self._submit(partial(self._send_nomination, pod, ""))

    async def _send_nomination(self, pod: Pod, node: str, fence: Fence) -> None:
        info = pod.info

        async def write() -> None:
            # By UID: another pod of the name must not get this node.
            ops = PatchBuilder().of_uid(info.uid)
            ops.add("/status/nominatedNodeName", node)
            async with self._semaphore.acquired(info.namespace, _LOWEST):
                if pod.waiting:
                    await self._api.patch(
                        PODS, info.name, ops, info.namespace, subresource="status"
                    )

        within = self._nominating
        error = await self._send(_LOWEST, info.namespace, write, fence, within=within)
        if error is not None:
            _log.error("failed to set nominatedNodeName", error=str(error))


def _running(group: Group) -> list[Pod]:
    """Return all pods of a subtree that are bound or assumed."""
    return [pod for leaf in group.leaves() for pod in leaf.members.values() if pod.node]


def _ran_before(pod: Pod, marked: str) -> bool:
    """Return whether a pod is older than its unit's condition, and is not deleted yet."""
    return not pod.info.terminating and (not marked or pod.info.created <= marked)
