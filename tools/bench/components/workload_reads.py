"""What LIST and WATCH of Workloads cost the API server (KEP-4671, Scalability).

   python -m tools.bench.components.workload_reads --record

It creates Workloads as Muster makes them on a real control plane, in rounds with and without
`WATCHES` connections that watch them, and lists all of them. Costs are processor time of
kube-apiserver.
`--record` stores the results and updates docs/scale.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import asdict
from typing import Final

import msgspec
from msgspec import Struct, field

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.objects import WORKLOADS
from e2e.harness.support import definitions, manifests
from e2e.harness.support.rest import Rest
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import CRDS, NAMESPACES
from tools.bench import page
from tools.bench.components.created import AT_ONCE
from tools.bench.decisions.supported import created_workload
from tools.bench.end_to_end.usage import cpu_seconds, idle
from tools.bench.report import workload_reads_results
from tools.bench.report.workload_reads_results import WorkloadReads

WATCHES: Final = 64
"""Connections that watch. An installation with two replicas of each process has six."""

_LISTS: Final = 5
_ROUNDS: Final = 3
_NAMESPACES: Final = 10
_SECONDS: Final = 120.0
"""Seconds until each watch must have each event; then the measurement fails."""


class _Meta(Struct):
    version: str = field(name="resourceVersion")


class _Object(Struct):
    metadata: _Meta


class _Event(Struct):
    object: _Object


class Watch:
    """A connection that reads the events of Workloads as they come."""

    def __init__(self, expected: int) -> None:
        self.bytes = 0
        self.complete = asyncio.Event()
        self._left = expected

    async def follow(self, client: Client, version: str) -> None:
        # The server ends the watches of a kind shortly after its CRD was created.
        while not self.complete.is_set():
            params = {"watch": "true", "resourceVersion": version}
            async with aclosing(client.watch_lines(WORKLOADS.path(None), params)) as lines:
                async for line in lines:
                    version = msgspec.json.decode(line, type=_Event).object.metadata.version
                    self.bytes += len(line)
                    self._left -= 1
                    if not self._left:
                        self.complete.set()


async def measure(count: int, watches: int) -> WorkloadReads:
    """Return the costs, by rounds of `count` Workloads. Raises TimeoutError if events are lost."""
    size = 0
    async with _cluster() as (plane, client):
        server = plane.processes["kube-apiserver"].pid
        for number in range(_NAMESPACES):
            body = {"apiVersion": "v1", "kind": "Namespace"}
            await client.create(NAMESPACES, body | {"metadata": {"name": f"team-{number}"}})
        await idle([server])
        costs: dict[int, float] = {0: 0.0, watches: 0.0}
        # The first round warms up. The others take turns: a server that runs longer is faster.
        for number in range(2 * _ROUNDS + 1):
            version = (await client.list(WORKLOADS))["metadata"]["resourceVersion"]
            numbers, connections = (
                range(number * count, (number + 1) * count),
                watches * (number % 2),
            )
            async with _followed(plane, version, count, connections) as followed:
                cost = await _created(client, server, numbers, followed)
            costs[connections] += cost if number else 0.0
            size = followed[0].bytes // count if followed else size
        begun, before = time.perf_counter(), cpu_seconds(server)
        for _ in range(_LISTS):
            listed = await client.list(WORKLOADS)
        seconds, cost = time.perf_counter() - begun, cpu_seconds(server) - before
    assert len(listed["items"]) == count * (2 * _ROUNDS + 1)
    alone, watched = (cost / (_ROUNDS * count) for cost in costs.values())
    return WorkloadReads(
        workloads=len(listed["items"]),
        bytes=size,
        create_ms=round(alone * 1e3, 3),
        watch_us=round((watched - alone) / watches * 1e6, 1),
        list_seconds=round(seconds / _LISTS, 3),
        list_cpu_seconds=round(cost / _LISTS, 3),
    )


@asynccontextmanager
async def _cluster() -> AsyncIterator[tuple[ControlPlane, Client]]:
    plane = ControlPlane(Options())
    try:
        await plane.start()
        # Without the webhook configurations: nothing of Muster runs beside what is measured.
        async with Rest.open(plane.kubeconfig) as rest:
            kinds = [obj for obj in manifests.load() if obj["kind"] == CRDS.kind]
            await manifests.create(rest, kinds)
            await definitions.served(rest, *(obj["metadata"]["name"] for obj in kinds))
        async with await Client.connect(plane.kubeconfig) as client:
            yield plane, client
    finally:
        await plane.stop()


@asynccontextmanager
async def _followed(
    plane: ControlPlane, version: str, events: int, number: int
) -> AsyncIterator[list[Watch]]:
    watches = [Watch(events) for _ in range(number)]
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(await Client.connect(plane.kubeconfig)) for _ in watches
        ]
        # A watch that ends early ends the measurement with its error.
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(watch.follow(client, version))
                for watch, client in zip(watches, clients, strict=True)
            ]
            yield watches
            for task in tasks:
                task.cancel()


async def _created(
    client: Client, server: int, numbers: range, watches: Sequence[Watch] = ()
) -> float:
    """Create the Workloads, and wait for the events. Return the server's processor seconds."""
    before = cpu_seconds(server)
    rest = iter(numbers)
    await asyncio.gather(*(_create(client, rest) for _ in range(AT_ONCE)))
    async with asyncio.timeout(_SECONDS):
        for watch in watches:
            await watch.complete.wait()
    return cpu_seconds(server) - before


async def _create(client: Client, numbers: Iterator[int]) -> None:
    for number in numbers:
        await client.create(WORKLOADS, _workload(number))


def _workload(number: int) -> Json:
    made = created_workload(number)
    made["metadata"] |= {"name": f"w-{number}", "namespace": f"team-{number % _NAMESPACES}"}
    return made


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", type=int, default=1_500, help="of each of the seven rounds")
    parser.add_argument("--watches", type=int, default=WATCHES)
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    options = parser.parse_args()
    found = asyncio.run(measure(options.workloads, options.watches))
    print(json.dumps(asdict(found), indent=1))
    if options.record:
        workload_reads_results.keep(found)
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
