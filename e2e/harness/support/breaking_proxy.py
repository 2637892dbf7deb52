"""A proxy that breaks lists at a page, ends watches as expired, and delays their events."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from e2e.harness.support.intercepting_proxy import InterceptingProxy, lost

FAILURES = ("429", "500", "410", "reset")

_REASONS = {"429": "TooManyRequests", "500": "InternalError", "410": "Expired"}

PageRule = Callable[[str, int], Awaitable[str | None]]
"""Function of a path and a page from 1: the failure to respond with (FAILURES), or None."""


async def _serve_all(_path: str, _page: int) -> str | None:
    return None


class BreakingProxy(InterceptingProxy):
    """A proxy that serves lists in pages of `page_size`, which fail as `rule` decides."""

    def __init__(self, target: Path, folder: Path, *, page_size: int) -> None:
        super().__init__(target, folder)
        self.rule: PageRule = _serve_all
        self._page_size = page_size
        self._pages: dict[str, int] = {}
        self._expired: set[asyncio.Event] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def expire(self) -> None:
        """End every open watch with an expired version, so that everything is listed again."""
        for event in self._expired:
            event.set()

    def freeze(self) -> None:
        """Stop forwarding events of watches; connections stay open."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Forward the delayed events."""
        self._flowing.set()

    async def _serve(
        self, request: web.Request, session: aiohttp.ClientSession, server: str
    ) -> web.StreamResponse:
        if request.method != "GET" or "limit" not in request.query:
            return await super()._serve(request, session, server)
        first = "continue" not in request.query
        page = self._pages[request.path] = 1 if first else self._pages[request.path] + 1
        failure = await self.rule(request.path, page)
        if failure == "reset":
            raise lost(request)
        if failure is not None:
            body = _status(int(failure), _REASONS[failure])
            return web.json_response(body, status=int(failure), headers={"Retry-After": "1"})
        smaller = request.rel_url.update_query(limit=str(self._page_size))
        return await super()._serve(request.clone(rel_url=smaller), session, server)

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        if "watch" not in request.query or answer.status != 200:
            return await super()._pass_on(request, answer)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        expired = asyncio.Event()
        self._expired.add(expired)
        ending: asyncio.Future[Any] = asyncio.ensure_future(expired.wait())
        try:
            await self._stream(answer, response, ending)
            if ending.done():
                event = {"type": "ERROR", "object": _status(410, _REASONS["410"])}
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._expired.discard(expired)
            ending.cancel()
        await response.write_eof()
        return response

    async def _stream(
        self,
        answer: aiohttp.ClientResponse,
        response: web.StreamResponse,
        ending: asyncio.Future[Any],
    ) -> None:
        """Copy line by line, so that text appended at the end starts a new line."""
        while not ending.done():
            line: asyncio.Future[Any] = asyncio.ensure_future(answer.content.readline())
            await asyncio.wait({line, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not line.done():
                line.cancel()
                return
            if not (read := line.result()):
                return
            await self._flowing.wait()
            await response.write(read)


def _status(code: int, reason: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "the proxy says so",
        "reason": reason,
        "code": code,
    }
