"""A server with the console's URLs and messages, whose responses and events tests control.

It serves the page's own files with the console's headers, so a page that needs more permissions
than they allow fails here too.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from e2e.console.clusters import Contents, Json
from e2e.console.texts import STATIC

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PATIENCE: Final = 60.0  # seconds
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
TOKEN: Final = "a-token-that-is-good"  # valid only for this fake


class Fake:
    """One fake server; `port` is the same after a restart."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.local = True
        self.logged_in = True
        self.views = ["map", "queue", "workloads", "what-if", "history"]
        self.asked: list[str] = []
        self.tried: list[Json] = []
        self.released = asyncio.Event()
        """Gate of the responses: those already computed are delayed until it is set."""
        self.released.set()
        self._viewers: set[asyncio.Queue[str]] = set()
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        config = uvicorn.Config(
            self._app(), host="127.0.0.1", port=self.port, log_level="error", lifespan="off"
        )
        config.timeout_graceful_shutdown = 1
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve())
        async with asyncio.timeout(PATIENCE):
            while not self._server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """End the server and every stream, as if its process were killed."""
        assert self._server is not None
        assert self._task is not None
        for viewer in self._viewers:
            viewer.put_nowait("")
        self._server.should_exit = True
        await self._task

    def send(self, event: str, data: Json | None = None) -> None:
        """Send an event to all viewers."""
        text = f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
        for viewer in self._viewers:
            viewer.put_nowait(text)

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def _app(self) -> ASGIApp:
        app = Starlette(
            routes=[
                Route("/api/session", self._session),
                Route("/api/login", self._login, methods=["POST"]),
                Route("/api/logout", self._logout, methods=["POST"]),
                Route("/api/map", self._map),
                Route("/api/map/largest", self._largest),
                Route("/api/map/pods", self._pods),
                Route("/api/queue", self._queue),
                Route("/api/workloads", self._workloads),
                Route("/api/workloads/{ns}/{kind}/{name}", self._workload),
                Route("/api/workloads/{ns}/{kind}/{name}/tree", self._tree),
                Route("/api/workloads/{ns}/{kind}/{name}/why", self._why),
                Route("/api/what-if", self._what_if, methods=["POST"]),
                Route("/api/fit", self._fit, methods=["POST"]),
                Route("/api/history", self._history),
                Route("/api/events", self._events),
                Mount("/static", StaticFiles(directory=STATIC)),
                Route("/{rest:path}", self._page),
            ]
        )

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope["path"]
            self.asked.append(path)

            async def with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], *HEADERS]
                await send(message)

            out = path.startswith("/api/") and path != "/api/login" and not self.logged_in
            refusal = JSONResponse({"message": "Log in first."}, 401)
            await (refusal if out else app)(scope, receive, with_headers)

        return guarded

    async def _page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _session(self, request: Request) -> Response:
        return JSONResponse(
            {
                "user": self.contents.user,
                "local": self.local,
                "namespaces": None,
                "nodes": True,
                "expires": None,
                "views": self.views,
            }
        )

    async def _login(self, request: Request) -> Response:
        self.logged_in = (await request.json())["token"] == TOKEN
        if self.logged_in:
            return JSONResponse({})
        return JSONResponse({"message": "The cluster does not accept this token."}, 401)

    async def _logout(self, request: Request) -> Response:
        self.logged_in = False
        return JSONResponse({})

    async def _map(self, request: Request) -> Response:
        made = JSONResponse(self.contents.map(request.query_params.get("resource", "cpu")))
        await self.released.wait()
        return made

    async def _largest(self, request: Request) -> Response:
        if "=" not in request.query_params["shape"]:
            message = "A shape must have the form cpu=1,memory=2Gi, with each resource once."
            return JSONResponse({"message": message}, 400)
        return JSONResponse(self.contents.largest(request.query_params["key"]))

    async def _pods(self, request: Request) -> Response:
        return JSONResponse(self.contents.pods(request.query_params["workload"]))

    async def _queue(self, request: Request) -> Response:
        chosen = request.query_params
        items = [
            item
            for item in self.contents.queue
            if chosen.get("namespace", item["namespace"]) == item["namespace"]
            and chosen.get("reason", item["reason"]) == item["reason"]
            and int(chosen.get("priorityMin", item["priority"])) <= item["priority"]
        ]
        start, limit = int(chosen.get("after", 0)), int(chosen.get("limit", 200))
        end = start + limit
        return JSONResponse(
            {
                "items": items[start:end],
                "next": str(end) if end < len(items) else None,
                "total": len(items),
            }
        )

    async def _workloads(self, request: Request) -> Response:
        chosen = request.query_params
        found = [
            row
            for row in self.contents.listed
            if chosen.get("search", "") in row["id"]
            and all(chosen.get(key, row[key]) == row[key] for key in ("namespace", "kind"))
        ]
        counts = {
            status: sum(row["status"] == status for row in found)
            for status in ("running", "waiting", "finished")
        }
        items = [row for row in found if chosen.get("status", row["status"]) == row["status"]]
        start, limit = int(chosen.get("after", 0)), int(chosen.get("limit", 200))
        end = start + limit
        page = {"items": items[start:end], "total": len(items), **counts}
        return JSONResponse({**page, "next": str(end) if end < len(items) else None})

    async def _tree(self, request: Request) -> Response:
        return JSONResponse(self.contents.workloads["/".join(request.path_params.values())]["tree"])

    async def _workload(self, request: Request) -> Response:
        found = self.contents.workloads.get("/".join(request.path_params.values()))
        if found:
            return JSONResponse(found)
        message = "The workload was not found, or you do not have access to it."
        return JSONResponse({"message": message}, 404)

    async def _why(self, request: Request) -> Response:
        node = request.query_params["node"]
        full = self.contents.full.get(node, 0.0) > 0.5
        reasons = ["Insufficient cpu: 8 requested, 2 free"] if full else []
        return JSONResponse({"node": node, "fits": not full, "reasons": reasons})

    async def _what_if(self, request: Request) -> Response:
        self.tried.append(await request.json())
        pods = [{"name": f"new-{n}", "node": f"node-2-3-{n % 8 + 1}"} for n in range(24)]
        return JSONResponse(
            {
                "placements": [{"id": "research/PodGroup/train-3", "pods": pods}],
                "waiting": [
                    {
                        "id": "research/PodGroup/train-5",
                        "sentence": "0/56 nodes are available: 48 Insufficient cpu, "
                        "8 Insufficient nvidia.com/gpu.",
                    }
                ],
                "evicted": [{"id": "batch/PodGroup/nightly", "by": "research/PodGroup/train-3"}],
                "lines": [
                    "24 pods of 1 workload would be scheduled.",
                    "1 workload with 8 pods would be evicted.",
                    "1 workload would still wait.",
                ],
            }
        )

    async def _fit(self, request: Request) -> Response:
        self.tried.append(await request.json())
        evicts = {"id": "batch/PodGroup/nightly", "pods": 8, "units": 1, "priority": 0}
        rest: dict[str, Any] = {"hiddenWorkloads": 0, "hiddenPods": 0, "knownFrom": None}
        placed = {
            "id": "research/PodGroup/new", "fits": "afterEviction", "pods": 24, "sentence": "",
            "domains": [], "nodes": [{"name": "node-2-3-1", "pods": 24}], "evicts": [evicts],
        }  # fmt: skip
        waits = {
            "id": "research/PodGroup/large", "fits": "no", "pods": 0, "domains": [], "nodes": [],
            "sentence": "0/56 nodes are available: 48 Insufficient cpu.", "evicts": [],
        }  # fmt: skip
        late = {**rest, "knownFrom": "2026-11-30T12:00:00Z"}
        roots = [{**placed, **rest}, {**waits, **late}]
        return JSONResponse({"workloads": [{"fits": "no", "roots": roots, "notes": ["a note"]}]})

    async def _history(self, request: Request) -> Response:
        return JSONResponse(self.contents.history)

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        viewer: asyncio.Queue[str] = asyncio.Queue()
        self._viewers.add(viewer)
        try:
            yield ": here\n\n"
            while text := await viewer.get():
                yield text
        finally:
            self._viewers.discard(viewer)


@asynccontextmanager
async def served(contents: Contents) -> AsyncIterator[Fake]:
    """Run the fake server with these contents during the block."""
    fake = Fake(contents)
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()
