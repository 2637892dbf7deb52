"""Connections that ask nothing, or do not take their answers: they end, and never keep others out.

Uvicorn has a limit of connections, but none of the time that one may be silent before or within the
head of a request. `kube.client.bounded_http` has the limits of size; bodies have theirs where they
are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, cast

import uvicorn

from kube.client.bounded_http import BoundedProtocol, end_timer

MOST_CONNECTIONS: Final = 512
"""Connections at a time. A new one replaces the longest idle one, or gets status 503."""

QUIET_SECONDS: Final = 10.0
"""How long a connection may have no request: from its begin, or its last answer, to a whole head.
What it sends meanwhile does not prolong it."""

STALLED_SECONDS: Final = 30.0
"""How long a client may take nothing of an answer that waits for it."""

HANDSHAKE_SECONDS: Final = 10.0
"""How long TLS may take to begin."""

MOST_HANDSHAKES: Final = 128
"""Connections whose TLS is only beginning. A new one takes the place of the oldest."""

_EXHAUSTED_SECONDS: Final = 1.0
"""How long to accept nothing when the process has no more sockets."""


class PatientProtocol(BoundedProtocol):
    """One connection, with its time limits. A new one takes the place of the longest idle one."""

    _quiet: asyncio.TimerHandle | None = None

    # A server's connections can be written to and closed, more than the base class says.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.stalled_seconds = STALLED_SECONDS
        super().connection_made(transport)
        # Uvicorn answers 503 from its limit on.
        if len(self.connections) >= MOST_CONNECTIONS:
            self._make_room()
        self._begin_quiet()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin_quiet()

    def connection_lost(self, exc: Exception | None) -> None:
        end_timer(self._quiet)
        super().connection_lost(exc)

    def _begin_quiet(self) -> None:
        end_timer(self._quiet)
        self._quiet = self.loop.call_later(QUIET_SECONDS, self._end_quiet)

    def _end_quiet(self) -> None:
        if self.idle:
            self.transport.abort()

    def _make_room(self) -> None:
        """End the connection that has been idle longest; if all are busy, this one is told so."""
        others = (each for each in self.connections if isinstance(each, PatientProtocol))
        idle = [each for each in others if each is not self and each.idle]
        if idle:
            min(idle, key=lambda each: each.waiting_since).transport.abort()


class PatientServer(uvicorn.Server):
    """Uvicorn with these connections, which leaves signals to the process."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        protocol = partial(
            PatientProtocol, self.config, self.server_state, self.lifespan.state, _loop=loop
        )
        for sock in sockets or ():
            if tls is None:
                made = await loop.create_server(protocol, sock=sock, backlog=self.config.backlog)
                self.servers.append(made)
            else:
                listener = TlsListener(sock, protocol, tls, self.config.backlog)
                self.servers.append(cast("asyncio.Server", listener))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class TlsListener:
    """Accepts connections on a socket, with a limit of those whose TLS is only beginning.

    asyncio's own server begins as many as there come, each with the memory of a TLS session.
    """

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        backlog: int,
    ) -> None:
        """Listens from now on."""
        self._sock = sock
        self._protocol = protocol
        self._tls = tls
        self._beginning: dict[asyncio.Task[None], None] = {}
        sock.setblocking(False)
        sock.listen(backlog)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept nothing any more; connections whose TLS has begun stay."""
        for task in (self._accepting, *self._beginning):
            task.cancel()

    async def wait_closed(self) -> None:
        """Until nothing of it is left."""
        await asyncio.gather(self._accepting, *self._beginning, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._sock)
            except OSError:
                await asyncio.sleep(_EXHAUSTED_SECONDS)
                continue
            if len(self._beginning) >= MOST_HANDSHAKES:
                oldest = next(iter(self._beginning))
                del self._beginning[oldest]
                oldest.cancel()
            task = loop.create_task(self._begin(accepted))
            self._beginning[task] = None
            task.add_done_callback(lambda done: self._beginning.pop(done, None))

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except (OSError, asyncio.CancelledError):
            accepted.close()  # who speaks no TLS, or is too slow


def served_by(config: uvicorn.Config, tls: ssl.SSLContext | None) -> PatientServer:
    """A server with this configuration, by https if there is `tls`."""
    config.limit_concurrency = MOST_CONNECTIONS
    config.load()
    config.ssl = tls
    return PatientServer(config)
