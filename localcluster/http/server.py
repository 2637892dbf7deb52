"""The HTTP layer over the Api: a raw ASGI application."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from localcluster.base.errors import StatusError, unknown_path
from localcluster.base.faults import FaultPlan, inject
from localcluster.base.hooks import Documents, User
from localcluster.base.requests import (
    JSON,
    Request,
    Target,
    accepted,
    parse_query,
    resolve,
)
from localcluster.base.resources import EVENTS, ResourceInfo
from localcluster.base.store import Event, Stored
from localcluster.base.watch import Watch, failure
from localcluster.http.audit import AuditLog
from localcluster.http.calls import Call, is_true
from localcluster.http.rendering import Renderer
from localcluster.http.version import VERSION
from localcluster.rbac.attributes import attributes_of, refusal
from localcluster.registry.api import Api

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 3 * 1024 * 1024
HEALTH = frozenset({"/healthz", "/readyz", "/livez"})
OPEN = HEALTH | {"/version", "/version/"}
DOCUMENTS = ("/api", "/apis", "/openapi")


@dataclass(slots=True)
class Response:
    """A complete response."""

    code: int
    body: bytes
    media: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    """A streaming response: a watch and the encoding of its events."""

    watch: Watch
    renderer: Renderer
    info: ResourceInfo


class Application:
    """The server as an ASGI application for uvicorn."""

    def __init__(
        self,
        api: Api,
        documents: Documents,
        faults: FaultPlan,
        audit: AuditLog | None = None,
    ) -> None:
        """Serve an Api, its documents and injected faults; log every request to `audit`."""
        self._api = api
        self._documents = documents
        self._faults = faults
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = await _read(scope, receive)
        warnings: list[str] = []
        try:
            answer = await self._answer(request, warnings)
        except StatusError as error:
            answer = _failure(error)
        if isinstance(answer, Stream):
            await self._stream(request, answer, receive, send)
            return
        answer.headers += [(b"warning", _warning(text)) for text in dict.fromkeys(warnings)]
        await _send(send, answer)

    async def _answer(self, request: Request, warnings: list[str]) -> Response | Stream:
        if len(request.body) > MAX_BODY:
            message = f"Request entity too large: limit is {MAX_BODY}"
            raise StatusError(413, "RequestEntityTooLarge", message)
        if request.path in OPEN:
            return _open(request.path)
        user = self._api.tokens.authenticate(request.headers.get(b"authorization", b""))
        asked = attributes_of(request.method, request.path, request.params)
        decision = self._api.authorizer.decide(user, asked)
        code = 500
        try:
            if not decision.allowed:
                raise refusal(user.name, asked, decision.reason)
            answer = await self._faulty(request, user, warnings)
            code = answer.code if isinstance(answer, Response) else 200
        except StatusError as error:
            code = error.code
            raise
        finally:
            if self._audit is not None:
                self._audit.write(user, asked, decision, uri=request.path, code=code)
        return answer

    async def _faulty(self, request: Request, user: User, warnings: list[str]) -> Response | Stream:
        faults = self._faults.take(request.method, request.path)
        await inject(faults, after=False)
        answer = await self._route(request, user, warnings)
        await inject(faults, after=True)
        return answer

    async def _route(self, request: Request, user: User, warnings: list[str]) -> Response | Stream:
        target = resolve(self._api.registry, request.path)
        if target is not None:
            return await self._serve(request, target, user, warnings)
        if request.method == "GET":
            document = self._documents.find(
                request.path.rstrip("/") or "/", request.params, request.header(b"accept")
            )
            if document is not None:
                etag = [(b"etag", document.etag.encode())] if document.etag else []
                if document.etag and request.header(b"if-none-match") == document.etag:
                    return Response(304, b"", document.content_type, etag)
                etag.append((b"vary", b"Accept"))
                return Response(200, document.body, document.content_type, etag)
        if request.path.startswith(DOCUMENTS):
            raise unknown_path()
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")

    async def _serve(
        self, request: Request, target: Target, user: User, warnings: list[str]
    ) -> Response | Stream:
        media, form = accepted(request.header(b"accept"))
        include = request.params.get("includeObject", "Metadata")
        renderer = Renderer(target.info, media, form, self._api.clock.now(), include)
        converts = target.info.storage_group is not None
        if converts:
            target.info = EVENTS
        call = Call(self._api, request, target, user, warnings, converts=converts)
        verb = call.verb()
        if verb in {"list", "watch"}:
            return await self._collection(request, target, renderer, watch=verb == "watch")
        code, stored = await getattr(call, verb)()
        if isinstance(stored, Stored):
            view = await self._api.converter.view(target.info, stored)
            return Response(code, renderer.one(view), media)
        return Response(code, msgspec.json.encode(stored), JSON)

    async def _collection(
        self, request: Request, target: Target, renderer: Renderer, *, watch: bool
    ) -> Response | Stream:
        params = request.params
        selectors = {
            "label_selector": params.get("labelSelector", ""),
            "field_selector": params.get("fieldSelector", ""),
            "revision": params.get("resourceVersion", ""),
            "match": params.get("resourceVersionMatch", ""),
        }
        if target.name:
            selectors["field_selector"] = f"metadata.name={target.name}"
        if not watch:
            page = self._api.list(
                target.info,
                target.namespace,
                limit=int(params.get("limit") or 0),
                continue_token=params.get("continue", ""),
                **selectors,
            )
            items = await self._api.converter.views(target.info, page.items)
            return Response(200, renderer.page(replace(page, items=list(items))), renderer.media)
        initial = params.get("sendInitialEvents")
        timeout = params.get("timeoutSeconds")
        stream = self._api.watch(
            target.info,
            target.namespace,
            bookmarks=is_true(params.get("allowWatchBookmarks")),
            send_initial=None if initial is None else is_true(initial),
            timeout=float(timeout) if timeout else None,
            **selectors,
        )
        return Stream(stream, renderer, target.info)

    async def _stream(self, request: Request, answer: Stream, receive: Receive, send: Send) -> None:
        """Write a watch until it ends or the client disconnects."""
        line = answer.renderer.lines()
        mangle = self._faults.mangler(request.path)
        gone = asyncio.create_task(_until_gone(receive, answer.watch))
        headers = [(b"content-type", JSON.encode()), (b"cache-control", b"no-cache, private")]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            while events := await self._next(answer):
                if mangle is not None:
                    events = mangle(events)
                body = b"".join(map(line, events))
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            answer.watch.close()
            gone.cancel()

    async def _next(self, answer: Stream) -> list[Event]:
        """Return the pending events in the requested version; a failure is the last event."""
        events = await answer.watch.batch()
        try:
            return await self._api.converter.events(answer.info, events)
        except StatusError as error:
            answer.watch.close()
            return [failure(error)]


def _open(path: str) -> Response:
    if path in HEALTH:
        return Response(200, b"ok", "text/plain; charset=utf-8")
    return Response(200, msgspec.json.encode(VERSION))


def _failure(error: StatusError) -> Response:
    headers = [(name.lower().encode(), text.encode()) for name, text in error.headers.items()]
    return Response(error.code, msgspec.json.encode(error.to_json()), JSON, headers)


def _warning(text: str) -> bytes:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{quoted}"'.encode("latin-1", "replace")


async def _read(scope: Scope, receive: Receive) -> Request:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body") or len(body) > MAX_BODY:
            break
    return Request(
        method=scope["method"],
        path=scope["path"],
        headers=dict(scope["headers"]),
        params=parse_query(scope["query_string"]),
        body=body,
    )


async def _send(send: Send, answer: Response) -> None:
    headers = [
        (b"content-type", answer.media.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        (b"cache-control", b"no-cache, private"),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _until_gone(receive: Receive, watch: Watch) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    watch.close()
