"""Early writer of finalizers: a pod's own ResourceClaim gets it as soon as it exists.

The finalizer is the first of three writes that a pod with a claim needs one after the other, and
commits to nothing. kube-controller-manager first names a new claim in its pod's status, and only
then the pod is decided, so the finalizer is nearly always written by then. A failed write is
repeated with the allocation (`allocation_writer`).

Claims that exist when this process becomes the leader are left to the allocation. So are claims for
extended resources, which are created with the finalizer.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from kube.base.errors import KubeError
from kube.concurrency.fair_queue import FairQueue
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimClient, UnusableError
from scheduler.claims.claim_patches import FINALIZER, finalizer_patch
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimKey
from scheduler.support.metrics import CLAIM_WRITES
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.device_handlers import ObservedClaim

FINALIZERS: Final = 8
"""Claims that get their finalizers at once; others queue. Few, so that allocations come first."""

_log = structlog.get_logger()

_finalized = CLAIM_WRITES.labels("finalizer")


class ClaimFinalizers:
    """Writer of finalizers. `news` reports each claim that changes."""

    def __init__(self, access: ClaimClient, state: State, news: ClaimNews) -> None:
        self._access = access
        self._state = state
        self._queued: FairQueue[ClaimKey] = FairQueue(FINALIZERS)
        self._known: set[ClaimKey] = set()
        self._leads = False
        news.subscribe(self._claim_changed)

    async def run(self, fence: Fence) -> None:
        """Write until cancelled, as long as the lease is valid."""
        # A new queue for each term: keys of an earlier term are not written.
        self._queued, self._leads = FairQueue(FINALIZERS), True
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(FINALIZERS):
                    group.create_task(self._work(fence))
        finally:
            self._leads = False
            self._known.clear()

    def _claim_changed(self, key: ClaimKey) -> None:
        # Not in a standby, which would keep every claim until it is the leader.
        if (
            self._leads
            and key not in self._known
            and self._claim_without_finalizer(key) is not None
        ):
            self._known.add(key)
            self._queued.put(key[0], key)

    def _claim_without_finalizer(self, key: ClaimKey) -> ObservedClaim | None:
        """Return the claim if a waiting pod here owns it and it lacks the finalizer."""
        claim, seen = self._state.devices.claims.get(key), self._access.claims.observed.get(key)
        if claim is None or seen is None or claim.terminating or claim.allocation is not None:
            return None
        pod = self._state.pods.get(claim.owner)
        if pod is None or not pod.info.ours or pod.placed or pod.ended:
            return None
        return seen if FINALIZER not in seen.finalizers else None

    async def _work(self, fence: Fence) -> None:
        while True:
            key = await self._queued.get()
            try:
                await self._write(key, fence)
            except (KubeError, UnusableError) as error:
                _log.info("failed to write a finalizer", claim="/".join(key), error=str(error))
            except Exception:  # noqa: BLE001 - logged; it is written with the allocation
                _log.exception("failed to write a finalizer", claim="/".join(key))
            finally:
                self._known.discard(key)
                self._queued.done(key[0])

    async def _write(self, key: ClaimKey, fence: Fence) -> None:
        async with self._access.locked(key):
            await self._access.freeze.over()
            # Asked again: while it was queued the pod may have gone, or the allocation was faster.
            seen = self._claim_without_finalizer(key)
            if seen is not None and fence.valid():
                await self._access.patch(key, finalizer_patch(seen), None)
                _finalized.inc()
