"""Writer of allocations: it stores decided devices in ResourceClaims before pods are bound.

The finalizer comes first, then one write of the status with the allocation and all its consumers:
no controller would release an allocation without consumers. Then it waits until the watch delivers
that write. If another scheduler has allocated a device earlier, its claim is known by then, and it
keeps the device.

A claim for extended resources is created with the finalizer. Once all claims of the decision are
ready, the pod's status names it.

Claims contain everything about allocated devices: a new leader finds in them what its predecessor
wrote. A waiting pod whose claim is allocated can only go to nodes that can use the allocation. If
it cannot be placed there, or is not decided for a while, the claim is released (`claim_releases`).
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
from kube.concurrency.event_wait import wait_until
from kube.concurrency.fair_queue import FairSemaphore
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimClient, UnusableError
from scheduler.claims.claim_patches import (
    FINALIZER,
    allocation_patch,
    consumer_of,
    consumers_patch,
    finalizer_patch,
)
from scheduler.claims.extended_resource_claims import ExtendedClaims
from scheduler.core.devices.claim_consumers import MOST_CONSUMERS
from scheduler.core.groups.forest import Pod
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation, DeviceClaimInfo
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.device_objects import Consumer
from scheduler.decoding.extended_resources import claim_key
from scheduler.events.group_events import GroupEvents
from scheduler.support.metrics import CLAIM_RACES_LOST, CLAIM_WRITES, DEVICES_TWICE
from scheduler.support.retry import RETRIABLE, backoff
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.device_handlers import ObservedClaim

_TRIES: Final = 5
"""Repeated writes of a claim after conflicts. After the last one the pods are not bound."""

_IMMUTABLE: Final = "field is immutable"
_NOT_COMPACT: Final = (
    "resourceclaim {name} cannot be patched, as its spec has JSON with blanks that was stored as it"
    " was sent: create it, or its template, again with the parameters of its config as compact JSON"
)
"""The API server compares a patched spec, which it writes without blanks, with the stored bytes."""

_TOLD: Final = 16
"""Claims whose pods get an event for one device that is allocated twice; others get none."""

_READY_WITHIN: Final = 600.0
"""Seconds for drivers to make devices with binding conditions ready. After that the pods are not
bound."""

_created, _allocated, _reserved, _finalized, _conflict, _failed = map(
    CLAIM_WRITES.labels,
    ("created", "allocated", "reserved", "finalizer", "conflict", "failed"),
)


@dataclass(slots=True)
class _WriteAttempt:
    """An attempt to write several claims. One `problem` ends the attempt for all of them."""

    deadline: float
    fence: Fence
    problem: str = ""
    waiting: set[asyncio.Event] = field(default_factory=set)

    def fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        # Others may be waiting for the watch or a driver. They wake up and find the problem.
        for event in self.waiting:
            event.set()


_Step = tuple[PatchBuilder, str | None, PromCounter]
"""A patch, its subresource, and the counter of its result."""


class AllocationWriter:
    """Writer of the allocations of pods that are about to be bound.

    `news` reports each claim that changes.
    """

    def __init__(
        self,
        access: ClaimClient,
        state: State,
        news: ClaimNews,
        events: GroupEvents,
        extended: ExtendedClaims,
        *,
        clock: Clock,
        writers: int = 160,
    ) -> None:
        """Limit concurrent writes to `writers`. With fewer, statuses take more of the time."""
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
        """Record if this process is the leader. Only a leader reports devices allocated twice."""
        self._leads = leads

    async def write_and_confirm(self, pods: Iterable[Pod], deadline: float, fence: Fence) -> str:
        """Write all claims of these assumed pods, and wait until they are confirmed and ready.

        Return the problem with the first claim that fails, or an empty text.
        """
        users: dict[ClaimKey, list[Pod]] = {}
        for pod in pods:
            for key in pod.info.device_claims:
                users.setdefault(key, []).append(pod)
        effort = _WriteAttempt(deadline, fence)
        # All claims together: a gang starts only when the last of its claims is ready.
        async with asyncio.TaskGroup() as group:
            for key, of in users.items():
                group.create_task(self._write_claim(key, of, effort))
        if effort.problem:
            return effort.problem
        # Last of all: API servers since 1.37 never remove the name of a claim from a pod again.
        async with asyncio.TaskGroup() as group:
            for key, (pod, *_) in users.items():
                if claim_key(pod.info) == key:
                    group.create_task(self._publish_name(key, pod, effort))
        return effort.problem

    async def _publish_name(self, key: ClaimKey, pod: Pod, effort: _WriteAttempt) -> None:
        await self._freeze.over()
        if effort.problem:
            return
        try:
            await self._extended.publish_name(key, pod, effort.deadline, effort.fence)
        except (UnusableError, KubeError) as error:
            effort.fail(str(error))

    async def _write_claim(self, key: ClaimKey, pods: list[Pod], effort: _WriteAttempt) -> None:
        try:
            needed = not self._extended.unneeded(key, pods[0])
            # Before the lock: the task that has it includes these pods in its write (`_others`).
            with self._used_by(key, pods):
                async with self._access.locked(key):
                    if needed:
                        await self._write(key, pods, effort)
                if needed:
                    # Outside the lock: a driver may take minutes, and others become consumers.
                    await self._confirm(key, pods, effort)
        except (UnusableError, KubeError) as error:
            effort.fail(str(error))

    def with_conditions(self, pods: Iterable[Pod]) -> bool:
        """True if drivers have to make devices of these pods ready."""
        allocations = (self._devices.allocation(k) for pod in pods for k in pod.info.device_claims)
        return any(each and _conditional(each) for each in allocations)

    # Writing

    async def _write(self, key: ClaimKey, pods: list[Pod], effort: _WriteAttempt) -> None:
        """Write until nothing is missing. Raises KubeError or UnusableError."""
        waits, conflicts = backoff(), 0
        while not effort.problem:
            try:
                # Acquired once for all writes of a claim. With a turn for each write, the second
                # write of the first claim would queue behind the first writes of all others.
                async with self._semaphore.acquired(key[0]):
                    await self._write_all(key, pods, effort)
                return
            except (Conflict, Invalid):
                # Invalid, too: the API server returns it if the name has another UID by now.
                _conflict.inc()
                conflicts += 1
                # No other client wrote to it, so a repetition would fail in the same way.
                if not await self._access.read(key) or conflicts > _TRIES:
                    raise
            except RETRIABLE as error:
                _failed.inc()
                left = effort.deadline - self._clock.monotonic()
                if left <= 0:
                    raise
                await self._clock.sleep(min(waits.next(error), left))

    async def _write_all(self, key: ClaimKey, pods: list[Pod], effort: _WriteAttempt) -> None:
        """Write what is missing, one patch after the other."""
        while not effort.problem:
            # Each write changes what is known of the claim, so the next one is chosen only then.
            if not await self._write_next(key, pods, effort.fence):
                return

    async def _write_next(self, key: ClaimKey, pods: list[Pod], fence: Fence) -> bool:
        """Send one write. False if nothing is missing."""
        await self._freeze.over()
        lacking = [pod for pod in self._alive(pods) if self._extended.is_missing(key, pod)]
        step = None if lacking else self._next_write(key, pods)
        if not (lacking or step):
            return False
        # Directly before the request: after the lease another leader may decide about the claim.
        if not fence.valid():
            raise UnusableError("the lease is lost")
        if step is None:
            await self._extended.create_claim(key, lacking[0])
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
        """Return the next write, None if nothing is missing. Raises UnusableError."""
        claim, seen, pods = *self._usable(key), self._alive(pods)
        known = {each.uid for each in seen.consumers}
        missing = _missing(key, pods, known)
        if not missing:
            return None
        known.update(each.uid for each in missing)
        # The API server would reject the write; this names the numbers.
        if len(seen.consumers) + len(missing) > MOST_CONSUMERS:
            raise UnusableError(
                f"resourceclaim {key[1]} has {len(seen.consumers)} consumers and would get"
                f" {len(missing)} more, of {MOST_CONSUMERS} at most"
            )
        capacity = MOST_CONSUMERS - len(seen.consumers) - len(missing)
        if claim.allocation is not None:
            if not self._reaches(claim.allocation, pods):
                raise UnusableError(f"claim {key[1]} got allocated elsewhere in the meantime")
            missing += self._others(
                key, claim.allocation, {it.uid for it in missing} | known, capacity
            )
            return consumers_patch(seen, missing), "status", _reserved
        allocation = self._devices.assumed.get(key)
        if allocation is None:
            # The decision was given up between two writes.
            raise UnusableError(f"claim {key[1]} got deallocated in the meantime")
        if not self._reaches(allocation, pods):
            raise UnusableError(f"the devices for claim {key[1]} cannot be used on its pod's node")
        # Another scheduler may have allocated a device since the decision.
        self._check_free(key, allocation)
        # Order as upstream: an allocated claim without it could be deleted while in use.
        if FINALIZER not in seen.finalizers:
            return finalizer_patch(seen), None, _finalized
        missing += self._others(key, allocation, known, capacity)
        moment = rfc3339(self._clock.now())
        return allocation_patch(seen, allocation, missing, moment), "status", _allocated

    def _others(
        self, key: ClaimKey, allocation: Allocation, known: set[str], capacity: int
    ) -> list[Consumer]:
        """Return up to `capacity` others that wait to become consumers: one write serves all."""
        waiting = [pod for uid, pod in self._users.get(key, {}).items() if uid not in known]
        if not waiting:
            return []
        # A pod whose node cannot use the allocation is not bound: it must not take an entry.
        admitted = self._devices.admitted(allocation.nodes)
        there = [pod for pod in self._alive(waiting) if admitted[pod.row]]
        return _missing(key, there, known)[: max(0, capacity)]

    def _usable(self, key: ClaimKey) -> tuple[DeviceClaimInfo, ObservedClaim]:
        claim, seen = self._devices.claims.get(key), self._claims.observed.get(key)
        if claim is None or seen is None:
            raise UnusableError(f'could not find ResourceClaim "{key[0]}/{key[1]}"')
        if claim.terminating:
            raise UnusableError(f'resourceclaim "{key[1]}" is being deleted')
        return claim, seen

    def _alive(self, pods: list[Pod]) -> list[Pod]:
        """Return the pods that are still to be bound. The binder reports the others."""
        known = self._state.pods
        return [
            pod for pod in pods if known.get(pod.info.uid) is pod and pod.assumed and pod.row >= 0
        ]

    def _reaches(self, allocation: Allocation, pods: list[Pod]) -> bool:
        """True if all pods are on nodes that can use the allocation."""
        return self._devices.reached(allocation.nodes, (pod.row for pod in pods))

    def _check_free(self, key: ClaimKey, allocation: Allocation) -> None:
        for excess in self._devices.excess.of(key, allocation, self._is_written):
            raise UnusableError(f"{excess.what} got allocated to another claim in the meantime")

    def _is_written(self, key: ClaimKey) -> bool:
        claim = self._devices.claims.get(key)
        return claim is not None and claim.allocation is not None

    # Confirming

    async def _confirm(self, key: ClaimKey, pods: list[Pod], effort: _WriteAttempt) -> None:
        """Wait until the write is seen, came first, and devices are ready. Raises UnusableError."""
        changed = asyncio.Event()
        effort.waiting.add(changed)
        ready_until = 0.0
        with self._news.listening(key, changed.set):
            while not effort.problem:
                await self._freeze.over()
                # Before the state is read: a later change sets it again, so none is missed.
                changed.clear()
                # The binder has given these pods up, and reports why.
                if not self._alive(pods):
                    return
                claim, seen = self._usable(key)
                if claim.allocation is None:
                    raise UnusableError(f"claim {key[1]} got deallocated in the meantime")
                # Until the watch delivers the write, older writes of others may be unknown.
                if not self._claims.awaits(key):
                    if not ready_until:
                        self._check_first(key, claim.allocation)
                        # From here on only drivers are waited for, longer than for a Binding.
                        ready_until = self._clock.monotonic() + _READY_WITHIN
                    if _is_ready(key, claim.allocation, seen):
                        return
                # A leader whose lease ends must stop binding, so it need not wait longer.
                until = min(ready_until or effort.deadline, effort.fence.until)
                if self._clock.monotonic() >= until:
                    what = "was not made ready" if ready_until else "was not confirmed"
                    raise UnusableError(f"claim {key[1]} {what} in time")
                await wait_until(changed, until, self._clock)

    def _check_first(self, key: ClaimKey, allocation: Allocation) -> None:
        """Raise UnusableError if claims that were allocated earlier left too little for it."""
        ours = self._claims.observed[key].allocated
        for excess in self._devices.excess.of(key, allocation, self._older_than(ours)):
            CLAIM_RACES_LOST.inc()
            raise UnusableError(f"{excess.what} was allocated to another claim before")

    def _older_than(self, version: int) -> Callable[[ClaimKey], bool]:
        """Return a test of claims: true if allocated before that version, or possibly before."""

        def is_older(key: ClaimKey) -> bool:
            seen = self._claims.observed.get(key)
            # `since` is the earliest version possible. In doubt the other claim was first: two that
            # both give way are decided again, two that both stay share a device.
            return seen is not None and 0 < seen.since < version

        return is_older

    def _claim_changed(self, key: ClaimKey) -> None:
        claim = self._devices.claims.get(key)
        if not self._leads or claim is None or claim.allocation is None:
            return
        seen = self._claims.observed[key]
        # Only the event with the allocation reports it, not each later one of the claim.
        if key not in self._users and seen.allocated == seen.version:
            # Not for claims that are being written: these are released if they came second.
            self._report_shared_devices(key, claim.allocation, seen.allocated)

    def _report_shared_devices(self, key: ClaimKey, allocation: Allocation, version: int) -> None:
        """Report claims that share a device to their pods. No pod is evicted for it."""
        for excess in self._devices.excess.of(key, allocation, self._older_than(version)):
            DEVICES_TWICE.inc()
            for each in (key, *sorted(excess.others)[:_TOLD]):
                self._report_shared_device(each, excess.what)

    def _report_shared_device(self, key: ClaimKey, what: str) -> None:
        message = (
            f"{what}, which ResourceClaim {key[1]} has, was allocated to another claim, too, by"
            " another scheduler: give each scheduler nodes or device classes of its own"
        )
        for uid in sorted(self._devices.claims[key].reserved):
            pod = self._state.pods.get(uid)
            # The list of consumers may name the UID of a pod in another namespace.
            if pod is not None and pod.info.namespace == key[0]:
                self._events.pod(pod, "Warning", "DeviceAllocatedTwice", message)

    @contextmanager
    def _used_by(self, key: ClaimKey, pods: list[Pod]) -> Iterator[None]:
        """Register the pods as users of the claim while it is being written."""
        users = self._users.setdefault(key, {})
        users.update((pod.info.uid, pod) for pod in pods)
        try:
            yield
        finally:
            for pod in pods:
                users.pop(pod.info.uid, None)
            if not users:
                self._users.pop(key, None)


def _missing(key: ClaimKey, pods: Iterable[Pod], known: set[str]) -> list[Consumer]:
    """Return the consumers of the claim, for these pods, that are not known yet (UIDs)."""
    found = {it.uid: it for it in (consumer_of(pod, key) for pod in pods)}
    return [each for uid, each in found.items() if uid not in known]


def _conditional(allocation: Allocation) -> bool:
    return any(each.binding_conditions for each in allocation.devices)


def _is_ready(key: ClaimKey, allocation: Allocation, seen: ObservedClaim) -> bool:
    """True if all devices meet their binding conditions. Raises UnusableError if one failed."""
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
