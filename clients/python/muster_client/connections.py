"""Connections that end with their client, even if the API server does not respond."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

_TURNS: Final = 1000
"""Iterations of the event loop. A connection whose socket is shut down needs a few to notice."""


class Connections(RESTClientObject):
    """Those of `kubernetes.aio`, which leaves TLS open until the server agrees to close it.

    A call that was cancelled may have such a connection, and the event loop may end before that.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._create_socket
        )

    def _create_socket(self, address: Any) -> socket.socket:
        created = socket.socket(*address[:3])
        created.setblocking(False)
        self._sockets.add(created)
        return created

    async def close(self) -> None:
        await super().close()
        for each in self._sockets:
            with suppress(OSError):  # it is not connected, or closed already
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS):
            if all(each.fileno() < 0 for each in self._sockets):
                return
            await asyncio.sleep(0)
