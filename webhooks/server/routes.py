"""HTTP: routes, limits of bodies, errors as `metav1.Status`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from webhooks.reviews.review import MalformedReviewError, status
from webhooks.routing import conversion
from webhooks.routing.reviewer import Reviewer, UnknownRouteError
from webhooks.server.intake import MIB, BusyError, ByteBudget, Intake, RequestBytes
from webhooks.server.readiness import CACHES, SERVING, Readiness
from webhooks.server.registration import CONVERT

BODY_LIMIT = 8 * MIB
"""Bytes of a review. An object in etcd is at most 1.5 MiB, and a review carries two."""

CONVERSION_LIMIT = 16 * MIB
"""Bytes of a conversion.

API servers convert a complete list, or a page of it, in one review: 500 objects, as clients request
them, of 32 KiB each.
"""

LONG_CONVERSION = 256 * 1024
"""Bytes from which a conversion runs in a thread, so that reviews do not wait for it."""

BODY_SECONDS = 10.0
"""Seconds to receive a body. No API server waits this long for a webhook."""

JSON = "application/json"

_MOST_DIGITS = 15
"""Digits of an announced length. A longer number is over the limit without being parsed."""

Handler = Callable[[Request, bytes], Awaitable[bytes]]

PIECE = 64 * 1024
"""Bytes of a response that are sent at a time."""


class BodyTooLargeError(Exception):
    """A body is larger than the limit, or is announced as larger."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"must have at most {limit} bytes")
        self.limit = limit


def build(
    reviewer: Reviewer,
    readiness: Readiness,
    *,
    body_seconds: float = BODY_SECONDS,
    intake: Intake | None = None,
) -> FastAPI:
    """Build the application; `body_seconds` limits reading, `intake` the memory of bodies."""
    rooms = intake or Intake()
    one_at_a_time = asyncio.Lock()

    async def review(request: Request, body: bytes) -> bytes:
        return reviewer.review("{phase}/{plural}".format_map(request.path_params), body)

    async def convert(_request: Request, body: bytes) -> bytes:
        if len(body) < LONG_CONVERSION:
            return conversion.review(body)
        # One at a time: the memory limit of the process covers one large conversion.
        async with one_at_a_time:
            return await asyncio.to_thread(conversion.review, body)

    application = _pages(readiness)
    # A conversion needs no caches: API servers list groups, for these caches too, by converting
    # them.
    for path, limit, handler, room, needs in (
        (CONVERT, CONVERSION_LIMIT, convert, rooms.conversions, ()),
        ("/{phase}/{plural}", BODY_LIMIT, review, rooms.reviews, CACHES),
    ):
        endpoint = _Endpoint(handler, limit, body_seconds, room, readiness, needs)
        # A plain route: FastAPI would read the body before the limits apply.
        application.router.routes.append(Route(path, cast("Any", endpoint), methods=["POST"]))
    return application


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An ASGI application that responds to reviews.

    Its room counts a body from its first byte until the response, and then the response until the
    client has read it. `needs` are the checks without which it responds with 503.
    """

    handler: Handler
    limit: int
    body_seconds: float
    room: ByteBudget
    readiness: Readiness
    needs: tuple[str, ...]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.room.open(scope["state"]["abort"]) as held:
            request = Request(scope, receive, send)
            response = self._refusal(request) or await self._response(request, held)
            if not self.readiness.holds(SERVING):
                # The process ends soon, so the next review must use another connection.
                response.headers["Connection"] = "close"
            await response(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """Return the response if no body is read, else None."""
        # Without its caches a review would be handled as if no other object existed.
        missing = [check for check in self.needs if not self.readiness.holds(check)]
        if missing:
            text = f"the webhook has not listed {', '.join(missing)} yet. Retry later"
            return _retry_later(503, "ServiceUnavailable", text)
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return _failure(415, "UnsupportedMediaType", f"the content type must be {JSON}")
        return None

    async def _response(self, request: Request, held: RequestBytes) -> Response:
        """Return the response to a review, or a Status with the error."""
        try:
            async with asyncio.timeout(self.body_seconds):
                body = await self._body(request, held)
            # The request is complete: from here on no other request may abort it.
            held.waits = False
            response = _InPieces(await self.handler(request, body), media_type=JSON)
            self.room.hold(held, len(response.body))
        except TimeoutError:
            return _failure(
                408,
                "Timeout",
                f"the webhook did not receive the complete body within {self.body_seconds:g} s",
            )
        except ClientDisconnect:
            # The client is gone. The response only ends the request in order.
            return _failure(
                400, "BadRequest", "the client closed the connection before the end of the body"
            )
        except BodyTooLargeError as error:
            return _failure(413, "RequestEntityTooLarge", str(error))
        except BusyError as error:
            return _retry_later(429, "TooManyRequests", str(error))
        except UnknownRouteError as error:
            return _failure(404, "NotFound", str(error))
        except MalformedReviewError as error:
            causes = [cause.as_dict() for cause in error.causes]
            return _failure(400, "BadRequest", f"not a valid review: {error}", {"causes": causes})
        held.waits = True
        return response

    async def _body(self, request: Request, held: RequestBytes) -> bytes:
        """Return the complete body; hold no more of it in memory than the limit."""
        announced = request.headers.get("content-length", "")
        # Do not parse so many digits as a number: the cost grows with their square.
        if announced.isdecimal() and (len(announced) > _MOST_DIGITS or int(announced) > self.limit):
            raise BodyTooLargeError(self.limit)
        chunks = []
        async for chunk in request.stream():
            # The announced length may be missing or wrong, as with a chunked body.
            if held.size + len(chunk) > self.limit:
                raise BodyTooLargeError(self.limit)
            self.room.hold(held, held.size + len(chunk))
            chunks.append(chunk)
        return b"".join(chunks)


class _InPieces(Response):
    """A response in pieces."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        # One write of the complete body would be buffered, however slow the client is. Uvicorn
        # waits before each piece while the client does not read.
        for at in range(0, len(self.body), PIECE):
            piece, more = self.body[at : at + PIECE], at + PIECE < len(self.body)
            await send({"type": "http.response.body", "body": piece, "more_body": more})


def _pages(readiness: Readiness) -> FastAPI:
    application = FastAPI(
        title="Muster webhook",
        openapi_url="/openapi.json",
        # The documentation pages of FastAPI load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        default_response_class=PlainTextResponse,
    )

    @application.get("/healthz")
    async def healthz() -> str:
        """Return `ok` while the process answers."""
        return "ok"

    @application.get("/readyz", responses={503: {"description": "One line per unmet check."}})
    async def readyz(response: Response) -> str:
        """Return `ok`, or one line for each check that is not met."""
        problems = readiness.problems
        response.status_code = 503 if problems else 200
        return "\n".join(f"{check}: {problem}" for check, problem in problems.items()) or "ok"

    return application


def _retry_later(code: int, reason: str, message: str) -> Response:
    """Return a failure after which API servers and clients retry."""
    refused = _failure(code, reason, message)
    refused.headers["Retry-After"] = "1"
    return refused


def _failure(
    code: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> Response:
    body = msgspec.json.encode(status(code, reason, message, details))
    return Response(body, status_code=code, media_type=JSON)
