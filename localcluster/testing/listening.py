"""A loopback port for an aiohttp application that closes completely.

aiohttp's own sites send a TLS close_notify without waiting for the response, and do not track
connections during their handshake: a test's event loop may end before those are closed.
"""

import asyncio
import contextlib
import socket
import ssl

from aiohttp import web

_BACKLOG = 128


class Listener:
    """Server for `app` on 127.0.0.1 from `start` to `close`."""

    def __init__(self, app: web.Application, context: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self._app = app
        self._context = context
        self._runner: web.AppRunner | None = None
        self._socket: socket.socket | None = None
        self._handshakes: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        """Listen on `port`; 0 selects a free one. Raises OSError if it is in use."""
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        self._socket = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._socket.setblocking(False)
        # Every connection inherits this: asyncio does not recognize these sockets as TCP.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self._socket.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    async def close(self) -> None:
        """Close everything at once: the port, the connections, and the running handlers."""
        if self._runner is None or self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        # The last accepted connection gets its transport one loop iteration later, and its close
        # takes another.
        for _ in range(2):
            await asyncio.sleep(0)
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
        self._runner = self._socket = None

    def _accept(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = self._socket.accept()
            accepted.setblocking(False)
            task = asyncio.create_task(self._complete_handshake(accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _complete_handshake(self, accepted: socket.socket) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        # A client that disconnects during the handshake is not an error of the application.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._runner.server, accepted, ssl=self._context
            )
