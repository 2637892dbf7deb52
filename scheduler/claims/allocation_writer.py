"""Writes what was decided about devices into ResourceClaims, before the pods are bound.

First the finalizer, then one write of the status with the allocation and all its consumers: an
allocation without consumers would be nobody's to take back. Then it is waited for until the watch
delivers that write: if another scheduler has given a device away before, its claim is known by
then, and it keeps the device.

A claim for extended resources is made with the finalizer, and its pod's status names it in the end.

Claims tell all there is to know about devices: a new leader finds in them what its predecessor
wrote. A waiting pod whose claim is allocated can only go where that is usable, and if it cannot be
placed there, or is not decided for a while, the claim is freed (`claim_releases`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import Counter as PromCounter

from kube.base.clock import Clock, rfc3339
from kube.base.errors import Conflict, Invalid, KubeError, NotFound
from kube.client.patch import PatchBuilder
from kube.concurrency.fair_queue import FairSemaphore
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimAccess, UnusableError
from scheduler.claims.claim_patches import (
    FINALIZER,
    allocation_patch,
    consumers_patch,
    finalizer_patch,
)
from scheduler.claims.extended_resource_claims import ExtendedClaims
from scheduler.core.devices.claim_consumers import MOST_CONSUMERS
from scheduler.core.groups.forest import Pod
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation, DeviceClaimInfo
from scheduler.core.values.model import ClaimKey
from scheduler.events.group_events import GroupEvents
from scheduler.support.event_wait import wait_until
from scheduler.support.metrics import CLAIM_RACES_LOST, CLAIM_WRITES, DEVICES_TWICE
from scheduler.support.retry import RETRIABLE, backoff
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.device_handlers import ObservedClaim

_TRIES: Final = 5
"""How often a claim is read and written again that others wrote to meanwhile."""

_IMMUTABLE: Final = "field is immutable"
_NOT_COMPACT: Final = (
    "resourceclaim {name} cannot be patched, as its spec has JSON with blanks that was stored as it"
    " was sent: make it, or its template, anew with the parameters of its config as compact JSON"
)
"""The API server compares a patched spec, which it writes without blanks, with the stored bytes."""

_TOLD: Final = 16
"""Claims whose pods are told that others have their devices, too, each time."""

_READY_WITHIN: Final = 600.0
"""Seconds within which drivers have to make devices with binding conditions ready."""

_created, _allocated, _reserved, _finalized, _conflict, _failed = map(
    CLAIM_WRITES.labels,
    ("created", "allocated", "reserved", "finalizer", "conflict", "failed"),
)


@dataclass(slots=True)
class _Effort:
    """To have claims stand together; once there is a `problem` with one, all are given up."""

    deadline: float
    fence: Fence
    problem: str = ""
    waiting: set[asyncio.Event] = field(default_factory=set)

    def fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        for event in self.waiting:
            event.set()


_Step = tuple[PatchBuilder, str | None, PromCounter]
"""A patch, the subresource that it is for, and what counts it."""


class Allocations:
    """Writes and confirms the allocations of pods that are about to be bound.

    `news` is told of each claim that changes.
    """

    def __init__(
        self,
        access: ClaimAccess,
        state: State,
        news: ClaimNews,
        events: GroupEvents,
        extended: ExtendedClaims,
        *,
        clock: Clock,
        writers: int = 160,
    ) -> None:
        """At most so many `writers` write at once; with fewer, statuses take more of the time."""
        self._access = access
        self._state = state
        self._devices = state.devices
        self._claims = access.claims
        self._freeze = access.freeze
        self._news = news
        self._events = events
        self._extended = extended
        self._clock = clock
        self._semaphore = FairSemaphore(writers)
        self._users: dict[ClaimKey, dict[str, Pod]] = {}
        self._leads = False
        news.subscribe(self._claim_changed)

    def lead(self, *, leads: bool) -> None:
        """Whether this process leads: only then it tells of devices that were allocated twice."""
        self._leads = leads

    async def stand(self, pods: Iterable[Pod], deadline: float, fence: Fence) -> str:
        """Write all claims of these assumed pods, and wait until they are confirmed and ready.

        Returns the problem with the first that cannot be had, else nothing.
        """
        users: dict[ClaimKey, list[Pod]] = {}
        for pod in pods:
            for key in pod.info.device_claims:
                users.setdefault(key, []).append(pod)
        effort = _Effort(deadline, fence)
        async with asyncio.TaskGroup() as group:
            for key, of in users.items():
                group.create_task(self._stand(key, of, effort))
        return effort.problem

    async def _stand(self, key: ClaimKey, pods: list[Pod], effort: _Effort) -> None:
        try:
            needed = not self._extended.unneeded(key, pods[0])
            with self._used_by(key, pods):
                async with self._access.locked(key):
                    if needed:
                        await self._write(key, pods, effort)
                    if not effort.problem:
                        await self._extended.tell(key, pods[0], effort.deadline, effort.fence)
                if needed:
                    await self._confirm(key, pods, effort)
        except (UnusableError, KubeError) as error:
            effort.fail(str(error))

    def with_conditions(self, pods: Iterable[Pod]) -> bool:
        """Whether drivers have to make devices of these pods ready."""
        allocations = (self._devices.allocation(k) for pod in pods for k in pod.info.device_claims)
        return any(each and _conditional(each) for each in allocations)

    # Writing

    async def _write(self, key: ClaimKey, pods: list[Pod], effort: _Effort) -> None:
        """Write until nothing is missing. Raises KubeError or UnusableError."""
        waits, conflicts = backoff(), 0
        while not effort.problem:
            try:
                # One turn for all writes of a claim: the first pods are bound while others wait.
                async with self._semaphore.acquired(key[0]):
                    await self._write_all(key, pods, effort)
                return
            except (Conflict, Invalid):
                # Invalid, too: the uid may be another one's by now.
                _conflict.inc()
                conflicts += 1
                if not await self._access.read(key) or conflicts > _TRIES:
                    raise
            except RETRIABLE as error:
                _failed.inc()
                left = effort.deadline - self._clock.monotonic()
                if left <= 0:
                    raise
                await self._clock.sleep(min(waits.next(error), left))

    async def _write_all(self, key: ClaimKey, pods: list[Pod], effort: _Effort) -> None:
        """Write what is missing, one thing after the other."""
        while not effort.problem:
            if not await self._write_next(key, pods, effort.fence):
                return

    async def _write_next(self, key: ClaimKey, pods: list[Pod], fence: Fence) -> bool:
        """One write; false if nothing is missing."""
        await self._freeze.over()
        lacking = [pod for pod in self._alive(pods) if self._extended.lacks(key, pod)]
        step = None if lacking else self._next_write(key, pods)
        if not (lacking or step):
            return False
        if not fence.valid():
            raise UnusableError("the lease is lost")
        if step is None:
            await self._extended.make(key, lacking[0])
            _created.inc()
            return True
        patch, subresource, result = step
        try:
            await self._access.patch(key, patch, subresource)
        except NotFound:
            raise UnusableError(f"resourceclaim {key[1]} is gone") from None
        except Invalid as error:
            if subresource is None and _IMMUTABLE in error.message:
                raise UnusableError(_NOT_COMPACT.format(name=key[1])) from error
            raise
        result.inc()
        return True

    def _next_write(self, key: ClaimKey, pods: list[Pod]) -> _Step | None:
        """What to write next, and where; None if nothing is missing. Raises UnusableError."""
        claim, seen, pods = *self._usable(key), self._alive(pods)
        missing = [pod for pod in pods if pod.info.uid not in claim.reserved]
        if not missing:
            return None
        if len(seen.consumers) + len(missing) > MOST_CONSUMERS:
            raise UnusableError(
                f"resourceclaim {key[1]} has {len(seen.consumers)} consumers and would get"
                f" {len(missing)} more, of {MOST_CONSUMERS} at most"
            )
        room = MOST_CONSUMERS - len(seen.consumers) - len(missing)
        if claim.allocation is not None:
            if not self._reaches(claim.allocation, pods):
                raise UnusableError(f"claim {key[1]} got allocated elsewhere in the meantime")
            missing += self._others(key, claim, claim.allocation, missing, room)
            return consumers_patch(seen, missing), "status", _reserved
        allocation = self._devices.assumed.get(key)
        if allocation is None:
            raise UnusableError(f"claim {key[1]} got deallocated in the meantime")
        if not self._reaches(allocation, pods):
            raise UnusableError(f"the devices for claim {key[1]} cannot be used on its pod's node")
        self._check_free(key, allocation)
        if FINALIZER not in seen.finalizers:
            return finalizer_patch(seen), None, _finalized
        missing += self._others(key, claim, allocation, missing, room)
        moment = rfc3339(self._clock.now())
        return allocation_patch(seen, allocation, missing, moment), "status", _allocated

    def _others(
        self,
        key: ClaimKey,
        claim: DeviceClaimInfo,
        allocation: Allocation,
        missing: list[Pod],
        room: int,
    ) -> list[Pod]:
        """Up to `room` pods of others that wait to become consumers, too: one write serves all."""
        own = {pod.info.uid for pod in missing} | claim.reserved
        waiting = [pod for uid, pod in self._users.get(key, {}).items() if uid not in own]
        if not waiting:
            return []
        admitted = self._devices.admitted(allocation.nodes)
        return [pod for pod in self._alive(waiting) if admitted[pod.row]][: max(0, room)]

    def _usable(self, key: ClaimKey) -> tuple[DeviceClaimInfo, ObservedClaim]:
        claim, seen = self._devices.claims.get(key), self._claims.observed.get(key)
        if claim is None or seen is None:
            raise UnusableError(f'could not find ResourceClaim "{key[0]}/{key[1]}"')
        if claim.terminating:
            raise UnusableError(f'resourceclaim "{key[1]}" is being deleted')
        return claim, seen

    def _alive(self, pods: list[Pod]) -> list[Pod]:
        """Those that are still to be bound; the binder tells of the others."""
        known = self._state.pods
        return [
            pod for pod in pods if known.get(pod.info.uid) is pod and pod.assumed and pod.row >= 0
        ]

    def _reaches(self, allocation: Allocation, pods: list[Pod]) -> bool:
        """Whether all pods are where the allocation can be used."""
        return self._devices.reached(allocation.nodes, (pod.row for pod in pods))

    def _check_free(self, key: ClaimKey, allocation: Allocation) -> None:
        for excess in self._devices.excess.of(key, allocation, self._is_written):
            raise UnusableError(f"{excess.what} got allocated to another claim in the meantime")

    def _is_written(self, key: ClaimKey) -> bool:
        claim = self._devices.claims.get(key)
        return claim is not None and claim.allocation is not None

    # Confirming

    async def _confirm(self, key: ClaimKey, pods: list[Pod], effort: _Effort) -> None:
        """Wait until the watch delivered what was written, nobody was first, and it is ready.

        Raises UnusableError.
        """
        changed = asyncio.Event()
        effort.waiting.add(changed)
        ready_until = 0.0
        with self._news.listening(key, changed.set):
            while not effort.problem:
                await self._freeze.over()
                changed.clear()
                if not self._alive(pods):
                    return
                claim, seen = self._usable(key)
                if claim.allocation is None:
                    raise UnusableError(f"claim {key[1]} got deallocated in the meantime")
                if not self._claims.awaits(key):
                    if not ready_until:
                        self._check_first(key, claim.allocation)
                        ready_until = self._clock.monotonic() + _READY_WITHIN
                    if _is_ready(key, claim.allocation, seen):
                        return
                until = min(ready_until or effort.deadline, effort.fence.until)
                if self._clock.monotonic() >= until:
                    what = "was not made ready" if ready_until else "was not confirmed"
                    raise UnusableError(f"claim {key[1]} {what} in time")
                await wait_until(changed, until, self._clock)

    def _check_first(self, key: ClaimKey, allocation: Allocation) -> None:
        """Raises UnusableError if claims that were allocated before left too little for it."""
        ours = self._claims.observed[key].allocated
        for excess in self._devices.excess.of(key, allocation, self._older_than(ours)):
            CLAIM_RACES_LOST.inc()
            raise UnusableError(f"{excess.what} was allocated to another claim before")

    def _older_than(self, version: int) -> Callable[[ClaimKey], bool]:
        """Whether a claim was allocated before that version, or may have been."""

        def is_older(key: ClaimKey) -> bool:
            seen = self._claims.observed.get(key)
            return seen is not None and 0 < seen.since < version

        return is_older

    def _claim_changed(self, key: ClaimKey) -> None:
        claim = self._devices.claims.get(key)
        if not self._leads or claim is None or claim.allocation is None:
            return
        seen = self._claims.observed[key]
        if key not in self._users and seen.allocated == seen.version:
            # One that is being written is given back if it came second.
            self._look_for_twice(key, claim.allocation, seen.allocated)

    def _look_for_twice(self, key: ClaimKey, allocation: Allocation, version: int) -> None:
        """Tell the pods of claims that have one thing together; nobody is evicted for it."""
        for excess in self._devices.excess.of(key, allocation, self._older_than(version)):
            DEVICES_TWICE.inc()
            for each in (key, *sorted(excess.others)[:_TOLD]):
                self._tell_twice(each, excess.what)

    def _tell_twice(self, key: ClaimKey, what: str) -> None:
        message = (
            f"{what}, which ResourceClaim {key[1]} has, was allocated to another claim, too, by"
            " another scheduler: give each scheduler nodes or device classes of its own"
        )
        for uid in sorted(self._devices.claims[key].reserved):
            pod = self._state.pods.get(uid)
            if pod is not None and pod.info.namespace == key[0]:
                self._events.pod(pod, "Warning", "DeviceAllocatedTwice", message)

    @contextmanager
    def _used_by(self, key: ClaimKey, pods: list[Pod]) -> Iterator[None]:
        """Inside, the pods are among those that the claim is being written for."""
        users = self._users.setdefault(key, {})
        users.update((pod.info.uid, pod) for pod in pods)
        try:
            yield
        finally:
            for pod in pods:
                users.pop(pod.info.uid, None)
            if not users:
                self._users.pop(key, None)


def _conditional(allocation: Allocation) -> bool:
    return any(each.binding_conditions for each in allocation.devices)


def _is_ready(key: ClaimKey, allocation: Allocation, seen: ObservedClaim) -> bool:
    """Whether drivers say so of all devices that need it. Raises UnusableError if one failed."""
    said = {
        (each.driver, each.pool, each.device): {
            it.type for it in each.conditions if it.status == "True"
        }
        for each in seen.statuses
    }
    for device in allocation.devices:
        true = said.get(device.key, set())
        failed = sorted(true.intersection(device.binding_failures))
        if failed:
            name = "/".join(device.key)
            raise UnusableError(f"claim {key[1]}: device {name} has failed: {failed[0]}")
        if not true.issuperset(device.binding_conditions):
            return False
    return True
