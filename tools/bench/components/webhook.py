"""The webhook next to a bare FastAPI route: python -m tools.bench.components.webhook [--seconds N]

The bare route parses the same review with the same model and returns "allowed". The same listener
serves both over TLS, each in a process of its own, in turns on the same machine in the same run. If
there are two cores, server and client have one each. It fails if Muster responds at less than
SHARE_WANTED of the bare route's rate, or if its P99 at 100/s is not under P99_WANTED_MS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from operator import truediv
from pathlib import Path
from typing import Any

import uvloop
from fastapi import FastAPI, Request, Response
from starlette.applications import Starlette

from api import features
from api.integration.common.native import MUSTER_ONLY
from api.integration.common.workloads import OwnerName
from api.membership import Owners
from api.priority import PriorityClass
from api.scheduler_names import USUAL
from certs.authority import new_material
from certs.context import client_context, server_context
from certs.material import Material, ServerNames
from kube.client.meta import Identity
from webhooks.cache.informers import GroupObject
from webhooks.reviews.review import AdmissionResponse, decode, encode
from webhooks.routing.reviewer import Reviewer
from webhooks.server.readiness import SERVING, Readiness
from webhooks.server.routes import build
from webhooks.server.server import Listener, bound

ROUNDS = 5
CONNECTIONS = 16
RATE = 100.0
SHARE_WANTED = 0.8
P99_WANTED_MS = 10.0
ROUTES = ("mutate/podgroups", "validate/podgroups")
BARE, MUSTER = "bare route", "muster"
FULL, STEADY = "saturated", "100/s"


class StaticLister:
    """A lister with constant content."""

    # ruff: noqa: ARG002 - it returns the same for every name

    scheduler_names = USUAL
    gates = features.USUAL
    native = False
    native_api = MUSTER_ONLY

    def priority_classes(self) -> Sequence[PriorityClass]:
        return (PriorityClass("high", 1000), PriorityClass("usual", 10, global_default=True))

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 8}}}
        return {"spec": {"podGroupTemplates": [template]}}

    def workload_of_user(self, namespace: str, owner: OwnerName) -> None:
        return None

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> None:
        return None

    def composite(self, namespace: str, name: str) -> GroupObject | None:
        return GroupObject(Identity(), None, deleting=False, parent="", claims={})

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        return False

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        return False

    def shared_claims(self, namespace: str, pod_group: str) -> dict[str, str]:
        return {}


def review() -> bytes:
    """Return the creation of a PodGroup as a controller sends it, about 2 KB."""
    kind = {"group": "scheduling.muster.dev", "version": "v1alpha3"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "training", "uid": "3f2c" * 9}
    fields: dict[str, Any] = {f"f:field-{number}": {} for number in range(20)}
    group = {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "PodGroup",
        "metadata": {
            "name": "pg-job-training",
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "muster"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            "managedFields": [{"manager": "muster", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "workloadRef": {"workloadName": "w-job-training", "templateName": "workers"},
            "schedulingPolicy": {"gang": {"minCount": 8}},
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "priorityClassName": "high",
        },
    }
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {**kind, "kind": "PodGroup"},
        "resource": {**kind, "resource": "podgroups"},
        "requestKind": {**kind, "kind": "PodGroup"},
        "requestResource": {**kind, "resource": "podgroups"},
        "name": "pg-job-training",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:muster-system:muster-controller"},
        "object": group,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**envelope, "request": request}).encode()


def bare() -> FastAPI:
    """Return the least that any FastAPI webhook has to do."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    allowed = AdmissionResponse()

    @app.post("/{_phase}/{_plural}")
    async def answer(request: Request) -> Response:
        body = encode(decode(await request.body()), allowed)
        return Response(body, media_type="application/json")

    return app


def muster() -> Starlette:
    readiness = Readiness((SERVING,))
    readiness.met(SERVING)
    return build(Reviewer(StaticLister()), readiness)


def serve(name: str, material: Material, ready: Connection) -> None:
    """Run one listener in this process until it is terminated."""
    pin(0)
    app = bare() if name == BARE else muster()

    async def run() -> None:
        with bound("127.0.0.1", 0) as sock:
            async with Listener(app, server_context(material), sock) as listener:
                ready.send(listener.address)
                await asyncio.Event().wait()

    uvloop.run(run())


def pin(core: int) -> None:
    """Pin this process to a core; with one core there is nothing to divide."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core % len(cores)]})


@dataclass
class Measured:
    """Requests a second and the server's processor time in microseconds a request, one value a
    round; the latencies in seconds of all rounds."""

    rate: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def add(self, latencies: list[float], seconds: float, cpu: float) -> None:
        self.latencies += latencies
        self.cpu.append(1e6 * cpu / len(latencies))
        self.rate.append(len(latencies) / seconds)

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which that share of all requests was served."""
        return 1000 * sorted(self.latencies)[int(len(self.latencies) * share)]

    def line(self) -> str:
        low, high = min(self.rate), max(self.rate)
        return (
            f"{statistics.median(self.rate):8.0f}/s ({low:.0f} to {high:.0f})"
            f"  {statistics.median(self.cpu):4.0f} us"
            f"  p50 {self.percentile(0.5):6.2f} ms  p99 {self.percentile(0.99):6.2f} ms"
        )


