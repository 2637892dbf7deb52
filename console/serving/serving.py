"""The console on a socket: the watches, the streams and the HTTP server, concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from api import features
from api.features import FeatureGates
from api.scheduler_names import USUAL, SchedulerNames
from console.access.guard import Hosts, named
from console.access.local_key import LocalViewers
from console.access.manifests import OwnerManifests
from console.base.protocols import Viewers
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.connections import served_by
from console.serving.server import app
from console.serving.stream import Streams
from console.state.state import LiveCluster
from console.what_if import WhatIfProcess
from kube.client.client import Client
from scheduler.core.values.search_budget import SearchBudget

LOOPBACK: Final = "127.0.0.1"
_GRACE: Final = 2
"""Seconds for responses that are in progress when the server stops."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the cluster's scheduler, and what the console shows.

    Without `topology_keys` the map nests those that groups name. `preempts` is true if a root may
    evict others, which what-if depends on.
    """

    budget: SearchBudget | None = None
    scheduler_names: SchedulerNames = USUAL
    gates: FeatureGates = features.USUAL
    topology_keys: tuple[str, ...] = ()
    preempts: bool = True


@dataclass(frozen=True, slots=True)
class LocalConsole:
    """A running console. `url` opens it once; later requests use `address`."""

    url: str
    address: str
    cluster: LiveCluster
    following: Following
    streams: Streams
    tasks: tuple[asyncio.Task[None], ...]

    async def until(self, stop: asyncio.Event) -> None:
        """Wait for `stop`. Raises the error that ended the watches or the streams before."""
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, *self.tasks}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in self.tasks:
            if task.done():
                task.result()


@asynccontextmanager
async def local(
    client: Client, settings: Settings | None = None, port: int = 0
) -> AsyncIterator[LocalConsole]:
    """Serve the console on loopback while the context lasts; port 0 is any free one.

    Raises OSError if the port is in use.
    """
    with closing_socket(port) as sock:
        port = sock.getsockname()[1]
        viewers = LocalViewers(client.server, port)
        hosts = named(f"{LOOPBACK}:{port}", f"localhost:{port}")
        parts = Parts(client, settings or Settings())
        async with (
            listening(parts.application(viewers, hosts), sock),
            running(parts.cluster, parts.streams) as tasks,
        ):
            address = f"http://{LOOPBACK}:{port}/"
            url = f"{address}?key={viewers.key}"
            try:
                yield LocalConsole(
                    url, address, parts.cluster, parts.following, parts.streams, tasks
                )
            finally:
                # An open stream is a response that never ends: the server would wait for it.
                parts.streams.end()


class Parts:
    """The parts of every console, for any kind of viewers."""

    def __init__(self, client: Client, settings: Settings) -> None:
        """Set up the parts. They read nothing before `running`."""
        self.cluster = LiveCluster(
            client,
            budget=settings.budget,
            scheduler_names=settings.scheduler_names,
            gates=settings.gates,
        )
        self.following = Following(self.cluster, settings.topology_keys)
        self._history = RecentHistory(self.following)
        self.streams = Streams(self.following, self._history)
        self._client = client
        self._settings = settings

    def application(self, viewers: Viewers, hosts: Hosts) -> ASGIApp:
        """Return the application for these viewers and hosts."""
        settings = self._settings
        what_if = WhatIfProcess(
            self.cluster,
            budget=settings.budget or SearchBudget(),
            schedulers=settings.scheduler_names,
            gates=settings.gates,
            preempts=settings.preempts,
        )
        return app(
            self.following,
            viewers,
            self.streams,
            hosts=hosts,
            manifest=OwnerManifests(self._client),
            what_if=what_if,
            history=self._history,
        )


@contextlib.contextmanager
def closing_socket(port: int) -> Iterator[socket.socket]:
    """Return a socket that is bound to loopback only. Raises OSError."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        yield sock


@asynccontextmanager
async def running(
    cluster: LiveCluster, streams: Streams
) -> AsyncIterator[tuple[asyncio.Task[None], ...]]:
    """Follow the cluster and feed the streams meanwhile; none of these tasks ends by itself."""
    tasks = (asyncio.create_task(cluster.run()), asyncio.create_task(streams.run()))
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@asynccontextmanager
async def listening(
    application: ASGIApp, sock: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve requests on the socket, which the caller closes; with `tls` by https."""
    config: dict[str, Any] = {
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Headers of a proxy could contain any address: the limits per address use the connection's.
        "proxy_headers": False,
        "timeout_graceful_shutdown": _GRACE,
    }
    server = served_by(uvicorn.Config(application, **config), tls)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        while not (server.started or serving.done()):  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await serving
