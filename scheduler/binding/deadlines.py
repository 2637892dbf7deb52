"""Deadlines of Bindings: a gang that could not be bound in time is given up.

The pods that its intent has bound are deleted. Each gang is given up on its own, so a pod that
cannot be deleted delays its own gang only. That gang is not decided, as its members would still
count as bound. Its deletions are retried until they succeed or the gang is complete, and its
Reservation stays until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from kube.base.errors import KubeError
from kube.client.client import Client
from kube.concurrency.backoff import Backoff, retry_after
from kube.concurrency.fair_queue import FairSemaphore
from kube.leader.election import Fence
from scheduler.binding.in_flight import Intent, Intents, in_half_bound, is_half_bound, shortened
from scheduler.binding.reports import Reports
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import GroupKey
from scheduler.preemption.pod_deletions import delete_pod
from scheduler.queue.shell import Shell
from scheduler.status.conditions import binding_failed
from scheduler.support.kinds import NATIVE_GROUPS
from scheduler.support.metrics import GANGS_GIVEN_UP, GANGS_STUCK

_LOOK: Final = 1.0
"""Seconds between two checks of the deadlines."""

_REFUSED_ROUNDS: Final = 5
"""Rounds of refusals in a row, over 15 s, after which a gang is given up before its deadline."""

DELETIONS: Final = 16
"""Pods that are deleted at a time. Further ones wait."""

_OF_ONE_ROOT: Final = 8
"""Pods of one root that are deleted at a time. Further ones wait."""

_FIRST_WAIT: Final = 1.0
"""Seconds between the first two attempts to delete the pods of one root. The wait doubles."""

_LAST_WAIT: Final = 60.0
"""Seconds between two attempts to delete the pods of one root, at most."""

_log = structlog.get_logger()


class Deadlines:
    """The deadlines of all intents: those of complete gangs end, late ones are given up."""

    def __init__(
        self,
        api: Client,
        shell: Shell,
        reports: Reports,
        intents: Intents,
        *,
        timeout_of: Callable[[GroupKey], float],
        keeps: Callable[[Group], bool] = lambda _root: False,
    ) -> None:
        """Check these intents; `keeps` returns whether a root's running pods stay without the rest.

        Nothing is given up during a freeze: the root might be in a decision.
        """
        self._api = api
        self._state = shell.state
        self._queue = shell.queue
        self._events = reports.events
        self._intents = intents
        self._clock = shell.clock
        self._timeout_of = timeout_of
        self._on_change = shell.on_change
        self._on_refused = reports.on_refused
        self._freeze = shell.freeze
        self._keeps = keeps
        self._semaphore = FairSemaphore(DELETIONS)
        self._ending: set[GroupKey] = set()
        self._stuck: set[GroupKey] = set()

    async def run(self, fence: Fence) -> None:
        """Check the deadlines every second, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._clock.sleep(_LOOK)
                await self._freeze.over()
                for intent in self._over():
                    group.create_task(self._try_to_give_up(intent, fence))

    def _over(self) -> list[Intent]:
        """End the intents of complete gangs, and return those to give up now."""
        over = []
        for intent in list(self._intents.by_root.values()):
            try:
                if self._is_over(intent):
                    self._ending.add(intent.root)
                    # Not decided until it is given up: its bound members would count as running.
                    self._queue.block(intent.root)
                    over.append(intent)
            except Exception:  # noqa: BLE001 - logged, and tried again
                _log.exception("failed to check a deadline", root="/".join(intent.root))
        return over

    def _is_over(self, intent: Intent) -> bool:
        """Return whether to give up the intent now; end it if its gang is complete."""
        # Bindings without a result may still complete the gang.
        if intent.open or intent.root in self._ending:
            return False
        group = self._state.forest.groups.get(intent.root)
        if intent.root[0] in NATIVE_GROUPS and (group is None or group.spec is None):
            return False  # the group is not known yet, or may not be read
        if group is not None and group.expected_held:
            return False  # its Reservation records where places are held
        if group is not None and (group.expected_waiting or self._keeps(group)):
            # It started with held places for the rest, and has lost some: its running pods go on.
            self._intents.complete(intent)
            return False
        if not self._half_bound(intent):
            self._intents.complete(intent)
            return False
        # What the server refuses it will refuse again: bound pods need not idle until the deadline.
        late = self._clock.monotonic() >= intent.deadline
        return late or intent.refusals >= _REFUSED_ROUNDS

    async def _try_to_give_up(self, intent: Intent, fence: Fence) -> None:
        """Give up the intent. An unexpected error is about this root, which is given up later."""
        try:
            await self._give_up(intent, fence)
        except Exception:  # noqa: BLE001 - logged, and tried again
            _log.exception("failed to give up a gang", root="/".join(intent.root))

    def _half_bound(self, intent: Intent) -> bool:
        """Return whether some pods run of the root or of a group in it, but too few."""
        group = self._state.forest.groups.get(intent.root)
        return group is not None and is_half_bound(group, intent.bound)

    async def _give_up(self, intent: Intent, fence: Fence) -> None:
        root = intent.root
        try:
            GANGS_GIVEN_UP.inc()
            self._events.entity(root, "Warning", "GangBindFailed", self._reason(intent))
            if not await self._delete_bound(intent, fence):
                return  # the next leader finds the Reservation, whose time is over
            await self._freeze.over()
            self._intents.complete(intent)
            # Without a problem the nodes were at fault: another decision may help at once.
            if intent.problem:
                self._pause(intent)
        finally:
            # After an error, too: the root would stay blocked.
            self._freeze.when_over(partial(self._ended, root))

    def _ended(self, root: GroupKey) -> None:
        self._ending.discard(root)
        self._set_stuck(root, stuck=False)
        self._queue.unblock(root)
        self._on_change()

    def _reason(self, intent: Intent) -> str:
        seconds = self._timeout_of(intent.root)
        late = intent.refusals < _REFUSED_ROUNDS
        how = f"within {seconds:g} s" if late else f"in {intent.refusals} attempts"
        why = f": {intent.problem}" if intent.problem else ""
        return f"only {len(intent.bound)} of its pods could be bound {how}{why}"

    def _pause(self, intent: Intent) -> None:
        """Pause the root: its nodes are not at fault, so the same would happen again."""
        seconds = self._queue.pause(intent.root, self._clock.monotonic())
        retry = f"Retry in {_minutes(seconds)}, or when the group or its pods change"
        message = f"The bound pods were deleted because others could not be bound. {retry}"
        self._events.entity(intent.root, "Warning", "GangBindFailed", message)
        self._report(intent, f"{message}: {intent.problem}")

    async def _delete_bound(self, intent: Intent, fence: Fence) -> bool:
        """Delete the pods that the intent bound; False if the lease may be lost before the end."""
        waits = Backoff(first=_FIRST_WAIT, limit=_LAST_WAIT)
        while fence.valid():
            await self._freeze.over()
            # Members may have come meanwhile, or all may have ended: nothing is left to delete.
            if not self._half_bound(intent):
                return True
            # Other child groups of the root may be complete.
            pods = [pod for pod in intent.bound if in_half_bound(pod.group)]
            left, problem = await self._delete(pods, fence)
            if not left:
                return fence.valid()  # an invalid fence leaves pods out
            wait = waits.next(problem)
            message = f"{len(left)} of {len(pods)} bound pods could not be deleted"
            message = f"{message}, retry in {_minutes(wait)}: {shortened(str(problem))}"
            _log.error("failed to give up a gang", root="/".join(intent.root), error=message)
            await self._freeze.over()
            self._events.entity(intent.root, "Warning", "GangBindFailed", message)
            self._report(intent, message)
            self._set_stuck(intent.root, stuck=True)
            await self._clock.sleep(wait)
        return False

    async def _delete(self, pods: list[Pod], fence: Fence) -> tuple[list[Pod], KubeError | None]:
        """Delete the pods, some at a time; return those that remain, and why.

        After a response that asks to wait, no more of these requests are sent for now.
        """
        left: list[Pod] = []
        problems: list[KubeError] = []
        todo = iter(pods)

        async def work() -> None:
            for pod in todo:
                await self._freeze.over()
                if not self._exists(pod):
                    continue
                if any(map(retry_after, problems)):
                    left.append(pod)
                    continue
                try:
                    await self._delete_pod(pod, fence)
                except KubeError as error:
                    left.append(pod)
                    problems.append(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_OF_ONE_ROOT, len(pods))):
                group.create_task(work())
        # The longest wait that any response asks for counts, not that of the first response.
        return left, max(problems, key=retry_after, default=None)

    async def _delete_pod(self, pod: Pod, fence: Fence) -> None:
        info = pod.info
        async with self._semaphore.acquired(info.namespace):
            # The permit may have come after the lease was lost.
            if fence.valid():
                await delete_pod(self._api, info)

    def _exists(self, pod: Pod) -> bool:
        return self._state.pods.get(pod.info.uid) is pod and not pod.info.terminating

    def _report(self, intent: Intent, message: str) -> None:
        blocker = binding_failed(self._state, intent.root, message)
        if blocker is not None:
            self._on_refused(intent.root, blocker)

    def _set_stuck(self, root: GroupKey, *, stuck: bool) -> None:
        (self._stuck.add if stuck else self._stuck.discard)(root)
        GANGS_STUCK.set(len(self._stuck))


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
