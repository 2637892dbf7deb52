"""The console's routes: the page, its requests, and the stream of changes.

Data that a viewer may not see is left out by the views, or rejected here with 403.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import Depends, Query, Request
from pydantic import AfterValidator
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from analysis.fit.messages import FitAnswer, FitRequest
from analysis.what_if.messages import WhatIfAnswer, WhatIfRequest
from console.access.guard import JSON, Guard, Hosts, problem
from console.access.rate import Rates
from console.base import messages
from console.base.protocols import (
    NO_NODES,
    WHAT_IF_BUSY,
    Creation,
    Fit,
    Manifest,
    RefusedError,
    Viewer,
    Viewers,
    WhatIf,
)
from console.base.times import rfc3339
from console.fit import FitLimits
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.api import Api
from console.serving.stream import Streams, wanted_of
from console.views import why_not
from console.views import workload as workload_view
from console.views import workloads as workloads_view
from console.views.queue import Filters
from console.views.workloads import WorkloadFilters

STATIC: Final = Path(__file__).parents[1] / "static"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

LOGIN_LIMIT: Final = 16 * 1024
"""Bytes of the body of a login, which is a token. A longer one gets status 413."""

WHAT_IF_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of the body of a what-if question: a million characters of manifests. A longer one gets
status 413."""

FIT_LIMIT: Final = 1024 * 1024
"""Bytes of the body of a fit question. A longer one gets status 413."""

BODY_SECONDS: Final = 20.0
"""Seconds that a body may take to arrive."""

MOST_LOGINS: Final = 64
"""Logins that are read or reviewed at a time: clients without a session must not occupy all
connections."""

MOST_QUESTIONS: Final = 16
"""Concurrent what-if questions, one per session. Those whose body is still being sent count."""

MOST_ROWS: Final = 500
"""Rows of the queue, or of the workloads, in one response."""

MOST_LISTED: Final = 500
"""Pods of a workload whose tree is opened in the list. Further ones are counted."""

T = TypeVar("T")

EVENTS: Final = (
    messages.MapChange,
    messages.QueueChange,
    messages.Workload,
    messages.WorkloadsChange,
    messages.HistoryStep,
    messages.Cluster,
)
"""Messages of the stream of changes."""

_WORKLOAD: Final = "/api/workloads/{namespace}/{kind}/{name}"


async def _viewer(request: Request) -> Viewer:
    server: Server = request.app.state.server
    return await server.viewer(request)


