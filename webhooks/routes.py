"""The HTTP side: routes, the limit of a body, errors as `metav1.Status`."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from webhooks.readiness import Readiness
from webhooks.review import MalformedReviewError, status
from webhooks.reviewer import Reviewer, UnknownRouteError

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes. An object in etcd is at most 1.5 MiB; a review carries two."""

JSON = "application/json"


class BodyTooLargeError(Exception):
    """More than BODY_LIMIT bytes were sent, or announced."""


def build(reviewer: Reviewer, readiness: Readiness) -> FastAPI:
    """The application; it keeps no state of its own."""
    app = FastAPI(title="Muster webhook", openapi_url=None, docs_url=None, redoc_url=None)

    @app.post("/{phase}/{plural}")
    async def review(phase: str, plural: str, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return _failure(415, "UnsupportedMediaType", f"the body must be {JSON}")
        try:
            answer = reviewer.review(f"{phase}/{plural}", await _body(request))
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

    return app


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
