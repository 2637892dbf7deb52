"""A port that forwards bytes to a server, and can drop or delay them.

TLS passes through unchanged: the server's certificate must be valid for 127.0.0.1.
"""

import asyncio
import contextlib
from pathlib import Path

import yaml

from e2e.harness.support import ports

_CHUNK = 1 << 16


class Forwarder:
    """Listener on a free loopback port that connects each client to `target`, a loopback port."""

    def __init__(self, target: int) -> None:
        (self.port,) = ports.free(1)
        self._target = target
        self._server: asyncio.Server | None = None
        self._flows: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}
        self._open = asyncio.Event()
        self._open.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.thaw()
        self.reset()
        if self._flows:
            await asyncio.wait(list(self._flows))

    def reset(self) -> None:
        """Break every connection, as a restarted load balancer does; accept new ones."""
        for writers in self._flows.values():
            for writer in writers:
                writer.transport.abort()

    def freeze(self) -> None:
        """Delay all bytes and keep the connections open, as a network that drops packets."""
        self._open.clear()

    def thaw(self) -> None:
        """Forward the delayed bytes, and all later ones."""
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flow = asyncio.current_task()
        assert flow is not None
        self._flows[flow] = (writer,)
        try:
            with contextlib.suppress(OSError):
                await self._open.wait()
                onward, upstream = await asyncio.open_connection("127.0.0.1", self._target)
                self._flows[flow] = (writer, upstream)
                await self._join(reader, upstream, onward, writer)
        finally:
            for each in self._flows.pop(flow):
                each.transport.abort()

    async def _join(
        self,
        reader: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
        onward: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Copy in both directions until either ends."""
        pumps = {
            asyncio.ensure_future(self._pump(reader, upstream)),
            asyncio.ensure_future(self._pump(onward, writer)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(_CHUNK):
                await self._open.wait()
                sink.write(chunk)
                await sink.drain()


def redirect(kubeconfig: Path, path: Path, port: int) -> Path:
    """Write a kubeconfig for the same access through a loopback port."""
    document = yaml.safe_load(kubeconfig.read_text())
    for entry in document["clusters"]:
        entry["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def port_of(kubeconfig: Path) -> int:
    """Return the port of the (first) server."""
    document = yaml.safe_load(kubeconfig.read_text())
    return int(document["clusters"][0]["cluster"]["server"].rpartition(":")[2])
