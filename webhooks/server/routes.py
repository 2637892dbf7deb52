"""The HTTP side: routes, the limit of a body, errors as `metav1.Status`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from webhooks.reviews.review import MalformedReviewError, status
from webhooks.routing import conversion
from webhooks.routing.reviewer import Reviewer, UnknownRouteError
from webhooks.server.intake import MIB, BusyError, Holding, Intake, Room
from webhooks.server.readiness import CACHES, SERVING, Readiness
from webhooks.server.registration import CONVERT

BODY_LIMIT = 8 * MIB
"""Bytes. An object in etcd is at most 1.5 MiB; a review carries two."""

CONVERSION_LIMIT = 16 * MIB
"""Bytes. API servers convert a whole list, or a page of it, in one review: 500 objects, as clients
ask for them, of 32 KiB each."""

LONG_CONVERSION = 256 * 1024
"""Bytes from which on a conversion leaves the event loop to the reviews that wait."""

BODY_SECONDS = 10.0
"""No API server waits this long for a webhook: a slower client is not one."""

JSON = "application/json"

_MOST_DIGITS = 15
"""Digits of an announced length. A longer number is over the limit without being read."""

Answering = Callable[[Request, bytes], Awaitable[bytes]]

PIECE = 64 * 1024
"""Bytes of an answer that are sent at a time."""


class BodyTooLargeError(Exception):
    """More bytes than the limit were sent, or announced."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a review may have {limit} bytes at most")
        self.limit = limit


def build(
    reviewer: Reviewer,
    readiness: Readiness,
    *,
    body_seconds: float = BODY_SECONDS,
    intake: Intake | None = None,
) -> Starlette:
    """The application. `body_seconds` bounds reading a body, `intake` what is held at a time."""
    rooms = intake or Intake()
    one_at_a_time = asyncio.Lock()

    async def review(request: Request, body: bytes) -> bytes:
        return reviewer.review("{phase}/{plural}".format_map(request.path_params), body)

    async def convert(_request: Request, body: bytes) -> bytes:
        if len(body) < LONG_CONVERSION:
            return conversion.review(body)
        async with one_at_a_time:
            return await asyncio.to_thread(conversion.review, body)

    routes = _pages(readiness)
    # API servers list groups, for the caches too, by converting them.
    for path, limit, answer, room, needs in (
        (CONVERT, CONVERSION_LIMIT, convert, rooms.conversions, ()),
        ("/{phase}/{plural}", BODY_LIMIT, review, rooms.reviews, CACHES),
    ):
        endpoint = _Endpoint(answer, limit, body_seconds, room, readiness, needs)
        routes.append(Route(path, cast("Any", endpoint), methods=["POST"]))
    return Starlette(routes=routes)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An ASGI application that answers reviews.

    Its room counts a body while it comes and until it is answered, and then the answer until the
    client has taken it. `needs` are the checks without which nothing is answered: without its
    caches a review would be answered as if no other object existed.
    """

    answer: Answering
    limit: int
    body_seconds: float
    room: Room
    readiness: Readiness
    needs: tuple[str, ...]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.room.open(scope["state"]["abort"]) as held:
            request = Request(scope, receive, send)
            response = self._refusal(request) or await self._response(request, held)
            if not self.readiness.holds(SERVING):
                # The process is about to end: the next review must use another connection.
                response.headers["Connection"] = "close"
            await response(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """Why no body is read, if that is so."""
        missing = [check for check in self.needs if not self.readiness.holds(check)]
        if missing:
            text = f"the webhook has not listed {', '.join(missing)} yet: try again"
            return _again(503, "ServiceUnavailable", text)
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return _failure(415, "UnsupportedMediaType", f"the body must be {JSON}")
        return None

    async def _response(self, request: Request, held: Holding) -> Response:
        """The answer to a review, or a Status that says why there is none."""
        try:
            async with asyncio.timeout(self.body_seconds):
                body = await self._body(request, held)
            held.waits = False
            response = _InPieces(await self.answer(request, body), media_type=JSON)
            self.room.hold(held, len(response.body))
        except TimeoutError:
            return _failure(408, "Timeout", f"the body did not come within {self.body_seconds:g} s")
        except ClientDisconnect:
            # Nobody reads this; it only ends the request in order.
            return _failure(400, "BadRequest", "the body ended too early")
        except BodyTooLargeError as error:
            return _failure(413, "RequestEntityTooLarge", str(error))
        except BusyError as error:
            return _again(429, "TooManyRequests", str(error))
        except UnknownRouteError as error:
            return _failure(404, "NotFound", str(error))
        except MalformedReviewError as error:
            causes = [cause.as_dict() for cause in error.causes]
            return _failure(400, "BadRequest", f"not a review: {error}", {"causes": causes})
        held.waits = True
        return response

    async def _body(self, request: Request, held: Holding) -> bytes:
        """The whole body, never more of it in memory than the limit."""
        announced = request.headers.get("content-length", "")
        # So many digits are not even read as a number.
        if announced.isdecimal() and (len(announced) > _MOST_DIGITS or int(announced) > self.limit):
            raise BodyTooLargeError(self.limit)
        chunks = []
        async for chunk in request.stream():
            if held.size + len(chunk) > self.limit:
                raise BodyTooLargeError(self.limit)
            self.room.hold(held, held.size + len(chunk))
            chunks.append(chunk)
        return b"".join(chunks)


class _InPieces(Response):
    """Sent piece by piece: one write of all of it would be buffered whole, however slow the client.

    Uvicorn waits before a piece while the client takes nothing.
    """

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        for at in range(0, len(self.body), PIECE):
            piece, more = self.body[at : at + PIECE], at + PIECE < len(self.body)
            await send({"type": "http.response.body", "body": piece, "more_body": more})


def _pages(readiness: Readiness) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return Response("ok", media_type="text/plain")

    async def readyz(_request: Request) -> Response:
        lines = [f"{check}: {problem}" for check, problem in readiness.problems.items()]
        return Response(
            "\n".join(lines) or "ok",
            status_code=503 if lines else 200,
            media_type="text/plain",
        )

    pages = {"/healthz": healthz, "/readyz": readyz}
    return [Route(path, page) for path, page in pages.items()]


def _again(code: int, reason: str, message: str) -> Response:
    """A failure after which API servers and clients try again."""
    refused = _failure(code, reason, message)
    refused.headers["Retry-After"] = "1"
    return refused


def _failure(
    code: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> Response:
    body = msgspec.json.encode(status(code, reason, message, details))
    return Response(body, status_code=code, media_type=JSON)
