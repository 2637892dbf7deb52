"""HTTP connections that cost a server a bounded amount of memory and time for any client.

Uvicorn has no limit for the head of a request, for chunk sizes and trailers of a chunked body, for
requests that arrive before the response to the previous one, and for a client that does not read
its response.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES: Final = 32 * 1024
"""Bytes of a request's head, with a piece's tolerance. API servers send less than 1 KiB."""

PIECE: Final = 16 * 1024
"""Bytes that are parsed before they are counted."""

UNREAD_BYTES: Final = 64 * 1024
"""Bytes of responses that a connection keeps for its client; asyncio's own limit is 512 KiB."""

_OVERHEAD_SHARE: Final = 8
"""The share of a body, an eighth, that chunk sizes and trailers may add to it."""

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _PipelinedError(Exception):
    """A request that arrived before the response to the previous one."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A client that pipelines gets its first response and loses the connection."""

    stalled_seconds = 10.0
    """Seconds for which a client may stop reading a response that waits for it."""

    waiting_since = 0.0
    """The start of the current wait for the client, in the loop's time."""

    _stalled: asyncio.TimerHandle | None = None
    _overhead = 0
    _body = 0
    _ends = False

    @property
    def idle(self) -> bool:
        """True if no request is under way whose head has arrived."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    @property
    def waits(self) -> bool:
        """True if the client must send or read something before anything can continue."""
        return self.idle or self.cycle.more_body or self.flow.write_paused

    # A server's connections can be written to and closed, more than the base class says.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(UNREAD_BYTES)
        self.waiting_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            if self._ends or self.transport.is_closing():
                return
            piece = data if len(data) <= PIECE else data[at : at + PIECE]
            self._overhead += len(piece)
            super().data_received(piece)
            if self._overhead > HEAD_BYTES + self._body // _OVERHEAD_SHARE:
                self._ends = True
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        if not self.idle:
            raise _PipelinedError
        # What follows a complete request is part of the next one, and at most a piece of it came.
        self._overhead = min(self._overhead, PIECE)
        self._body = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.waiting_since = self.loop.time()
        self.scope["state"]["abort"] = self.transport.abort
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if self.idle or self.cycle.more_body:
            super().send_400_response(msg)
        else:  # the earlier request gets its response first
            self._ends = True
            self.cycle.keep_alive = False
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting_since = self.loop.time()
        self._stalled = self.loop.call_later(self.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        end_timer(self._stalled)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        end_timer(self._stalled)
        super().connection_lost(exc)


def end_timer(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer, if there is one."""
    if timer is not None:
        timer.cancel()
