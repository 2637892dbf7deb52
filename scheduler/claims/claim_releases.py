"""Release of devices of pods that are not bound after all.

Devices are released in three cases. A pod that loses its assumed node loses what was written for
it. A root that cannot be placed with its devices loses them. And so does a pod that is neither
placed nor refused for a while: an earlier leader may have died after it wrote the claims, and the
group may lack members since. Claims for extended resources were created for one placement, so they
are deleted. kube-controller-manager cleans up the claims of pods that have run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from api.constants import NATIVE_GROUP, NATIVE_POD_GROUP
from kube.base.clock import Clock
from kube.base.errors import Conflict, Invalid, KubeError, NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from kube.concurrency.backoff import Backoff
from kube.concurrency.fair_queue import FairQueue
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimClient, UnusableError
from scheduler.claims.claim_patches import release_patch
from scheduler.claims.extended_resource_claims import ExtendedClaims
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.state import State
from scheduler.core.values.devices import DeviceClaimInfo
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.device_objects import Consumer
from scheduler.support.metrics import CLAIM_WRITES
from scheduler.watch.claim_notifications import ClaimNews

_TRIES: Final = 5
"""Writes of a claim, after conflicts, in one attempt. The next attempt comes after `_LOOK`."""

RELEASES: Final = 16
"""Claims that are released at the same time; others queue."""

_LOOK: Final = 5.0
"""Seconds between two checks for claims of idle pods, and between two attempts to release one."""

IN_VAIN: Final = 30.0
"""Seconds that a waiting pod may keep devices without being placed or refused; then they are
released."""

_released, _deleted, _conflict, _failed = map(
    CLAIM_WRITES.labels, ("released", "deleted", "conflict", "failed")
)

_log = structlog.get_logger()


class ClaimReleases:
    """Releases claims of waiting pods. `reshape` evaluates a pod (UID) with its current claims.

    `news` reports each claim that changes.
    """

    def __init__(
        self,
        access: ClaimClient,
        state: State,
        news: ClaimNews,
        extended: ExtendedClaims,
        *,
        clock: Clock,
        reshape: Callable[[str], None],
    ) -> None:
        self._access = access
        self._state = state
        self._claims = state.devices.claims
        self._extended = extended
        self._clock = clock
        self._reshape = reshape
        self._queued: FairQueue[ClaimKey] = FairQueue(RELEASES)
        self._offered: set[ClaimKey] = set()
        self._idle: dict[ClaimKey, float] = {}
        self._leads = False
        news.subscribe(self._claim_changed)

    def forgotten(self, pod: Pod) -> None:
        """Release what was written for a pod that is no longer assumed."""
        if pod.info.device_claims:
            # Read first: reshape() replaces the pod's claims.
            keys = pod.info.device_claims
            self._reshape(pod.info.uid)
            for key in keys:
                self._offer(key)

    def refused(self, entity: Group | Pod) -> None:
        """Release the devices of a root that cannot be placed with them."""
        for pod in _waiting(entity):
            for key in pod.info.device_claims:
                claim = self._claims.get(key)
                # Not a shared claim that the pod does not consume yet.
                if claim is not None and (pod.info.uid in claim.reserved or _of_group(pod, key)):
                    self._offer(key)

    def lead(self, *, leads: bool) -> None:
        """Record whether this process is the leader. Only the leader releases devices."""
        self._leads = leads

    def reset(self) -> None:
        """Start a new term: check what waiting pods have, whichever scheduler allocated it."""
        self._queued = FairQueue(RELEASES)
        self._offered.clear()
        self._idle.clear()
        now = self._clock.monotonic()
        for pod in list(self._state.pods.values()):
            if pod.info.device_claims and self._is_idle(pod.info.uid):
                self._reshape(pod.info.uid)
                # The full time for each: the new leader has not decided any of them yet.
                self._idle.update((key, now) for key in pod.info.device_claims)
        for key in filter(self._is_unused, list(self._claims)):
            self._offer(key)

    async def run(self, fence: Fence) -> None:
        """Release until cancelled, as long as the lease is valid."""
        self._leads = True
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(RELEASES):
                    group.create_task(self._release_all(fence, group))
                while True:
                    await self._clock.sleep(_LOOK)
                    await self._access.freeze.over()
                    self._release_idle()
        finally:
            self._leads = False

    def _claim_changed(self, key: ClaimKey) -> None:
        if not self._leads:
            # A standby would record each claim that the leader writes, until it is the leader.
            return
        claim = self._claims.get(key)
        if claim is not None and claim.allocation and self._is_kept(key, claim):
            self._idle.setdefault(key, self._clock.monotonic())
        elif self._is_unused(key):
            self._offer(key)

    def _is_unused(self, key: ClaimKey) -> bool:
        """True for an unallocated claim that was created for a waiting pod's extended resources."""
        claim, pod = self._claims.get(key), self._extended.owner(key)
        if claim is None or pod is None or claim.allocation or claim.terminating:
            return False
        return self._is_idle(pod.info.uid)

    def _release_idle(self) -> None:
        """Release what pods keep for long that are neither placed nor refused."""
        now = self._clock.monotonic()
        for key, since in list(self._idle.items()):
            claim = self._claims.get(key)
            if claim is None or not self._is_kept(key, claim):
                del self._idle[key]
            elif now - since >= IN_VAIN:
                # The release may fail, or not be for all consumers: it is checked again then.
                self._idle[key] = now
                self._offer(key)

    def _is_kept(self, key: ClaimKey, claim: DeviceClaimInfo) -> bool:
        """True if a consumer of the claim is a pod of this scheduler that waits, or its group."""
        if any(map(self._is_idle, claim.reserved)):
            return True
        seen = self._access.claims.observed.get(key)
        groups = seen.consumers if seen is not None and key in self._state.devices.of_groups else ()
        return any(self._group_waits(each, key) for each in groups)

    def _group_waits(self, consumer: Consumer, key: ClaimKey) -> bool:
        """True for a native PodGroup that uses the claim and of which no pod has a node."""
        kind = NATIVE_POD_GROUP.full_kind
        group = self._state.forest.groups.get((kind, key[0], consumer.name))
        if consumer.api_group != NATIVE_GROUP or group is None or group.foreign:
            return False
        members = group.members.values()
        own = any(
            it.info.consumer is not None and it.info.consumer.uid == consumer.uid for it in members
        )
        return own and not any(pod.placed for pod in members)

    def _is_idle(self, uid: str) -> bool:
        """True for a pod of this scheduler that waits, or may not be decided."""
        pod = self._state.pods.get(uid)
        return pod is not None and pod.info.ours and not pod.placed and not pod.ended

    def _offer(self, key: ClaimKey) -> None:
        if key not in self._offered:
            self._offered.add(key)
            self._queued.put(key[0], key)

    async def _release_all(self, fence: Fence, group: asyncio.TaskGroup) -> None:
        while True:
            key = await self._queued.get()
            wait = _LOOK
            try:
                wait = await self._release(key, fence)
            except Exception:  # noqa: BLE001 - logged; it is tried again
                _log.exception("failed to release a ResourceClaim", namespace=key[0], claim=key[1])
            self._queued.done(key[0])
            if wait:
                # It remains offered: no other event may repeat it before the server's Retry-After.
                group.create_task(self._put_later(key, wait))
            else:
                self._offered.discard(key)

    async def _put_later(self, key: ClaimKey, wait: float) -> None:
        """Queue the claim after a wait. Nothing else queues it until then."""
        await self._clock.sleep(wait)
        self._queued.put(key[0], key)

    async def _release(self, key: ClaimKey, fence: Fence) -> float:
        """Release the claim of waiting pods. Return seconds until the next attempt (0: none)."""
        async with self._access.locked(key):
            for _ in range(_TRIES):
                await self._access.freeze.over()
                # From the current state each time: a pod that is assumed again keeps its devices.
                patch, extras_shortage = self._patch(key), self._is_unused(key)
                if not (patch or extras_shortage) or not fence.valid():
                    return 0.0
                try:
                    if patch is None:
                        await self._extended.delete(key)
                        _deleted.inc()
                        return 0.0
                    await self._access.patch(key, patch, "status")
                    _released.inc()
                except NotFound:
                    # The watch may have reported the deletion before the claim was known here, so
                    # no other event follows.
                    if extras_shortage:
                        await self._access.forget(key)
                    return 0.0
                except (Conflict, Invalid):
                    _conflict.inc()
                    if wait := await self._read(key):
                        return wait
                except KubeError as error:
                    _failed.inc()
                    problem = str(error)
                    _log.warning(
                        "failed to release a ResourceClaim",
                        namespace=key[0],
                        claim=key[1],
                        error=problem,
                    )
                    return _pause(error)
        return _LOOK

    async def _read(self, key: ClaimKey) -> float:
        """Read what others wrote. Return the seconds until the next attempt, 0 if it succeeded."""
        try:
            await self._access.read(key)
        except (KubeError, UnusableError) as error:
            return _pause(error)
        return 0.0

    def _patch(self, key: ClaimKey) -> PatchBuilder | None:
        claim, seen = self._claims.get(key), self._access.claims.observed.get(key)
        if claim is None or seen is None or claim.allocation is None:
            return None
        left = [each for each in seen.consumers if not self._waits_with(each, key)]
        return release_patch(seen, left) if len(left) < len(seen.consumers) else None

    def _waits_with(self, consumer: Consumer, key: ClaimKey) -> bool:
        """True if the consumer is a waiting pod of this scheduler, in the claim's namespace.

        Or a native group of such pods. Other consumers belong to others, and stay.
        """
        if consumer.api_group:
            return self._group_waits(consumer, key)
        pod = self._state.pods.get(consumer.uid)
        if pod is None or consumer.resource != PODS.plural:
            return False
        return self._is_idle(consumer.uid) and pod.info.namespace == key[0]


def _of_group(pod: Pod, key: ClaimKey) -> bool:
    consumer = pod.info.consumer
    return consumer is not None and key in consumer.claims


def _pause(error: Exception) -> float:
    """Return the seconds between two attempts, or more if the server asks for it."""
    return max(_LOOK, Backoff(first=_LOOK, limit=_LOOK).next(error))


def _waiting(entity: Group | Pod) -> Iterator[Pod]:
    """Yield the waiting pods of a root that may have a claim."""
    if isinstance(entity, Pod):
        yield entity
        return
    for leaf in entity.leaves():
        for shape, pods in leaf.pending.items():
            # Only an allocated or shared claim is requested by key; others have nothing to release.
            if any(isinstance(ask, tuple) for ask in shape.requirements.asks):
                yield from pods.values()