def _id(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def _limited(least: int, most: int) -> AfterValidator:
    return AfterValidator(lambda number: min(most, max(least, number)))


# FastAPI resolves these types of parameters as it adds the routes.
CurrentViewer = Annotated[Viewer, Depends(_viewer)]
WorkloadId = Annotated[str, Depends(_id)]
Listed = Annotated[WorkloadFilters, Depends()]
Rows = Annotated[int, _limited(1, MOST_ROWS)]
Hours = Annotated[int, _limited(1, 24)]


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
        fit: Fit,
    ) -> None:
        """Store the parts. `streams` runs alongside the server."""
        self._following = following
        self._viewers = viewers
        self._streams = streams
        self._manifest = manifest
        self._what_if = what_if
        self._fit = fit
        self._fits = FitLimits()
        self._history = history
        self._rates = Rates()
        self._logins = 0
        self._questions: set[str] = set()  # sessions with a question

    def application(self, hosts: Hosts) -> ASGIApp:
        """Return the application; `hosts` are its own names."""
        return Guard(self.routes(), hosts)

    def routes(self) -> Api:
        """Return the routes; every path outside of the API returns the page."""
        api = Api()
        api.state.server = self
        for path, handler in (
            ("/api/session", self.session),
            ("/api/map", self.map),
            ("/api/map/largest", self.largest),
            ("/api/map/pods", self.pods),
            ("/api/queue", self.queue),
            ("/api/workloads", self.workloads),
            (_WORKLOAD, self.workload),
            (f"{_WORKLOAD}/tree", self.tree),
            (f"{_WORKLOAD}/why", self.why),
            ("/api/history", self.history),
        ):
            api.add(path, handler)
        api.add("/api/events", self.events, events=EVENTS)
        api.add("/api/what-if", self.what_if, method="POST", body=WhatIfRequest)
        api.add("/api/fit", self.fit, method="POST", body=FitRequest)
        api.add("/api/login", self.login, method="POST", body=messages.LoginRequest)
        api.add("/api/logout", self.logout, method="POST")
        api.add_route("/api/{rest:path}", self._missing, methods=["GET", "POST"])
        api.mount("/static", _Static(directory=STATIC))
        api.add_route("/{rest:path}", self.page)
        return api

    async def viewer(self, request: Request) -> Viewer:
        """Return the viewer of a request, and count it. Raises RefusedError."""
        viewer = await self._viewers.viewer(self._secret(request))
        if viewer is None:
            raise RefusedError(401, "Log in first.")
        self._rates.count(viewer.session, time.monotonic())
        return viewer

    async def page(self, request: Request) -> Response:
        """Return the page, and for a valid key the cookie of a new session."""
        key = request.query_params.get("key")
        # A prefetch by the browser must not use up the key.
        if key is not None and "prefetch" not in request.headers.get("sec-purpose", ""):
            # A redirect removes the key from the address bar and the history.
            response = RedirectResponse("/", 303)
            secret = self._viewers.use_key(key)
            if secret is not None:
                self._set_cookie(response, secret)
            return response
        return FileResponse(STATIC / "index.html", media_type="text/html")

    async def login(self, request: Request) -> Response:
        """Start a session for a token of the cluster."""
        if self._logins >= MOST_LOGINS:
            raise RefusedError(503, "Too many concurrent logins: try again in a moment.")
        self._logins += 1
        try:
            asked = await _body(request, messages.LoginRequest, LOGIN_LIMIT)
            secret = await self._viewers.log_in(asked.token, _peer(request))
        finally:
            self._logins -= 1
        response = Response(b"{}", media_type=JSON)
        self._set_cookie(response, secret)
        return response

    async def logout(self, request: Request) -> Response:
        """End the session, and its streams."""
        self._viewers.log_out(self._secret(request))
        response = Response(b"{}", media_type=JSON)
        response.delete_cookie(
            self._viewers.cookie, secure=self._viewers.secure, httponly=True, samesite="strict"
        )
        return response

    async def session(self, viewer: CurrentViewer) -> messages.Session:
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

    async def map(self, viewer: CurrentViewer, resource: str = "cpu") -> messages.Map:
        """Return the cluster map."""
        return (await self._nodes(viewer)).map.full(resource)

    async def largest(
        self, viewer: CurrentViewer, shape: str = "", key: str = ""
    ) -> messages.Largest:
        """Return the largest gang of a shape that fits now, per domain."""
        return (await self._nodes(viewer)).map.largest(shape, key)

    async def pods(self, viewer: CurrentViewer, workload: str = "") -> list[messages.PodsOnNode]:
        """Return the nodes of a workload's pods."""
        following = await self._nodes(viewer)
        subject = workload_view.find(following.cluster, workload, viewer)
        return workload_view.pods_on_nodes(subject)

    async def queue(
        self,
        viewer: CurrentViewer,
        *,
        namespace: str = "",
        priority_min: Annotated[int | None, Query(alias="priorityMin")] = None,
        reason: str = "",
        limit: Rows = 200,
        after: str = "",
    ) -> messages.QueuePage:
        """Return a page of rows of the queue."""
        filters = Filters(namespace=namespace, priority=priority_min, reason=reason)
        return (await self._fresh()).queue.page(viewer, filters, after, limit)

    async def workloads(
        self,
        viewer: CurrentViewer,
        *,
        filters: Listed,
        limit: Rows = 200,
        after: str = "",
    ) -> messages.WorkloadsPage:
        """Return a page of rows of the workloads that run, wait, or have finished recently."""
        following = await self._fresh()
        return await workloads_view.page(
            following.workloads, viewer, filters, after, limit,
            fresh=self._fresh, clock=following.clock,
        )  # fmt: skip

    async def workload(
        self, request: Request, viewer: CurrentViewer, id_: WorkloadId
    ) -> messages.Workload:
        """Return one workload, with the YAML of its owner if the viewer may get that."""
        text = ""
        workload_view.find((await self._fresh()).cluster, id_, viewer)
        secret = self._secret(request)
        if await self._viewers.may_get(secret, id_):
            text = await self._manifest(id_)
        # The state may have changed during these requests.
        following = await self._fresh()
        subject = workload_view.find(following.cluster, id_, viewer)
        return workload_view.complete_view(following.cluster, subject, text)

    async def tree(self, viewer: CurrentViewer, id_: WorkloadId) -> messages.Branch:
        """Return the groups of a workload with their first pods."""
        cluster = (await self._fresh()).cluster
        subject = workload_view.find(cluster, id_, viewer)
        return workload_view.tree_of(cluster, subject, most_pods=MOST_LISTED)

    async def why(self, viewer: CurrentViewer, id_: WorkloadId, node: str = "") -> messages.Why:
        """Return the reasons why no pod of the workload fits a node."""
        following = await self._nodes(viewer)
        subject = workload_view.find(following.cluster, id_, viewer)
        return why_not.why(following.cluster, subject, node)

    async def what_if(self, request: Request, viewer: CurrentViewer) -> WhatIfAnswer:
        """Return the outcome of changes."""
        if viewer.session in self._questions or len(self._questions) >= MOST_QUESTIONS:
            raise RefusedError(429, WHAT_IF_BUSY)
        self._questions.add(viewer.session)
        try:
            asked = await _body(request, WhatIfRequest, WHAT_IF_LIMIT)
            return await self._what_if(asked, viewer)
        finally:
            self._questions.discard(viewer.session)

    async def fit(self, request: Request, viewer: CurrentViewer) -> FitAnswer:
        """Return whether workloads would fit now: where, whom they would evict, or why not."""
        secret = self._secret(request)

        async def may_create(creation: Creation) -> bool:
            return await self._viewers.may_create(secret, creation)

        with self._fits.admitted(viewer.user):
            asked = await _body(request, FitRequest, FIT_LIMIT)
            self._fits.count(viewer.user, len(asked.workloads))
            return await self._fit(asked, viewer, may_create)

    async def history(self, viewer: CurrentViewer, hours: Hours = 3) -> messages.History:
        """Return the last hours."""
        return self._history.last_hours(hours, viewer)

    async def events(
        self, request: Request, viewer: CurrentViewer, views: str = "", resource: str = "cpu"
    ) -> Response:
        """Return the stream of `map`, `queue`, `workloads`, `history` and one `workload:ID`."""
        wanted = wanted_of(views, resource, viewer)
        secret = self._secret(request)
        stream = self._streams.open(viewer, wanted, lambda: self._viewers.viewer(secret))
        # Without this header nginx, as a proxy, would buffer the stream.
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

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

    def _set_cookie(self, response: Response, secret: str) -> None:
        response.set_cookie(
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
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"The body is invalid: {error}") from error


def _peer(request: Request) -> str:
    """Return the address at the other end of the connection. Headers could contain any address."""
    return request.client.host if request.client is not None else ""
