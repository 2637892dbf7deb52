"""The API server's own limit: Bindings from two client processes that do nothing else.

Evicting a pod takes two writes: its condition DisruptionTarget, and the deletion. A pod with a
claim takes three writes, one after another: the claim's finalizer, its status with the allocation
and all consumers, if it is not written yet, and the Binding. Pods of gangs may have a Reservation,
stored before their Bindings and deleted after them. If pods wait for a change, that is written,
too: each pod's own change before its Binding.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import uvloop

from api.constants import RESERVATION
from e2e.harness.support import kubeconfig
from e2e.harness.support.kubeconfig import Access
from tools.bench.end_to_end.claims import CLAIMS
from tools.bench.end_to_end.objects import PODS, Json, binding
from tools.bench.end_to_end.wire import JSON, JSON_PATCH, MERGE_PATCH, Wire, request

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
RESERVATIONS_PATH = f"/apis/{RESERVATION.api_version}/{RESERVATION.plural}"
_FINALIZER = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes an object; a PATCH merges, unless it is a list of operations."""

    method: str
    path: str
    body: Json | list[Json] | None = None

    def request(self, access: Access) -> bytes:
        kind = JSON
        if self.method == "PATCH":
            kind = JSON_PATCH if isinstance(self.body, list) else MERGE_PATCH
        return request(access, self.method, self.path, self.body, kind)


@dataclass(frozen=True, slots=True)
class Write:
    """A pod to bind, and the claim whose status is written before; without a name there is none.

    Without a node the pod is evicted instead. A `change` comes before, or alone without a pod.
    """

    pod: str
    node: str = ""
    claim: str = ""
    status: Json | None = None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Lot:
    """Writes of one client, and the Reservation that is stored before them and deleted after.

    Each inner list is written in order, the lists concurrently.
    """

    writes: Sequence[list[Write]]
    reservation: Json | None = None


def shared(writes: Sequence[list[Write]]) -> list[Lot]:
    """Return one lot for each client."""
    return [Lot(writes[number::_PROCESSES]) for number in range(_PROCESSES)]


def send(access: Path, lots: Sequence[Lot], connections: int) -> float:
    """Write all lots; return the time at which the first request was sent."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(_PROCESSES)
    each = connections // _PROCESSES
    with context.Pool(_PROCESSES, initializer=_keep, initargs=(barrier,)) as pool:
        work = [(access, lots[number::_PROCESSES], each) for number in range(_PROCESSES)]
        return min(pool.starmap(_send_share, work, chunksize=1))


_BARRIERS: list[Barrier] = []


def _keep(barrier: Barrier) -> None:
    """Store the barrier, which a process can only inherit."""
    _BARRIERS.append(barrier)


def _send_share(access: Path, lots: Sequence[Lot], connections: int) -> float:
    return uvloop.run(_send(access, lots, connections))


async def _send(access: Path, lots: Sequence[Lot], connections: int) -> float:
    async with Wire(kubeconfig.read(access), connections) as wire:
        prepared = [_PreparedLot(wire, lot) for lot in lots]
        # All clients start together, with prepared requests.
        await asyncio.to_thread(_BARRIERS[0].wait, 60)
        start = time.time()
        stored = asyncio.create_task(_store(prepared))
        await asyncio.gather(*(_work(prepared) for _ in range(connections)))
        await stored
        return start


async def _store(lots: Sequence[_PreparedLot]) -> None:
    for lot in lots:
        await lot.store()


async def _work(lots: Sequence[_PreparedLot]) -> None:
    for lot in lots:
        await lot.stored.wait()
        for chain in lot.left:
            for write in chain:
                await write.send(lot.wire)
            await lot.finished_one()


class _PreparedLot:
    """The requests of a lot, those that are `left` from the first."""

    def __init__(self, wire: Wire, lot: Lot) -> None:
        self.wire = wire
        self.stored = asyncio.Event()
        self._unfinished = len(lot.writes)
        prepared = [[_Prepared(wire, write) for write in chain] for chain in lot.writes]
        self.left: Iterator[list[_Prepared]] = iter(prepared)
        self._around: list[bytes] = []
        if lot.reservation is not None:
            path = f"{RESERVATIONS_PATH}/{lot.reservation['metadata']['name']}"
            self._around = [
                request(wire.access, "POST", RESERVATIONS_PATH, lot.reservation),
                request(wire.access, "DELETE", path),
            ]

    async def store(self) -> None:
        """Store the Reservation, before any of its writes."""
        if self._around:
            await self.wire.call(self._around[0])
        self.stored.set()

    async def finished_one(self) -> None:
        """Count a finished write; delete the Reservation after the last one."""
        self._unfinished -= 1
        if self._around and not self._unfinished:
            await self.wire.call(self._around[1])


class _Prepared:
    """The requests for one pod, created before the measurement starts."""

    def __init__(self, wire: Wire, write: Write) -> None:
        access = wire.access
        self._write = write
        self._before: list[bytes] = []
        if write.change is not None:
            self._before = [write.change.request(access)]
        elif not write.node:
            path = f"{PODS}/{write.pod}"
            self._before = [
                request(access, "PATCH", f"{path}/status", _MARK, JSON_PATCH),
                request(access, "DELETE", path),
            ]
        path = f"{PODS}/{write.pod}/binding"
        self._binding = request(access, "POST", path, binding(write.pod, write.node))
        finalizer = [{"op": "add", "path": "/metadata/finalizers", "value": [_FINALIZER]}]
        path = f"{CLAIMS}/{write.claim}"
        self._finalizer = request(access, "PATCH", path, finalizer, JSON_PATCH)

    async def send(self, wire: Wire) -> None:
        for sent in self._before:
            await wire.call(sent)
        if not self._write.node:
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
