"""Claims that wait for their first consumer: has them bound as promised, before their pod is.

A volume that exists is given the claim's reference, a claim whose volume is still to be made the
node's name; Kubernetes' volume controllers and provisioners do the rest. As in kube-scheduler this
comes before the Binding: a pod whose volumes cannot be had there goes back to the queue and has
never run. What was written is not taken back: the volume is the claim's by then, and the next
decision finds it so, be it another leader's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kube.clock import Clock
from kube.election import Fence
from kube.errors import Conflict, KubeError
from kube.meta import Json
from kube.patch import PatchBuilder, pointer
from kube.resources import PVCS, PVS
from scheduler.api_protocols import VolumeBinderApi
from scheduler.core.forest import Pod
from scheduler.core.model import ClaimInfo, ClaimKey
from scheduler.core.state import State
from scheduler.retry import RETRIABLE, retry
from scheduler.waiting import wait_until
from scheduler.watch.volume_decode import SELECTED_NODE

_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Tells the volume controller that the reference was not made by a person, and is its own."""


@dataclass(slots=True, eq=False)
class _Wait:
    """Somebody who waits for a claim; `told`: it, or its volume, was seen with what we wrote."""

    told: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class _TakenError(Exception):
    """The volume is another claim's by now, or about to go."""


class Claims:
    """What has to happen to a pod's claims before it may be bound."""

    def __init__(self, api: VolumeBinderApi, state: State, clock: Clock) -> None:
        self._api = api
        self._state = state
        self._storage = state.storage
        self._clock = clock
        self._waits: dict[ClaimKey, set[_Wait]] = {}
        self._storage.promises.heard = self._hear

    def unbound(self, pod: Pod) -> list[ClaimKey]:
        """Claims that the pod's node decides about."""
        return self._storage.unbound(pod.info.requirements)

    async def settle(self, pod: Pod, node: str, deadline: float, fence: Fence) -> str:
        """Wait until all are bound for that node; what went wrong, or nothing."""
        keys = self.unbound(pod)
        waits = {key: _Wait() for key in keys}
        for key, wait in waits.items():
            self._waits.setdefault(key, set()).add(wait)
        try:
            for key in keys:
                await self._write(key, node, fence)
            for key, wait in waits.items():
                problem = await self._bound(key, node, wait, deadline, fence)
                if problem:
                    return f'persistentvolumeclaim "{key[1]}" {problem}'
        except (KubeError, _TakenError) as error:
            return str(error)
        finally:
            for key, wait in waits.items():
                self._waits[key].discard(wait)
                if not self._waits[key]:
                    del self._waits[key]
        return ""

    def _hear(self, key: ClaimKey) -> None:
        for wait in self._waits.get(key, ()):
            wait.told = wait.told or self._told(key)
            wait.news.set()

    def _told(self, key: ClaimKey) -> bool:
        """Whether what was written for the claim can be seen."""
        claim, promise = self._storage.claims.get(key), self._storage.promises.get(key)
        if claim is None or promise is None:
            return False
        if not promise.volume:
            return bool(claim.selected_node)
        volume = self._storage.volumes.get(promise.volume)
        return volume is not None and volume.claim == key

    async def _write(self, key: ClaimKey, node: str, fence: Fence) -> None:
        """Raises KubeError or _TakenError, but not while only the connection is at fault."""
        request = partial(self._write_once, key, node, fence)
        await retry(request, fence, self._clock, on=(*RETRIABLE, Conflict))

    async def _write_once(self, key: ClaimKey, node: str, fence: Fence) -> None:
        claim, promise = self._storage.claims.get(key), self._storage.promises.get(key)
        if claim is None or claim.volume or promise is None:
            return  # nothing is left to be written; what that means is seen in the end
        if promise.volume:
            await self._give(promise.volume, claim, fence)
        else:
            await self._select(key, node, fence)

    async def _give(self, name: str, claim: ClaimInfo, fence: Fence) -> None:
        volume = await self._api.get(PVS, name)
        patch = _reference(volume, claim)
        if patch and fence.valid():
            await self._api.patch(PVS, name, patch)

    async def _select(self, key: ClaimKey, node: str, fence: Fence) -> None:
        claim = await self._api.get(PVCS, key[1], key[0])
        patch = _selection(claim, node)
        if patch and fence.valid():
            await self._api.patch(PVCS, key[1], patch, key[0])

    async def _bound(
        self, key: ClaimKey, node: str, wait: _Wait, deadline: float, fence: Fence
    ) -> str:
        """Wait until the claim is bound to a volume that the node can use; else what is wrong."""
        while True:
            wait.news.clear()
            claim = self._storage.claims.get(key)
            if claim is None:
                return "is gone"
            if claim.volume in self._storage.volumes:
                row = self._state.nodes.row_of.get(node, -1)
                fits = self._storage.reaches(claim.volume, row)
                return "" if fits else f"was bound to {claim.volume}, out of reach of {node}"
            if not claim.volume and self._storage.promises.get(key) is None:
                return f"is not wanted on {node} any more"
            if not claim.volume and wait.told and not self._told(key):
                # So provisioners say that they cannot, and the controller that it may not.
                return f"can have no volume on {node}"
            until = min(deadline, fence.until)
            if self._clock.monotonic() >= until:
                return f"was not bound for {node} in time"
            await wait_until(wait.news, until, self._clock)


def _selection(claim: Json, node: str) -> PatchBuilder:
    """Nothing where the claim says so already."""
    patch = PatchBuilder()
    metadata = claim["metadata"]
    annotations = metadata.get("annotations")
    if annotations and annotations.get(SELECTED_NODE) == node:
        return patch
    patch.at_version(metadata["resourceVersion"])
    if annotations is None:
        patch.add("/metadata/annotations", {})
    return patch.add(pointer("metadata", "annotations", SELECTED_NODE), node)


def _reference(volume: Json, claim: ClaimInfo) -> PatchBuilder:
    """The volume's reference to the claim; nothing where it is there. Raises _TakenError."""
    patch = PatchBuilder()
    metadata, ref = volume["metadata"], volume["spec"].get("claimRef")
    uid = ref.get("uid", "") if ref else ""
    if ref and ((ref["namespace"], ref["name"]) != claim.key or uid not in ("", claim.uid)):
        of = f"{ref['namespace']}/{ref['name']}"
        raise _TakenError(f'persistentvolume "{metadata["name"]}" is {of}\'s by now')
    if "deletionTimestamp" in metadata:
        raise _TakenError(f'persistentvolume "{metadata["name"]}" is being deleted')
    if uid:
        return patch
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
