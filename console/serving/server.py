"""The console's routes: the page, its requests, and the stream of changes.

Data that a viewer may not see is left out by the views, or rejected here with 403.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from analysis.what_if.messages import WhatIfAnswer, WhatIfRequest
from console.access.guard import JSON, Guard, Hosts, problem
from console.access.rate import Rates
from console.base import messages
from console.base.protocols import (
    NO_NODES,
    WHAT_IF_BUSY,
    Manifest,
    RefusedError,
    Viewer,
    Viewers,
    WhatIf,
)
from console.base.times import rfc3339
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.stream import Streams, wanted_of
from console.views import why_not
from console.views import workload as workload_view
from console.views.queue import Filters

STATIC: Final = Path(__file__).parents[1] / "static"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

LOGIN_LIMIT: Final = 16 * 1024
"""Bytes of the body of a login, which is a token. A longer one gets status 413."""

WHAT_IF_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of the body of a what-if question: a million characters of manifests. A longer one gets
status 413."""

BODY_SECONDS: Final = 20.0
"""Seconds that a body may take to arrive."""

MOST_LOGINS: Final = 64
"""Logins that are read or reviewed at a time: clients without a session must not occupy all
connections."""

MOST_QUESTIONS: Final = 16
"""Concurrent what-if questions, one per session. Those whose body is still being sent count."""

MOST_ROWS: Final = 500
"""Rows of the queue, or of a search, in one response."""

T = TypeVar("T")
Answer = Callable[[Request, Viewer], Awaitable[Any]]


