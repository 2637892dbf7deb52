"""The HTTP side: routes, the limit of a body, errors as `metav1.Status`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect

from webhooks import conversion
from webhooks.readiness import SERVING, Readiness
from webhooks.registration import CONVERT
from webhooks.review import MalformedReviewError, status
from webhooks.reviewer import Reviewer, UnknownRouteError

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes. An object in etcd is at most 1.5 MiB; a review carries two."""

CONVERSION_LIMIT = 64 * 1024 * 1024
"""Bytes. API servers convert a whole list, or a page of it, in one review."""

LONG_CONVERSION = 256 * 1024
"""Bytes from which on a conversion leaves the event loop to the reviews that wait."""

BODY_SECONDS = 10.0
"""No API server waits this long for a webhook: a slower client is not one."""

JSON = "application/json"

Answering = Callable[[bytes], Awaitable[bytes]]


class BodyTooLargeError(Exception):
    """More bytes than the limit were sent, or announced."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a review may have {limit} bytes at most")
        self.limit = limit


def build(
    reviewer: Reviewer, readiness: Readiness, *, body_seconds: float = BODY_SECONDS
) -> FastAPI:
    """The application; it keeps no state of its own. `body_seconds` bounds reading a body."""
    app = FastAPI(title="Muster webhook", openapi_url=None, docs_url=None, redoc_url=None)

    async def answered(request: Request, limit: int, answer: Answering) -> Response:
        response = await _answered(request, limit, body_seconds, answer)
        if not readiness.holds(SERVING):
            # The process is about to end: the next review must use another connection.
            response.headers["Connection"] = "close"
        return response

    async def review(request: Request) -> Response:
        route = f"{request.path_params['phase']}/{request.path_params['plural']}"

        async def answer(body: bytes) -> bytes:
            return reviewer.review(route, body)

        return await answered(request, BODY_LIMIT, answer)

    async def convert(request: Request) -> Response:
        async def answer(body: bytes) -> bytes:
            if len(body) < LONG_CONVERSION:
                return conversion.review(body)
            return await asyncio.to_thread(conversion.review, body)

        return await answered(request, CONVERSION_LIMIT, answer)

    # Plain routes: nothing of a review is a parameter, and FastAPI's own would cost more than
    # most rules do.
    app.add_route(CONVERT, convert, methods=["POST"])
    app.add_route("/{phase}/{plural}", review, methods=["POST"])
    _add_pages(app, readiness)
    return app


async def _answered(request: Request, limit: int, seconds: float, answer: Answering) -> Response:
    """The answer to a review, or a Status that says why there is none."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
        return _failure(415, "UnsupportedMediaType", f"the body must be {JSON}")
    try:
        async with asyncio.timeout(seconds):
            body = await _body(request, limit)
        return Response(await answer(body), media_type=JSON)
    except TimeoutError:
        return _failure(408, "Timeout", f"the body did not come within {seconds:g} s")
    except ClientDisconnect:
        # Nobody reads this; it only ends the request in order.
        return _failure(400, "BadRequest", "the body ended too early")
    except BodyTooLargeError as error:
        return _failure(413, "RequestEntityTooLarge", str(error))
    except UnknownRouteError as error:
        return _failure(404, "NotFound", str(error))
    except MalformedReviewError as error:
        causes = [cause.as_dict() for cause in error.causes]
        return _failure(400, "BadRequest", f"not a review: {error}", {"causes": causes})


def _add_pages(app: FastAPI, readiness: Readiness) -> None:
    @app.get("/healthz")
    async def healthz() -> Response:
        return Response("ok", media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        lines = [f"{check}: {problem}" for check, problem in readiness.problems.items()]
        return Response(
            "\n".join(lines) or "ok",
            status_code=503 if lines else 200,
            media_type="text/plain",
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _body(request: Request, limit: int) -> bytes:
    """The whole body, never more of it in memory than the limit."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        if int(announced) > limit:
            raise BodyTooLargeError(limit)
        # The parser takes no more than was announced.
        return await request.body()
    chunks = []
    left = limit
    async for chunk in request.stream():
        left -= len(chunk)
        if left < 0:
            raise BodyTooLargeError(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _failure(
    code: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> Response:
    body = msgspec.json.encode(status(code, reason, message, details))
    return Response(body, status_code=code, media_type=JSON)
