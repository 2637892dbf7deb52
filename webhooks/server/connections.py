"""Takes connections: so many at a time; a new one takes the place of one that waits for its client.

So nobody who reaches the port keeps API servers out by holding connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from kube.client.bounded_http import BoundedProtocol

log = structlog.get_logger(__name__)

CONNECTIONS: Final = 256
"""Open at a time, those in their handshake included. Each takes a buffer of 256 KiB for TLS."""

HANDSHAKE_SECONDS: Final = 5.0
"""How long a TLS handshake may last; asyncio's own limit is a minute."""

PAUSE_SECONDS: Final = 0.1
"""Before the next attempt where none can be taken, as with too many open files."""

MakeProtocol = Callable[[Callable[[], None]], BoundedProtocol]
"""Makes the protocol of a connection; it calls its argument once the connection is lost."""


class Connections:
    """Accepts on a listening socket until `run` is cancelled; established ones then stay."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        make_protocol: MakeProtocol,
        *,
        limit: int = CONNECTIONS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        """Nothing is accepted before `run`."""
        self._sock = sock
        self._context = context
        self._make_protocol = make_protocol
        self._limit = limit
        self._handshake_seconds = handshake_seconds
        self._open: dict[_Connection, None] = {}
        self._fewer = asyncio.Event()

    async def run(self) -> None:
        """Accept until cancelled; no client can end it."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                await self._make_room()
                try:
                    accepted, address = await loop.sock_accept(self._sock)
                except OSError as error:
                    log.warning("connection not accepted", problem=str(error))
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                one = _Connection(str(address[0]), loop.time())
                self._open[one] = None
                one.handshake = handshakes.create_task(self._establish(accepted, one))

    async def _make_room(self) -> None:
        """Wait until one may be accepted and, where all places are taken, another one given up.

        Nothing is given up before a client waits to be accepted.
        """
        if len(self._open) < self._limit:
            return
        await _readable(self._sock)
        while len(self._open) >= self._limit:
            if (one := self._least_active()) is not None:
                self._forget(one)
                one.end()
            else:  # each works on an answer
                self._fewer.clear()
                await self._fewer.wait()

    def _least_active(self) -> _Connection | None:
        """Of the clients with the most connections the one that has waited longest."""
        clients = Counter(one.client for one in self._open)
        waiting = (one for one in self._open if one.waits)
        return min(waiting, key=lambda one: (-clients[one.client], one.since), default=None)

    def _forget(self, one: _Connection) -> None:
        self._open.pop(one, None)
        self._fewer.set()

    async def _establish(self, accepted: socket.socket, one: _Connection) -> None:
        """The handshake. A client that fails in it is no concern of others."""

        def make() -> BoundedProtocol:
            one.protocol = self._make_protocol(lambda: self._forget(one))
            return one.protocol

        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                make,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=self._handshake_seconds,
            )
        except (OSError, asyncio.CancelledError) as error:
            log.debug("no handshake", problem=str(error))
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)
            accepted.close()
            self._forget(one)
        finally:
            one.handshake = None


@dataclass(slots=True, eq=False)
class _Connection:
    """One that is open, from its handshake on."""

    client: str
    accepted: float
    handshake: asyncio.Task[None] | None = None
    protocol: BoundedProtocol | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for its client."""
        return self._established is None or self._established.waits

    @property
    def since(self) -> float:
        """Since when it waits, in the loop's time."""
        return self.accepted if self._established is None else self._established.waiting_since

    @property
    def _established(self) -> BoundedProtocol | None:
        return self.protocol if self.handshake is None else None

    def end(self) -> None:
        """Close it at once."""
        if self.handshake is not None:
            self.handshake.cancel()
        elif self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()


async def _readable(sock: socket.socket) -> None:
    """Wait until a client waits to be accepted."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)
