"""The API server's own limit: Bindings from two client processes that do nothing else.

Evicting a pod takes two: its condition DisruptionTarget, and the deletion.
A pod with a claim takes three writes, one after the other: the claim's finalizer, its status with
the allocation and all consumers, if nobody wrote that yet, and the Binding.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import uvloop

from bench.e2e.claims import CLAIMS
from bench.e2e.objects import PODS, Json, binding
from bench.e2e.wire import JSON_PATCH, Wire, request
from e2e.support import kubeconfig

CONNECTIONS = (16, 48, 96)
_PROCESSES = 2


_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_MARK = [
    {
        "op": "add",
        "path": "/status/conditions",
        "value": [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "bench: preempted for a pod of priority 1000",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
]
_FINALIZER = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True, slots=True)
class Write:
    """A pod to bind, and the claim that is given the status before; no name: there is none.

    Without a node it is evicted instead.
    """

    pod: str
    node: str = ""
    claim: str = ""
    status: Json | None = None


def bind(access: Path, writes: list[list[Write]], connections: int) -> float:
    """Write all of this, to the last answer; the time at which the first request was sent.

    Each inner list is written in order, these lists side by side.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(_PROCESSES)
    shares = [writes[number::_PROCESSES] for number in range(_PROCESSES)]
    each = connections // _PROCESSES
    with context.Pool(_PROCESSES, initializer=_keep, initargs=(barrier,)) as pool:
        work = [(access, share, each) for share in shares]
        return min(pool.starmap(_bind, work, chunksize=1))


_BARRIERS: list[Barrier] = []


def _keep(barrier: Barrier) -> None:
    """A barrier can only be inherited."""
    _BARRIERS.append(barrier)


def _bind(access: Path, writes: list[list[Write]], connections: int) -> float:
    return uvloop.run(_send(access, writes, connections))


async def _send(access: Path, writes: list[list[Write]], connections: int) -> float:
    async with Wire(kubeconfig.read(access), connections) as wire:
        prepared = [[_Prepared(wire, write) for write in lot] for lot in writes]
        await asyncio.to_thread(_BARRIERS[0].wait, 60)
        start = time.time()
        left = iter(prepared)
        await asyncio.gather(*(_work(wire, left) for _ in range(connections)))
        return start


async def _work(wire: Wire, left: Iterator[Iterable[_Prepared]]) -> None:
    for lot in left:
        for write in lot:
            await write.send(wire)


class _Prepared:
    """The requests for one pod, made before the time is taken."""

    def __init__(self, wire: Wire, write: Write) -> None:
        access = wire.access
        self._write = write
        self._evicting: list[bytes] = []
        if not write.node:
            path = f"{PODS}/{write.pod}"
            self._evicting = [
                request(access, "PATCH", f"{path}/status", _MARK, JSON_PATCH),
                request(access, "DELETE", path),
            ]
        path = f"{PODS}/{write.pod}/binding"
        self._binding = request(access, "POST", path, binding(write.pod, write.node))
        finalizer = [{"op": "add", "path": "/metadata/finalizers", "value": [_FINALIZER]}]
        path = f"{CLAIMS}/{write.claim}"
        self._finalizer = request(access, "PATCH", path, finalizer, JSON_PATCH)

    async def send(self, wire: Wire) -> None:
        if self._evicting:
            for sent in self._evicting:
                await wire.call(sent)
            return
        if self._write.claim:
            found = _VERSION.search(await wire.call(self._finalizer))
            assert found is not None
            await wire.call(self._status(wire, found[1].decode()))
        await wire.call(self._binding)

    def _status(self, wire: Wire, version: str) -> bytes:
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": self._write.status},
        ]
        path = f"{CLAIMS}/{self._write.claim}/status"
        return request(wire.access, "PATCH", path, patch, JSON_PATCH)
