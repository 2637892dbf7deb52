"""A load balancer like a Service: new connections go to ready replicas, round-robin."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from e2e.harness.support.waiting import healthy

CHUNK = 65536
PROBE_SECONDS = 0.1


@dataclass(slots=True)
class Backend:
    """One replica: the port it listens on, and its readiness URL."""

    port: int
    ready_url: str
    ready: bool = False


class Balancer:
    """TCP load balancer that keeps connections; use it as an async context manager."""

    def __init__(self, port: int, backends: Sequence[Backend]) -> None:
        self._port = port
        self._backends = backends
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._watching = [asyncio.create_task(self._watch(each)) for each in self._backends]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for writer in self._open:
            writer.transport.abort()
        while self._open:  # noqa: ASYNC110 - each connection takes itself out
            await asyncio.sleep(0)

    async def _watch(self, backend: Backend) -> None:
        while True:
            backend.ready = await healthy(backend.ready_url)
            await asyncio.sleep(PROBE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            # A Service without ready pods rejects connections too.
            ready = [backend for backend in self._backends if backend.ready]
            if not ready:
                return
            self._turn += 1
            backend = ready[self._turn % len(ready)]
            there = await asyncio.open_connection("127.0.0.1", backend.port)
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
        except OSError:
            pass  # one side is closed; the close ends the other
        finally:
            writer.close()
            self._open.discard(writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, then close the other side's write half."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    finally:
        with contextlib.suppress(OSError):
            writer.close()
