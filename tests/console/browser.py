"""A client that behaves like the console's page, and a server on a state that tests change."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from analysis.fit.messages import FitResult
from analysis.what_if.messages import FitQuestion, WhatIfAnswer, WhatIfRequest
from console.access.guard import named
from console.access.local_key import LocalViewers
from console.base.protocols import Fit, RefusedError, Viewer, Viewers, WhatIf
from console.fit import LiveFit
from console.following.history import RecentHistory
from console.serving.server import Server
from console.serving.serving import LOOPBACK, listening, listening_socket
from console.serving.stream import Streams
from tests.console.cluster_builder import Builder


class Browser:
    """Requests with the cookie that the server set, and the headers of its own page."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.http = session
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            return answer.status, _read(await answer.text())

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Origin": self.url, "Content-Type": "application/json", **headers}
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body or {}).encode())
        async with self.http.post(self.url + path, data=data, headers=sent) as answer:
            return answer.status, _read(await answer.text())

    @asynccontextmanager
    async def events(self, query: str) -> AsyncIterator[Events]:
        async with self.http.get(f"{self.url}/api/events?{query}") as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            events = Events(answer)
            assert await events.line() == ": here"
            yield events


class Events:
    """Server-sent events one by one."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def line(self) -> str:
        """Return the next non-empty line; "" at the end."""
        while True:
            line = await self._answer.content.readline()
            if not line or line.strip():
                return line.decode().rstrip("\n")

    async def next(self) -> tuple[str, Any]:
        """Return the next event with its data; ("", None) at the end. Skip comments."""
        name = await self.line()
        while name.startswith(":"):
            name = await self.line()
        if not name:
            return "", None
        data = await self.line()
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    async def until(self, name: str) -> Any:
        """Return the data of the next event of that name."""
        while True:
            found, data = await self.next()
            assert found, f"the stream ended before {name}"
            if found == name:
                return data


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class Site:
    """A server, and the parts of it that tests access."""

    def __init__(
        self, cluster: Builder, port: int, viewers: LocalViewers, streams: Streams
    ) -> None:
        self.cluster, self.port, self.viewers, self.streams = cluster, port, viewers, streams


async def no_manifest(id_: str) -> str:
    return ""


async def no_answers(request: WhatIfRequest, viewer: Viewer) -> WhatIfAnswer:
    raise RefusedError(400, "Nothing is tried here.")


class NoProcess:
    """No process: what needs a copy of the cluster is refused."""

    async def fit(self, question: FitQuestion, viewer: Viewer) -> list[FitResult]:
        raise RefusedError(501, "Nothing is tried here.")


@asynccontextmanager
async def site(
    cluster: Builder,
    *,
    viewers: Viewers | None = None,
    what_if: WhatIf = no_answers,
    fit: Fit | None = None,
    history: RecentHistory | None = None,
    period: float = 0.02,
) -> AsyncIterator[Site]:
    """Serve on loopback with a one-time key, or for other viewers."""
    with listening_socket((LOOPBACK, 0)) as sock:
        port: int = sock.getsockname()[1]
        own = LocalViewers("admin", port)
        history = history or RecentHistory(cluster.following)
        streams = Streams(cluster.following, history, period=period)
        server = Server(
            cluster.following, viewers or own, streams, history,
            manifest=no_manifest, what_if=what_if,
            fit=fit or LiveFit(cluster.following, NoProcess()),
        )  # fmt: skip
        async with listening(server.application(named(f"{LOOPBACK}:{port}")), sock):
            feeding = asyncio.create_task(streams.run())
            try:
                yield Site(cluster, port, own, streams)
            finally:
                streams.end()
                feeding.cancel()
                await asyncio.wait({feeding})


@asynccontextmanager
async def browser(site: Site, *, logged_in: bool = True) -> AsyncIterator[Browser]:
    """Open a browser; it uses the key, unless it is not `logged_in`."""
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address too
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        made = Browser(session, site.port)
        if logged_in:
            status, _ = await made.get(f"/?key={site.viewers.key}")
            assert status == 303
        yield made
