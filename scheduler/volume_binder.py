"""Claims that wait for their first consumer: has them bound as promised, before their pod is.

A volume that exists is given the claim's reference, a claim whose volume is still to be made the
node's name; Kubernetes' volume controllers and provisioners do the rest. As in kube-scheduler this
comes before the Binding: a pod whose volumes cannot be had there goes back to the queue and has
never run. What was written is not taken back: the volume is the claim's by then, and the next
decision finds it so, be it another leader's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from kube.backoff import Backoff
from kube.clock import Clock
from kube.election import Fence
from kube.errors import Conflict, KubeError
from kube.meta import Json
from kube.patch import Operation, PatchBuilder, pointer
from kube.resources import PVCS, PVS, Resource
from scheduler.api_protocols import LATER
from scheduler.core.forest import Pod
from scheduler.core.model import ClaimInfo, ClaimKey
from scheduler.core.state import State
from scheduler.watch.volumes import SELECTED_NODE

_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Tells the volume controller that the reference was not made by a person, and is its own."""


class Api(Protocol):
    """Reading and patching claims and volumes. Raises kube.errors."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json: ...


@dataclass(slots=True, eq=False)
class _Wait:
    """Somebody who waits for a claim; `told`: it, or its volume, was seen with what we wrote."""

    told: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class _TakenError(Exception):
    """The volume is another claim's by now, or about to go."""


class ClaimNews:
    """Passes on which claims changed; `changed` is what the state is made with."""

    def __init__(self) -> None:
        self._listeners: dict[ClaimKey, set[Callable[[], None]]] = {}

    def changed(self, key: ClaimKey) -> None:
        """Something is new about the claim, its volume, or what is assumed for it."""
        for listener in tuple(self._listeners.get(key, ())):
            listener()

    @contextmanager
    def heard(self, key: ClaimKey, listener: Callable[[], None]) -> Iterator[None]:
        """Inside, the listener is called with each change of the claim."""
        self._listeners.setdefault(key, set()).add(listener)
        try:
            yield
        finally:
            self._listeners[key].discard(listener)
            if not self._listeners[key]:
                del self._listeners[key]


class VolumeBinder:
    """What has to happen to a pod's claims before it may be bound."""

    def __init__(self, api: Api, state: State, clock: Clock, news: ClaimNews) -> None:
        """`news` is what the state tells of claims."""
        self._api = api
        self._state = state
        self._volumes = state.volumes
        self._clock = clock
        self._claim_news = news

    def unbound(self, pod: Pod) -> list[ClaimKey]:
        """Claims that the pod's node decides about."""
        return self._volumes.unbound(pod.info.requirements)

    async def settle(self, pod: Pod, node: str, deadline: float, fence: Fence) -> str:
        """Wait until all are bound for that node; what went wrong, or nothing."""
        keys = self.unbound(pod)
        waits = {key: _Wait() for key in keys}
        with ExitStack() as listening:
            for key, wait in waits.items():
                listening.enter_context(self._claim_news.heard(key, partial(self._hear, key, wait)))
            try:
                for key in keys:
                    await self._write(key, node, fence)
                for key, wait in waits.items():
                    problem = await self._bound(key, node, wait, deadline, fence)
                    if problem:
                        return f'persistentvolumeclaim "{key[1]}" {problem}'
            except (KubeError, _TakenError) as error:
                return str(error)
        return ""

    def _hear(self, key: ClaimKey, wait: _Wait) -> None:
        wait.told = wait.told or self._told(key)
        wait.news.set()

    def _told(self, key: ClaimKey) -> bool:
        """Whether what was written for the claim can be seen."""
        claim, assumed = self._volumes.claims.get(key), self._volumes.assumed.get(key)
        if claim is None or assumed is None:
            return False
        if not assumed.volume:
            return bool(claim.selected_node)
        volume = self._volumes.volumes.get(assumed.volume)
        return volume is not None and volume.claim == key

    async def _write(self, key: ClaimKey, node: str, fence: Fence) -> None:
        """Raises KubeError or _TakenError, but not while only the connection is at fault."""
        backoff = Backoff(first=0.1, limit=5.0)
        while fence.valid():
            claim, assumed = self._volumes.claims.get(key), self._volumes.assumed.get(key)
            if claim is None or claim.volume or assumed is None:
                return  # nothing is left to be written; what that means is seen in the end
            try:
                if assumed.volume:
                    await self._give(assumed.volume, claim, fence)
                else:
                    await self._select(key, node, fence)
            except (*LATER, Conflict):
                await self._clock.sleep(backoff.next())
            else:
                return

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
            claim = self._volumes.claims.get(key)
            if claim is None:
                return "is gone"
            if claim.volume in self._volumes.volumes:
                row = self._state.nodes.row_of.get(node, -1)
                fits = self._volumes.reaches(claim.volume, row)
                return "" if fits else f"was bound to {claim.volume}, out of reach of {node}"
            if not claim.volume and self._volumes.assumed.get(key) is None:
                return f"is not wanted on {node} any more"
            if not claim.volume and wait.told and not self._told(key):
                # So provisioners say that they cannot, and the controller that it may not.
                return f"can have no volume on {node}"
            until = min(deadline, fence.until)
            if self._clock.monotonic() >= until:
                return f"was not bound for {node} in time"
            await self._news(wait, until)

    async def _news(self, wait: _Wait, until: float) -> None:
        news = asyncio.ensure_future(wait.news.wait())
        timer = asyncio.ensure_future(self._clock.sleep(until - self._clock.monotonic()))
        try:
            await asyncio.wait({news, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            timer.cancel()


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
