"""The console on a socket: the watches, the streams and the HTTP server, concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from console.access.guard import Hosts, named
from console.access.local_key import LocalViewers
from console.access.manifests import owner_manifest
from console.base.protocols import Viewers
from console.fit import LiveFit
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.connections import served_by
from console.serving.server import Server
from console.serving.stream import Streams
from console.state.state import LiveCluster, Settings
from console.what_if import WhatIfProcess
from kube.client.client import Client

LOOPBACK: Final = "127.0.0.1"
_GRACE: Final = 2
"""Seconds for responses that are in progress when the server stops."""


class Console:
    """A console on the port of a socket. The `url` of a local one opens it once."""

    url = ""

    def __init__(self, client: Client, settings: Settings, sock: socket.socket) -> None:
        """Set up the parts. They read nothing before `serving`."""
        self.cluster = LiveCluster(client, settings)
        self.following = Following(self.cluster)
        self.history = RecentHistory(self.following)
        self.streams = Streams(self.following, self.history)
        self.port: int = sock.getsockname()[1]
        self._client = client
        self._sock = sock
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    @property
    def address(self) -> str:
        """The address of a local console, for requests after the first."""
        return f"http://{LOOPBACK}:{self.port}/"

    @asynccontextmanager
    async def serving(
        self,
        viewers: Viewers,
        hosts: Hosts,
        tls: ssl.SSLContext | None = None,
        *more: Callable[[], Coroutine[Any, Any, None]],
    ) -> AsyncIterator[None]:
        """Serve these viewers by these names, with `tls` by https; run also what is `more`."""
        process = WhatIfProcess(self.cluster)
        server = Server(
            self.following,
            viewers,
            self.streams,
            self.history,
            manifest=partial(owner_manifest, self._client),
            what_if=process,
            fit=LiveFit(self.following, process),
        )
        async with listening(server.application(hosts), self._sock, tls):
            # None of these tasks ends by itself.
            running = (self.cluster.run, self.streams.run, *more)
            self._tasks = tuple(asyncio.create_task(each()) for each in running)
            try:
                yield
            finally:
                # An open stream is a response that never ends: the server would wait for it.
                self.streams.end()
                for task in self._tasks:
                    task.cancel()
                await asyncio.wait(self._tasks)

    async def until(self, stop: asyncio.Event) -> None:
        """Wait for `stop`. Raises the error that ended its work before."""
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in self._tasks:
            if task.done():
                task.result()


@asynccontextmanager
async def local(
    client: Client, settings: Settings = Settings(), port: int = 0
) -> AsyncIterator[Console]:
    """Serve the console on loopback while the context lasts; port 0 is any free one.

    Raises OSError if the port is in use.
    """
    with listening_socket((LOOPBACK, port)) as sock:
        console = Console(client, settings, sock)
        viewers = LocalViewers(client.server, console.port)
        console.url = f"{console.address}?key={viewers.key}"
        hosts = named(f"{LOOPBACK}:{console.port}", f"localhost:{console.port}")
        async with console.serving(viewers, hosts):
            yield console


@contextlib.contextmanager
def listening_socket(address: tuple[str, int]) -> Iterator[socket.socket]:
    """Return a socket that is bound to the address. Raises OSError."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        yield sock


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
