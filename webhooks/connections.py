"""Takes connections: so many at a time, with a limit on how long each step of one may last."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

CONNECTIONS: Final = 256
"""Open at a time, those in their handshake included. Each takes a buffer of 256 KiB for TLS."""

HANDSHAKE_SECONDS: Final = 5.0
"""How long a TLS handshake may last; asyncio's own limit is a minute."""

PAUSE_SECONDS: Final = 0.1
"""Before the next attempt where none can be taken, as with too many open files."""

MakeProtocol = Callable[[Callable[[], None]], asyncio.Protocol]
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
        self._slots = asyncio.Semaphore(limit)
        self._handshake_seconds = handshake_seconds

    async def run(self) -> None:
        """Accept until cancelled; no client can end it. While all are taken, the next one waits."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                await self._slots.acquire()
                try:
                    connection, _ = await loop.sock_accept(self._sock)
                except OSError as error:
                    self._slots.release()
                    log.warning("connection not accepted", problem=str(error))
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    handshakes.create_task(self._open(connection))

    async def _open(self, connection: socket.socket) -> None:
        """The handshake. A client that fails in it is no concern of others."""
        slot = _Slot(self._slots)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make_protocol(slot.free),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=self._handshake_seconds,
            )
        except OSError as error:
            log.debug("no handshake", problem=str(error))
            slot.free()


class _Slot:
    """One connection's place, given back once."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots

    def free(self) -> None:
        if self._slots is not None:
            self._slots.release()
            self._slots = None
