"""The sockets of an aiohttp session, whose end the session does not wait for.

A TLS connection that was closed before it (a watch that was left, one that was idle for long) stays
open until its peer has agreed. A loop that ends meanwhile leaves the socket to the garbage
collector.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final
from weakref import WeakSet

import aiohttp

_TURNS: Final = 1000
"""Iterations of the event loop. A connection whose socket is shut down needs a few to notice."""


class OpenSockets:
    """A factory for the sockets of one connector, which closes those that are left at its end."""

    def __init__(self) -> None:
        self._created: WeakSet[socket.socket] = WeakSet()

    def create(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """Create a socket, as the connector's `socket_factory`."""
        family, kind, protocol, _, _ = info
        created = socket.socket(family, kind, protocol)
        created.setblocking(False)
        self._created.add(created)
        return created

    async def close(self) -> None:
        """Shut down open sockets without their peers. Call it when the session is closed."""
        for each in self._created:
            with suppress(OSError):  # it is not connected, or closed already
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS):
            if all(each.fileno() < 0 for each in self._created):
                return
            await asyncio.sleep(0)
