"""The HTTP side: routes, the limit of a body, errors as `metav1.Status`."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect

from webhooks.readiness import Readiness
from webhooks.review import MalformedReviewError, status
from webhooks.reviewer import Reviewer, UnknownRouteError

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes. An object in etcd is at most 1.5 MiB; a review carries two."""

BODY_SECONDS = 10.0
"""No API server waits this long for a webhook: whoever is slower is none."""

JSON = "application/json"


class BodyTooLargeError(Exception):
    """More than BODY_LIMIT bytes were sent, or announced."""


def build(
    reviewer: Reviewer, readiness: Readiness, *, body_seconds: float = BODY_SECONDS
) -> FastAPI:
    """The application; it keeps no state of its own. `body_seconds` bounds reading a body."""
    app = FastAPI(title="Muster webhook", openapi_url=None, docs_url=None, redoc_url=None)

    @app.post("/{phase}/{plural}")
    async def review(phase: str, plural: str, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return _failure(415, "UnsupportedMediaType", f"the body must be {JSON}")
        try:
            async with asyncio.timeout(body_seconds):
                body = await _body(request)
            answer = reviewer.review(f"{phase}/{plural}", body)
        except TimeoutError:
            return _failure(408, "Timeout", f"the body did not come within {body_seconds:g} s")
        except ClientDisconnect:
            # Nobody reads this; it only ends the request in order.
            return _failure(400, "BadRequest", "the body ended too early")
        except BodyTooLargeError:
            return _failure(
                413, "RequestEntityTooLarge", f"a review may have {BODY_LIMIT} bytes at most"
            )
        except UnknownRouteError as error:
            return _failure(404, "NotFound", str(error))
        except MalformedReviewError as error:
            causes = [cause.as_dict() for cause in error.causes]
            return _failure(400, "BadRequest", f"not a review: {error}", {"causes": causes})
        return Response(answer, media_type=JSON)

    _add_pages(app, readiness)
    return app


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


async def _body(request: Request) -> bytes:
    """The whole body, never more of it in memory than the limit."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > BODY_LIMIT:
        raise BodyTooLargeError
    chunks = []
    left = BODY_LIMIT
    async for chunk in request.stream():
        left -= len(chunk)
        if left < 0:
            raise BodyTooLargeError
        chunks.append(chunk)
    return b"".join(chunks)


def _failure(
    code: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> Response:
    body = msgspec.json.encode(status(code, reason, message, details))
    return Response(body, status_code=code, media_type=JSON)
