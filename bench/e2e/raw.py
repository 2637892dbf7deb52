"""The API server's own limit: Bindings from two client processes that do nothing else."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import uvloop

from bench.e2e.objects import PODS, binding
from bench.e2e.wire import Wire, request
from e2e.support import kubeconfig

CONNECTIONS = (16, 48, 96)
_PROCESSES = 2


def bind(access: Path, pods: list[str], nodes: int, connections: int) -> float:
    """Bind these pods, to the last answer; the time at which the first request was sent."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(_PROCESSES)
    shares = [pods[number::_PROCESSES] for number in range(_PROCESSES)]
    each = connections // _PROCESSES
    with context.Pool(_PROCESSES, initializer=_keep, initargs=(barrier,)) as pool:
        work = [(access, share, nodes, each) for share in shares]
        return min(pool.starmap(_bind, work, chunksize=1))


_BARRIERS: list[Barrier] = []


def _keep(barrier: Barrier) -> None:
    """A barrier can only be inherited."""
    _BARRIERS.append(barrier)


def _bind(access: Path, pods: list[str], nodes: int, connections: int) -> float:
    return uvloop.run(_send(access, pods, nodes, connections))


async def _send(access: Path, pods: list[str], nodes: int, connections: int) -> float:
    async with Wire(kubeconfig.read(access), connections) as wire:
        requests = [
            request(wire.access, "POST", f"{PODS}/{pod}/binding", binding(pod, f"n{index % nodes}"))
            for index, pod in enumerate(pods)
        ]
        await asyncio.to_thread(_BARRIERS[0].wait, 60)
        start = time.time()
        await wire.send(requests)
        return start