class Connected:
    """One TLS connection, one request at a time; no HTTP library, so that it costs little."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext, request: bytes) -> None:
        self._address = address
        self._tls = tls
        self._request = request

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address, ssl=self._tls)

    async def call(self) -> float:
        started = time.perf_counter()
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await self._reader.readexactly(length)
        return time.perf_counter() - started

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True, slots=True)
class Served:
    """A server process: its address, and its processor time so far."""

    address: tuple[str, int]
    pid: int

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def saturate(
    server: Served, connections: list[Connected], seconds: float, into: Measured
) -> None:
    """Send the next request on every connection as soon as it has the response."""
    ends = time.perf_counter() + seconds
    latencies: list[float] = []

    async def work(connection: Connected) -> None:
        while time.perf_counter() < ends:
            latencies.append(await connection.call())

    started, cpu = time.perf_counter(), server.cpu()
    await asyncio.gather(*map(work, connections))
    into.add(latencies, time.perf_counter() - started, server.cpu() - cpu)


async def trickle(
    server: Served, connections: list[Connected], seconds: float, into: Measured
) -> None:
    """Send RATE requests a second, spread over the connections."""
    latencies: list[float] = []
    each = RATE / len(connections)

    async def work(number: int, connection: Connected) -> None:
        started = time.perf_counter() + number / RATE
        for turn in range(int(seconds * each)):
            await asyncio.sleep(max(0.0, started + turn / each - time.perf_counter()))
            latencies.append(await connection.call())

    started, cpu = time.perf_counter(), server.cpu()
    await asyncio.gather(*(work(*pair) for pair in enumerate(connections)))
    into.add(latencies, time.perf_counter() - started, server.cpu() - cpu)


async def measure(
    servers: dict[str, Served], material: Material, route: str, seconds: float
) -> dict[tuple[str, str], Measured]:
    body = review()
    head = f"POST /{route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    request = head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    tls = client_context(material.ca_bundle)
    results = {(name, load): Measured() for name in servers for load in (FULL, STEADY)}
    for round_number in range(ROUNDS + 1):
        for name, server in servers.items():
            connections = [Connected(server.address, tls, request) for _ in range(CONNECTIONS)]
            for connection in connections:
                await connection.open()
            # The first round warms up, and does not count.
            if round_number == 0:
                await saturate(server, connections, 1.0, Measured())
            else:
                await saturate(server, connections, seconds, results[name, FULL])
                await trickle(server, connections[:10], seconds, results[name, STEADY])
            for connection in connections:
                connection.close()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each measurement")
    seconds = parser.parse_args().seconds
    material = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))
    context = multiprocessing.get_context("spawn")
    servers: dict[str, Served] = {}
    children = []
    for name in (BARE, MUSTER):
        here, there = context.Pipe()
        child = context.Process(target=serve, args=(name, material, there), daemon=True)
        child.start()
        children.append(child)
        servers[name] = Served(here.recv(), child.pid or 0)
    pin(1)
    good = True
    print(f"{len(review())} bytes a review, {ROUNDS} rounds of {seconds:g} s")
    try:
        for route in ROUTES:
            results = uvloop.run(measure(servers, material, route, seconds))
            print(route)
            for (name, load), measured in results.items():
                print(f"  {name:11} {load:10} {measured.line()}")
            rate, cpu = _shares(results)
            slowest = results[MUSTER, STEADY].percentile(0.99)
            good = good and rate >= SHARE_WANTED and slowest < P99_WANTED_MS
            print(
                f"  {rate:.2f} of the bare route's rate, {cpu:.2f} by processor time (wanted "
                f"{SHARE_WANTED}); p99 at 100/s {slowest:.2f} ms (wanted under {P99_WANTED_MS:g})"
            )
    finally:
        for child in children:
            child.terminate()
            child.join()
    return 0 if good else 1


def _shares(results: dict[tuple[str, str], Measured]) -> tuple[float, float]:
    """Return Muster's share of the bare route's rate: as counted, and by processor time.

    Each is the median of rounds, in each of which both had the same machine at the same time.
    """
    ours, bare = results[MUSTER, FULL], results[BARE, FULL]
    return (
        statistics.median(map(truediv, ours.rate, bare.rate)),
        statistics.median(map(truediv, bare.cpu, ours.cpu)),
    )


if __name__ == "__main__":
    sys.exit(main())
