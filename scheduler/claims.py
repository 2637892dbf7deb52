"""Claims that wait for their first consumer: tells them the node, waits until they are bound.

As in kube-scheduler this comes before the Binding: a pod whose volume cannot be made there goes
back to the queue and has never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from kube.backoff import Backoff
from kube.clock import Clock
from kube.election import Fence
from kube.errors import KubeError
from kube.meta import Json
from kube.patch import Operation, PatchBuilder, pointer
from kube.resources import PVCS, Resource
from scheduler.core.forest import Pod
from scheduler.core.state import State
from scheduler.core.values import ClaimKey
from scheduler.ports import LATER
from scheduler.storage import SELECTED_NODE

_LOOK: Final = 0.5
"""Seconds between two looks at whether the claims are bound."""


class Api(Protocol):
    """Reading and patching claims. Raises kube.errors."""

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


class Claims:
    """What has to happen to a pod's claims before it may be bound."""

    def __init__(self, api: Api, state: State, clock: Clock) -> None:
        self._api = api
        self._state = state
        self._clock = clock

    def unbound(self, pod: Pod) -> list[ClaimKey]:
        """Claims that the pod's node decides about."""
        return self._state.storage.unbound(pod.info.requirements)

    async def settle(self, pod: Pod, node: str, deadline: float, fence: Fence) -> str:
        """Wait until all are bound for that node; what went wrong, or nothing."""
        try:
            for key in self.unbound(pod):
                await self._select(key, node, fence)
        except KubeError as error:
            return str(error)
        told: set[ClaimKey] = set()
        while waiting := self.unbound(pod):
            for key in waiting:
                if self._state.storage.claims[key].selected_node:
                    told.add(key)
                elif key in told:
                    # So a provisioner says that it cannot; elsewhere it may.
                    return f'no volume could be made for persistentvolumeclaim "{key[1]}" on {node}'
            if self._clock.monotonic() >= deadline or not fence.valid():
                return f'persistentvolumeclaim "{waiting[0][1]}" was not bound for {node} in time'
            await self._clock.sleep(_LOOK)
        return ""

    async def _select(self, key: ClaimKey, node: str, fence: Fence) -> None:
        """Raises KubeError if the claim cannot be told."""
        namespace, name = key
        backoff = Backoff(first=0.1, limit=5.0)
        while fence.valid():
            try:
                claim = await self._api.get(PVCS, name, namespace)
                if fence.valid():
                    await self._api.patch(PVCS, name, _selection(claim, node), namespace)
            except LATER:
                await self._clock.sleep(backoff.next())
            else:
                return


def _selection(claim: Json, node: str) -> PatchBuilder:
    patch = PatchBuilder()
    metadata = claim["metadata"]
    if "resourceVersion" in metadata:
        patch.at_version(metadata["resourceVersion"])
    if "annotations" not in metadata:
        patch.add("/metadata/annotations", {})
    return patch.add(pointer("metadata", "annotations", SELECTED_NODE), node)
