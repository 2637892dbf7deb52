"""Binding of claims with WaitForFirstConsumer as decided, before their pod is bound.

A volume that exists gets a claimRef; a claim whose volume is to be provisioned gets the annotation
selected-node. Kubernetes' volume controllers and provisioners do the rest. As in kube-scheduler
this precedes the Binding: if it fails, the pod returns to the queue and has never run. Nothing that
was written is reverted: the next decision, even another leader's, finds the claim bound.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kube.base.clock import Clock
from kube.base.errors import Conflict, KubeError
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import PVCS, PVS
from kube.concurrency.event_wait import wait_until
from kube.concurrency.fair_queue import FairSemaphore
from kube.concurrency.freeze import Freeze
from kube.leader.election import Fence
from scheduler.core.groups.forest import Pod
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimInfo, ClaimKey
from scheduler.decoding.volume_decode import SELECTED_NODE
from scheduler.support.retry import RETRIABLE, backoff
from scheduler.watch.claim_notifications import ClaimNews

_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""The annotation of a volume whose claimRef a scheduler or controller wrote, not a user."""

REQUESTS: Final = 32
"""Claims and volumes that are read and written at a time. A slow namespace has not all of them."""


@dataclass(slots=True, eq=False)
class _Waiter:
    """One pod that waits for a claim; `seen` once the watch delivered what was written for it."""

    seen: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class _VolumeTakenError(Exception):
    """The volume is bound to another claim by now, or is being deleted."""


class VolumeBinder:
    """The writer that binds the claims of pods that are about to be bound."""

    def __init__(
        self,
        api: Client,
        state: State,
        clock: Clock,
        news: ClaimNews,
        freeze: Freeze | None = None,
    ) -> None:
        """Bind through `api`; `news` are the state's notifications about claims.

        Assumed volumes are not read during a `freeze`: a decision tries others then.
        """
        self._api = api
        self._state = state
        self._volumes = state.volumes
        self._clock = clock
        self._claim_news = news
        self._freeze = freeze or Freeze()
        self._semaphore = FairSemaphore(REQUESTS)

    def unbound(self, pod: Pod) -> list[ClaimKey]:
        """Return the pod's claims that are bound for its node, and are not bound yet."""
        return self._volumes.unbound(pod.info.requirements)

    async def bind_volumes(self, pod: Pod, node: str, deadline: float, fence: Fence) -> str:
        """Bind all claims of the pod for that node; return the problem, or an empty string."""
        keys = self.unbound(pod)
        waiters = {key: _Waiter() for key in keys}
        with ExitStack() as listeners:
            for key, waiter in waiters.items():
                changed = partial(self._claim_changed, key, waiter)
                listeners.enter_context(self._claim_news.listening(key, changed))
            try:
                # All claims are written before any is waited for: their volumes are provisioned
                # side by side.
                for key in keys:
                    await self._assign_with_retry(key, node, deadline, fence)
                for key, waiter in waiters.items():
                    problem = await self._wait_for_bound(key, node, waiter, deadline, fence)
                    if problem:
                        return f'persistentvolumeclaim "{key[1]}" {problem}'
            except (KubeError, _VolumeTakenError) as error:
                return str(error)
        return ""

    def _claim_changed(self, key: ClaimKey, waiter: _Waiter) -> None:
        waiter.seen = waiter.seen or self._is_seen(key)
        waiter.changed.set()

    def _is_seen(self, key: ClaimKey) -> bool:
        """Return whether the watch has delivered what was written for the claim."""
        claim, assumed = self._volumes.claims.get(key), self._volumes.assumed.get(key)
        if claim is None or assumed is None:
            return False
        if not assumed.volume:
            return bool(claim.selected_node)
        volume = self._volumes.volumes.get(assumed.volume)
        return volume is not None and volume.claim == key

    async def _assign_with_retry(
        self, key: ClaimKey, node: str, deadline: float, fence: Fence
    ) -> None:
        """Write what the claim needs; retry while only the connection is at fault.

        Raises KubeError or _VolumeTakenError, at the deadline the error of the last attempt.
        """
        waits = backoff()
        while fence.valid():
            try:
                async with self._semaphore.acquired(key[0]):
                    await self._assign(key, node, fence)
            except (*RETRIABLE, Conflict) as error:
                # After a conflict the next attempt reads the object again.
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise
                await self._clock.sleep(min(waits.next(error), left))
            else:
                return

    async def _assign(self, key: ClaimKey, node: str, fence: Fence) -> None:
        await self._freeze.over()
        claim, assumed = self._volumes.claims.get(key), self._volumes.assumed.get(key)
        if claim is None or claim.volume or assumed is None:
            return  # nothing to write; `_wait_for_bound` reports the reason
        if assumed.volume:
            await self._prebind(assumed.volume, claim, fence)
        else:
            await self._select_node(key, node, fence)

    async def _prebind(self, name: str, claim: ClaimInfo, fence: Fence) -> None:
        volume = await self._api.get(PVS, name)
        patch = _reference(volume, claim)
        # The lease may have been lost while the volume was read.
        if patch and fence.valid():
            await self._api.patch(PVS, name, patch)

    async def _select_node(self, key: ClaimKey, node: str, fence: Fence) -> None:
        claim = await self._api.get(PVCS, key[1], key[0])
        patch = _selection(claim, node)
        if patch and fence.valid():
            await self._api.patch(PVCS, key[1], patch, key[0])

    async def _wait_for_bound(
        self, key: ClaimKey, node: str, waiter: _Waiter, deadline: float, fence: Fence
    ) -> str:
        """Wait until the claim is bound to a volume that the node can use; return the problem."""
        while True:
            await self._freeze.over()
            waiter.changed.clear()
            claim = self._volumes.claims.get(key)
            if claim is None:
                return "is gone"
            if claim.volume in self._volumes.volumes:
                row = self._state.nodes.row_of.get(node, -1)
                fits = self._volumes.reaches(claim.volume, row)
                return "" if fits else f"was bound to {claim.volume}, which {node} cannot use"
            if not claim.volume and self._volumes.assumed.get(key) is None:
                return f"is no longer to be bound for {node}"
            if not claim.volume and waiter.seen and not self._is_seen(key):
                # Provisioners and the volume controller remove the annotation when they fail.
                return f"could not be provisioned for {node}"
            # After the lease is over, the next leader decides what to wait for.
            until = min(deadline, fence.until)
            if self._clock.monotonic() >= until:
                return f"was not bound for {node} in time"
            await wait_until(waiter.changed, until, self._clock)