class Server:
    """The handlers of the routes."""

    def __init__(
        self,
        following: Following,
        viewers: Viewers,
        streams: Streams,
        history: RecentHistory,
        *,
        manifest: Manifest,
        what_if: WhatIf,
    ) -> None:
        """Store the parts. `streams` runs alongside the server."""
        self._following = following
        self._viewers = viewers
        self._streams = streams
        self._manifest = manifest
        self._what_if = what_if
        self._history = history
        self._rates = Rates()
        self._logins = 0
        self._questions: set[str] = set()  # sessions with a question

    def application(self, hosts: Hosts) -> ASGIApp:
        """Return the application; `hosts` are its own names.

        Every path outside of the API returns the page.
        """
        asked: tuple[tuple[str, Answer], ...] = (
            ("/api/session", self.session),
            ("/api/map", self.map),
            ("/api/map/largest", self.largest),
            ("/api/map/pods", self.pods),
            ("/api/queue", self.queue),
            ("/api/workloads", self.search),
            ("/api/workloads/{namespace}/{kind}/{name}", self.workload),
            ("/api/workloads/{namespace}/{kind}/{name}/why", self.why),
            ("/api/history", self.history),
            ("/api/events", self.events),
        )
        routes = [
            *(Route(path, self._answering(answer)) for path, answer in asked),
            Route("/api/what-if", self._answering(self.what_if), methods=["POST"]),
            Route("/api/login", self.login, methods=["POST"]),
            Route("/api/logout", self.logout, methods=["POST"]),
            Route("/api/{rest:path}", self._missing, methods=["GET", "POST"]),
            Mount("/static", _Static(directory=STATIC)),
            Route("/{rest:path}", self.page),
        ]
        return Guard(Starlette(routes=routes), hosts)

    async def page(self, request: Request) -> Response:
        """Return the page, and for a valid key the cookie of a new session."""
        key = request.query_params.get("key")
        # A prefetch by the browser must not use up the key.
        if key is not None and "prefetch" not in request.headers.get("sec-purpose", ""):
            # A redirect removes the key from the address bar and the history.
            answer = RedirectResponse("/", 303)
            secret = self._viewers.use_key(key)
            if secret is not None:
                self._set_cookie(answer, secret)
            return answer
        return FileResponse(STATIC / "index.html", media_type="text/html")

    async def login(self, request: Request) -> Response:
        """Start a session for a token of the cluster."""
        if self._logins >= MOST_LOGINS:
            return problem(RefusedError(503, "Too many concurrent logins: try again in a moment."))
        self._logins += 1
        try:
            asked = await _body(request, messages.LoginRequest, LOGIN_LIMIT)
            secret = await self._viewers.log_in(asked.token, _peer(request))
        except RefusedError as error:
            return problem(error)
        finally:
            self._logins -= 1
        answer = Response(b"{}", media_type=JSON)
        self._set_cookie(answer, secret)
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session, and its streams."""
        self._viewers.log_out(self._secret(request))
        answer = Response(b"{}", media_type=JSON)
        answer.delete_cookie(
            self._viewers.cookie, secure=self._viewers.secure, httponly=True, samesite="strict"
        )
        return answer

    async def session(self, _request: Request, viewer: Viewer) -> messages.Session:
        """Return the viewer, and the views for them."""
        views = ["queue", "workloads", "what-if", "history"]
        seen = viewer.namespaces
        return messages.Session(
            user=viewer.user,
            local=viewer.local,
            namespaces=None if seen is None else sorted(seen),
            nodes=viewer.nodes,
            expires=None if viewer.expires is None else rfc3339(viewer.expires),
            views=["map", *views] if viewer.nodes else views,
        )

    async def map(self, request: Request, viewer: Viewer) -> messages.Map:
        """Return the cluster map."""
        return (await self._nodes(viewer)).map.full(request.query_params.get("resource", "cpu"))

    async def largest(self, request: Request, viewer: Viewer) -> messages.Largest:
        """Return the largest gang of a shape that fits now, per domain."""
        asked = request.query_params
        return (await self._nodes(viewer)).map.largest(asked.get("shape", ""), asked.get("key", ""))

    async def pods(self, request: Request, viewer: Viewer) -> list[messages.PodsOnNode]:
        """Return the nodes of a workload's pods."""
        following = await self._nodes(viewer)
        subject = workload_view.find(
            following.cluster, request.query_params.get("workload", ""), viewer
        )
        return workload_view.pods_on_nodes(subject)

    async def queue(self, request: Request, viewer: Viewer) -> messages.QueuePage:
        """Return a page of rows of the queue."""
        asked = request.query_params
        filters = Filters(
            namespace=asked.get("namespace", ""),
            priority=_integer(asked.get("priorityMin"), None),
            reason=asked.get("reason", ""),
        )
        limit = min(MOST_ROWS, max(1, _integer(asked.get("limit"), 200) or 1))
        return (await self._fresh()).queue.page(viewer, filters, asked.get("after", ""), limit)

    async def search(self, request: Request, viewer: Viewer) -> messages.Search:
        """Return workloads whose ID contains a text."""
        asked = request.query_params
        limit = min(MOST_ROWS, max(1, _integer(asked.get("limit"), 50) or 1))
        return workload_view.search(
            (await self._fresh()).cluster, asked.get("search", "")[:512], limit, viewer
        )

    async def workload(self, request: Request, viewer: Viewer) -> messages.Workload:
        """Return one workload, with the YAML of its owner if the viewer may get that."""
        id_, text = _id(request), ""
        workload_view.find((await self._fresh()).cluster, id_, viewer)
        secret = self._secret(request)
        if await self._viewers.may_get(secret, id_):
            text = await self._manifest(id_)
        # The state may have changed during these requests.
        following = await self._fresh()
        subject = workload_view.find(following.cluster, id_, viewer)
        return workload_view.whole(following.cluster, subject, text)

    async def why(self, request: Request, viewer: Viewer) -> messages.Why:
        """Return the reasons why no pod of the workload fits a node."""
        following = await self._nodes(viewer)
        subject = workload_view.find(following.cluster, _id(request), viewer)
        return why_not.why(following.cluster, subject, request.query_params.get("node", ""))

    async def what_if(self, request: Request, viewer: Viewer) -> WhatIfAnswer:
        """Return the outcome of changes."""
        if viewer.session in self._questions or len(self._questions) >= MOST_QUESTIONS:
            raise RefusedError(429, WHAT_IF_BUSY)
        self._questions.add(viewer.session)
        try:
            asked = await _body(request, WhatIfRequest, WHAT_IF_LIMIT)
            return await self._what_if(asked, viewer)
        finally:
            self._questions.discard(viewer.session)

    async def history(self, request: Request, viewer: Viewer) -> messages.History:
        """Return the last hours."""
        hours = _integer(request.query_params.get("hours"), 3) or 3
        return self._history.answer(min(24, max(1, hours)), viewer)

    async def events(self, request: Request, viewer: Viewer) -> Response:
        """Return the stream of changes."""
        wanted = wanted_of(request.query_params, viewer)
        secret = self._secret(request)
        stream = self._streams.open(viewer, wanted, lambda: self._viewers.viewer(secret))
        # Without this header nginx, as a proxy, would buffer the stream.
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    def _answering(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                viewer = await self._viewers.viewer(self._secret(request))
                if viewer is None:
                    raise RefusedError(401, "Log in first.")
                self._rates.count(viewer.session, time.monotonic())
                found = await answer(request, viewer)
            except RefusedError as error:
                return problem(error)
            if isinstance(found, Response):
                return found
            return Response(messages.encoded(found), media_type=JSON)

        return answered

    async def _missing(self, _request: Request) -> Response:
        return problem(RefusedError(404, "The address was not found."))

    async def _fresh(self) -> Following:
        if not self._following.synced:
            raise RefusedError(503, "The console is still reading the cluster.")
        # No view may read a state with an open trial. Callers read it before their next `await`.
        await self._following.cluster.settled()
        self._following.refresh()
        return self._following

    async def _nodes(self, viewer: Viewer) -> Following:
        if not viewer.nodes:
            raise RefusedError(403, NO_NODES)
        return await self._fresh()

    def _secret(self, request: Request) -> str:
        return request.cookies.get(self._viewers.cookie, "")

    def _set_cookie(self, answer: Response, secret: str) -> None:
        answer.set_cookie(
            self._viewers.cookie,
            secret,
            httponly=True,
            samesite="strict",
            secure=self._viewers.secure,
        )


class _Static(StaticFiles):
    """The page's files, with content types that do not depend on the machine."""

    def file_response(self, full_path: Any, *args: Any, **more: Any) -> Response:
        response = super().file_response(full_path, *args, **more)
        known = _TYPES.get(Path(full_path).suffix)
        if known is not None:
            response.headers["content-type"] = f"{known}; charset=utf-8"
        return response


async def _body(request: Request, form: type[T], limit: int) -> T:
    """Decode the body. Raises RefusedError; never reads more than the limit."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
        raise RefusedError(415, f"The body must be {JSON}.")
    parts: list[bytes] = []
    left = limit
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                left -= len(part)
                if left < 0:
                    raise RefusedError(413, f"The body must have at most {limit} bytes.")
                parts.append(part)
    except TimeoutError as error:
        raise RefusedError(408, "The body was not received in time.") from error
    except ClientDisconnect as error:
        raise RefusedError(400, "The body is incomplete.") from error
    try:
        return msgspec.json.decode(b"".join(parts), type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"The body is invalid: {error}") from error


def _peer(request: Request) -> str:
    """Return the address at the other end of the connection. Headers could contain any address."""
    return request.client.host if request.client is not None else ""


def _id(request: Request) -> str:
    found = request.path_params
    return f"{found['namespace']}/{found['kind']}/{found['name']}"


def _integer(text: str | None, usual: int | None) -> int | None:
    """Parse a whole number. Raises RefusedError."""
    if not text:
        return usual
    try:
        return int(text[:20])
    except ValueError as error:
        raise RefusedError(400, f"{text[:20]!r} is not an integer.") from error
