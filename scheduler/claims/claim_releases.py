"""Gives devices back that pods hold which are not bound after all.

What was written for a pod that gives its place back is cleared. So is what pods hold whose root
cannot be placed with it, and what pods hold that are neither placed nor refused for a while: an
earlier leader may have died after it wrote their claims, and they may lack members since. Claims
for extended resources, which were made for a placement, are deleted then. Claims of pods that have
run are kube-controller-manager's to clean up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from kube.base.clock import Clock
from kube.base.errors import Conflict, Invalid, KubeError, NotFound
from kube.client.patch import PatchBuilder
from kube.concurrency.backoff import Backoff
from kube.concurrency.fair_queue import FairQueue
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimAccess, UnusableError
from scheduler.claims.claim_patches import release_patch
from scheduler.claims.extended_resource_claims import ExtendedClaims
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimKey
from scheduler.support.metrics import CLAIM_WRITES
from scheduler.watch.claim_notifications import ClaimNews

_TRIES: Final = 5
"""How often a claim is read and written again that others wrote to meanwhile."""

RELEASES: Final = 16
"""Claims that are released at the same time."""

_LOOK: Final = 5.0
"""Seconds between two looks for claims that are held in vain, and between two tries."""

IN_VAIN: Final = 30.0
"""Seconds for which a pod that waits may hold devices, without being placed or refused."""

_released, _deleted, _conflict, _failed = map(
    CLAIM_WRITES.labels, ("released", "deleted", "conflict", "failed")
)

_log = structlog.get_logger()


class ClaimReleases:
    """Frees claims of waiting pods. `reshape` counts such a pod (UID) with its claims as they are.

    `news` is told of each claim that changes.
    """

    def __init__(
        self,
        access: ClaimAccess,
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
        """The pod is not assumed any more: what was written for it is given back."""
        if pod.info.device_claims:
            keys = pod.info.device_claims
            self._reshape(pod.info.uid)
            for key in keys:
                self._offer(key)

    def refused(self, entity: Group | Pod) -> None:
        """The root cannot be placed with the devices that its waiting pods have."""
        for pod in _waiting(entity):
            for key in pod.info.device_claims:
                claim = self._claims.get(key)
                if claim is not None and pod.info.uid in claim.reserved:
                    self._offer(key)

    def lead(self, *, leads: bool) -> None:
        """Whether this process leads: only then it gives back what waiting pods hold."""
        self._leads = leads

    def reset(self) -> None:
        """Begin a new term: look at what waiting pods hold, whoever gave it to them."""
        self._queued = FairQueue(RELEASES)
        self._offered.clear()
        self._idle.clear()
        now = self._clock.monotonic()
        for pod in list(self._state.pods.values()):
            if pod.info.device_claims and self._is_idle(pod.info.uid):
                self._reshape(pod.info.uid)
                self._idle.update((key, now) for key in pod.info.device_claims)
        for key in filter(self._is_left_over, list(self._claims)):
            self._offer(key)

    async def run(self, fence: Fence) -> None:
        """Give back while the lease is held; until cancelled."""
        self._leads = True
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(RELEASES):
                    group.create_task(self._release_all(fence, group))
                while True:
                    await self._clock.sleep(_LOOK)
                    await self._access.freeze.over()
                    self._look_for_idle()
        finally:
            self._leads = False

    def _claim_changed(self, key: ClaimKey) -> None:
        if not self._leads:
            return  # of what the leader writes nothing is noted: nobody would look at it
        claim = self._claims.get(key)
        if claim is not None and claim.allocation and any(map(self._is_idle, claim.reserved)):
            self._idle.setdefault(key, self._clock.monotonic())
        elif self._is_left_over(key):
            self._offer(key)

    def _is_left_over(self, key: ClaimKey) -> bool:
        """Whether it was made for extended resources of a pod that waits, and has no allocation."""
        claim, pod = self._claims.get(key), self._extended.owner(key)
        if claim is None or pod is None or claim.allocation or claim.terminating:
            return False
        return self._is_idle(pod.info.uid)

    def _look_for_idle(self) -> None:
        """Give back what pods have held for long that are neither placed nor refused."""
        now = self._clock.monotonic()
        for key, since in list(self._idle.items()):
            claim = self._claims.get(key)
            if claim is None or not any(map(self._is_idle, claim.reserved)):
                del self._idle[key]
            elif now - since >= IN_VAIN:
                self._idle[key] = now
                self._offer(key)

    def _is_idle(self, uid: str) -> bool:
        """Whether this is a pod of ours that waits, or may not be decided."""
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
                _log.exception("ResourceClaim not given back", namespace=key[0], claim=key[1])
            self._queued.done(key[0])
            if wait:
                group.create_task(self._put_later(key, wait))
            else:
                self._offered.discard(key)

    async def _put_later(self, key: ClaimKey, wait: float) -> None:
        """Until then nobody else offers it."""
        await self._clock.sleep(wait)
        self._queued.put(key[0], key)

    async def _release(self, key: ClaimKey, fence: Fence) -> float:
        """Free the claim of pods that wait; after how many seconds to try again (0: never)."""
        async with self._access.locked(key):
            for _ in range(_TRIES):
                await self._access.freeze.over()
                patch, left_over = self._patch(key), self._is_left_over(key)
                if not (patch or left_over) or not fence.valid():
                    return 0.0
                try:
                    if patch is None:
                        await self._extended.delete(key)
                        _deleted.inc()
                        return 0.0
                    await self._access.patch(key, patch, "status")
                    _released.inc()
                except NotFound:
                    if left_over:
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
                        "ResourceClaim not given back",
                        namespace=key[0],
                        claim=key[1],
                        problem=problem,
                    )
                    return _pause(error)
        return _LOOK

    async def _read(self, key: ClaimKey) -> float:
        """After how many seconds what others wrote may be known (0: it is)."""
        try:
            await self._access.read(key)
        except (KubeError, UnusableError) as error:
            return _pause(error)
        return 0.0

    def _patch(self, key: ClaimKey) -> PatchBuilder | None:
        claim, seen = self._claims.get(key), self._access.claims.observed.get(key)
        if claim is None or seen is None or claim.allocation is None:
            return None
        left = [
            each
            for each in seen.consumers
            if each.api_group or each.resource != "pods" or not self._waits_with(each.uid, key)
        ]
        return release_patch(seen, left) if len(left) < len(seen.consumers) else None

    def _waits_with(self, uid: str, key: ClaimKey) -> bool:
        """Whether the consumer is a pod of ours that waits, of the claim's namespace."""
        pod = self._state.pods.get(uid)
        return pod is not None and self._is_idle(uid) and pod.info.namespace == key[0]


def _pause(error: Exception) -> float:
    """As long as between two looks, or longer if the server asks for that."""
    return max(_LOOK, Backoff(first=_LOOK, limit=_LOOK).next(error))


def _waiting(entity: Group | Pod) -> Iterator[Pod]:
    """The waiting pods of a root that may hold a claim."""
    if isinstance(entity, Pod):
        yield entity
        return
    for leaf in entity.leaves():
        for shape, pods in leaf.pending.items():
            if any(isinstance(ask, tuple) for ask in shape.requirements.asks):
                yield from pods.values()