def _selection(claim: Json, node: str) -> PatchBuilder:
    """Return a patch with the selected-node annotation; empty if the claim has it already."""
    patch = PatchBuilder()
    metadata = claim["metadata"]
    annotations = metadata.get("annotations")
    if annotations and annotations.get(SELECTED_NODE) == node:
        return patch
    patch.at_version(metadata["resourceVersion"])
    # JSON patch adds no key to an object that does not exist.
    if annotations is None:
        patch.add("/metadata/annotations", {})
    return patch.add(pointer("metadata", "annotations", SELECTED_NODE), node)


def _reference(volume: Json, claim: ClaimInfo) -> PatchBuilder:
    """Return a patch with the volume's claimRef, empty if it is there. Raises _VolumeTakenError."""
    patch = PatchBuilder()
    metadata, ref = volume["metadata"], volume["spec"].get("claimRef")
    uid = (ref.get("uid") or "") if ref else ""
    owner = (ref.get("namespace") or "", ref.get("name") or "") if ref else claim.key
    if owner != claim.key or uid not in ("", claim.uid):
        # The message must not name the other claim: it may be another tenant's.
        raise _VolumeTakenError(f'persistentvolume "{metadata["name"]}" is bound to another claim')
    if "deletionTimestamp" in metadata:
        raise _VolumeTakenError(f'persistentvolume "{metadata["name"]}" is being deleted')
    if uid:
        return patch
    # The patch fails if another client takes the volume after it was read.
    patch.at_version(metadata["resourceVersion"])
    if not ref:
        if metadata.get("annotations") is None:
            patch.add("/metadata/annotations", {})
        patch.add(pointer("metadata", "annotations", _BY_CONTROLLER), "yes")
    namespace, name = claim.key
    return patch.add(
        "/spec/claimRef",
        {
            "apiVersion": PVCS.api_version,
            "kind": PVCS.kind,
            "namespace": namespace,
            "name": name,
            "uid": claim.uid,
        },
    )
