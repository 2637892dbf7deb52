"""A proxy in front of the API server that delays a chosen request, or disconnects a process.

One process uses it, by its own kubeconfig. It forwards everything with the credentials of the
cluster's own kubeconfig, and records every forwarded request in `sent`.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from e2e.harness.support import kubeconfig, pki, ports
from localcluster.testing.listening import Listener

Rule = Callable[[str, str], bool]
"""Predicate of a method and a path that selects requests."""

_HOP = {"host", "authorization", "connection", "transfer-encoding", "content-length"}


@dataclass(eq=False, slots=True)
class Pause:
    """Pause of matching requests, from the `nth` on: unsent, or sent with the response delayed.

    The first one sets `reached`. After `release` unsent requests are dropped or sent late.
    """

    rule: Rule
    nth: int
    sent: bool
    seen: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    drop: bool = True

    def release(self, *, drop: bool) -> None:
        self.drop = drop
        self.released.set()


class InterceptingProxy:
    """A TLS proxy on loopback; `kubeconfig` points to it."""

    def __init__(self, target: Path, folder: Path) -> None:
        self.kubeconfig = folder / "proxy.kubeconfig"
        self._seats: AbstractAsyncContextManager[None] = contextlib.nullcontext()
        self.sent: list[tuple[str, str]] = []
        self._target = target
        self._folder = folder
        self._pauses: list[Pause] = []
        self._open = asyncio.Event()
        self._open.set()
        self._streams: list[asyncio.Event] = []

    def pause_at(self, rule: Rule, *, nth: int = 1, sent: bool = False) -> Pause:
        """Pause the `nth` request of the rule, and each later one."""
        pause = Pause(rule, nth, sent)
        self._pauses.append(pause)
        return pause

    def end(self, pause: Pause) -> None:
        """Drop the paused requests, and remove the pause."""
        self._pauses.remove(pause)
        pause.release(drop=True)

    def cut(self) -> None:
        """Stop forwarding; connections stay open."""
        self._open.clear()

    def heal(self) -> None:
        """Forward new requests; pending ones are lost."""
        self._open.set()

    def freeze(self) -> None:
        """Stop the responses in progress, such as all open watches, and keep them open."""
        for stream in self._streams:
            stream.clear()

    def thaw(self) -> None:
        """Forward the delayed responses."""
        for stream in self._streams:
            stream.set()

    def limit(self, seats: int | None) -> None:
        """Limit the concurrent requests, except watches and leases."""
        self._seats = asyncio.Semaphore(seats) if seats else contextlib.nullcontext()

    def restore(self) -> None:
        """Forward everything again, and remove all pauses."""
        self.heal()
        self.thaw()
        self.limit(None)
        for pause in list(self._pauses):
            self.end(pause)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["InterceptingProxy"]:
        """Serve inside the block."""
        made = pki.issue(self._folder)
        access = kubeconfig.read(self._target)
        (port,) = ports.free(1)
        kubeconfig.write(
            self.kubeconfig, server=f"https://127.0.0.1:{port}", ca_pem=made.ca_pem, token="proxy"
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate, made.key)
        app = web.Application(client_max_size=1 << 26)
        headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        connector = aiohttp.TCPConnector(ssl=access.context, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, trust_env=False, auto_decompress=False,
            read_bufsize=2**21,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session:  # fmt: skip

            async def serve(request: web.Request) -> web.StreamResponse:
                return await self._serve(request, session, access.server)

            app.router.add_route("*", "/{tail:.*}", serve)
            listener = Listener(app, context)
            await listener.start(port)
            try:
                yield self
            finally:
                self.restore()
                await listener.close()

    async def _serve(
        self, request: web.Request, session: aiohttp.ClientSession, server: str
    ) -> web.StreamResponse:
        pause = self._pause_for(request)
        await self._through(request)
        if pause is not None and not pause.sent:
            await self._wait_at(pause, request)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        body = await request.read()
        self.sent.append((request.method, request.path))
        free = "watch" in request.query or "/leases" in request.path
        with contextlib.suppress(aiohttp.ClientError):
            async with (
                contextlib.nullcontext() if free else self._seats,
                session.request(
                    request.method, f"{server}{request.rel_url}", headers=headers, data=body or None
                ) as answer,
            ):
                if pause is not None and pause.sent:
                    await self._wait_at(pause, request)
                return await self._pass_on(request, answer)
        raise lost(request)

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
        response = web.StreamResponse(status=answer.status, headers=kept)
        await response.prepare(request)
        moves = asyncio.Event()
        moves.set()
        self._streams.append(moves)
        try:
            async for chunk in answer.content.iter_any():
                await moves.wait()
                await self._through(request)
                await response.write(chunk)
        finally:
            self._streams.remove(moves)
        await response.write_eof()
        return response

    def _pause_for(self, request: web.Request) -> Pause | None:
        for pause in self._pauses:
            if pause.rule(request.method, request.path):
                pause.seen += 1
                if pause.seen >= pause.nth:
                    return pause
        return None

    async def _wait_at(self, pause: Pause, request: web.Request) -> None:
        pause.reached.set()
        await pause.released.wait()
        if pause.drop:
            raise lost(request)

    async def _through(self, request: web.Request) -> None:
        if not self._open.is_set():
            await self._open.wait()
            raise lost(request)


def lost(request: web.Request) -> Exception:
    """Close the connection without a response."""
    if request.transport is not None:
        request.transport.abort()
    return ConnectionResetError("the proxy lost this request")
