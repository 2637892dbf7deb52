"""A bounded number of connections, in which a new one replaces one that waits for its client.

So no client that reaches the port can lock out API servers by holding connections.
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
"""Open connections, including handshakes. Each takes a buffer of 256 KiB for TLS."""

HANDSHAKE_SECONDS: Final = 5.0
"""Seconds for a TLS handshake; asyncio's own limit is a minute."""

PAUSE_SECONDS: Final = 0.1
"""Seconds before the next attempt if none can be accepted, as with too many open files."""

MakeProtocol = Callable[[Callable[[], None]], BoundedProtocol]
"""A function that creates a connection's protocol, which calls the argument when it is lost."""


class Connections:
    """Accepts connections on a socket until `run` is cancelled; established ones remain."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        make_protocol: MakeProtocol,
        *,
        limit: int = CONNECTIONS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._sock = sock
        self._context = context
        self._make_protocol = make_protocol
        self._limit = limit
        self._handshake_seconds = handshake_seconds
        self._open: dict[_Connection, None] = {}
        self._fewer = asyncio.Event()

    async def run(self) -> None:
        """Accept connections until cancelled; no client can end this."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                await self._free_slot()
                try:
                    accepted, address = await loop.sock_accept(self._sock)
                # The pause keeps the loop from spinning until a descriptor is free.
                except OSError as error:
                    log.warning("failed to accept a connection", error=str(error))
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                one = _Connection(str(address[0]), loop.time())
                self._open[one] = None
                # A task: a client that is slow in its handshake must not delay the next one.
                one.handshake = handshakes.create_task(self._establish(accepted, one))

    async def _free_slot(self) -> None:
        """Wait until a connection may be accepted; close another one if the limit is reached."""
        if len(self._open) < self._limit:
            return
        # Close nothing before a client waits to be accepted: idle connections of API servers are
        # useful.
        await _readable(self._sock)
        while len(self._open) >= self._limit:
            if (one := self._least_active()) is not None:
                self._forget(one)
                one.end()
            # All of them are busy with a response.
            else:
                self._fewer.clear()
                await self._fewer.wait()

    def _least_active(self) -> _Connection | None:
        """Return the longest waiting connection of the clients with the most connections."""
        # By client: one client with many connections loses its own, not those of API servers.
        clients = Counter(one.client for one in self._open)
        waiting = (one for one in self._open if one.waits)
        return min(waiting, key=lambda one: (-clients[one.client], one.since), default=None)

    def _forget(self, one: _Connection) -> None:
        self._open.pop(one, None)
        self._fewer.set()

    async def _establish(self, accepted: socket.socket, one: _Connection) -> None:
        """Perform the handshake. A failure in it concerns no other client."""

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
            log.debug("failed to complete a TLS handshake", error=str(error))
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)
            accepted.close()
            self._forget(one)
        finally:
            one.handshake = None


@dataclass(slots=True, eq=False)
class _Connection:
    """An open connection, from its handshake on."""

    client: str
    accepted: float
    handshake: asyncio.Task[None] | None = None
    protocol: BoundedProtocol | None = None

    @property
    def waits(self) -> bool:
        """True if the connection waits for its client."""
        return self._established is None or self._established.waits

    @property
    def since(self) -> float:
        """The time since which it waits, by the loop's clock."""
        return self.accepted if self._established is None else self._established.waiting_since

    @property
    def _established(self) -> BoundedProtocol | None:
        return self.protocol if self.handshake is None else None

    def end(self) -> None:
        """Close the connection immediately."""
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
