"""ConversionReview `apiextensions.k8s.io/v1`: objects of our kinds from one version to another."""

from __future__ import annotations

import time
from typing import Any, Literal

import structlog
from pydantic import Field

from api.conversion import ConversionError, convert
from webhooks.metrics import REVIEW_SECONDS, REVIEWS
from webhooks.review import MalformedReviewError, Model, decoded, json_bytes

log = structlog.get_logger(__name__)

API_VERSION = "apiextensions.k8s.io/v1"
ROUTE = "convert"

_SECONDS = REVIEW_SECONDS.labels(ROUTE)


class ConversionRequest(Model):
    """The objects to convert, all of one kind, in any of its versions."""

    uid: str = Field(min_length=1)
    desired_api_version: str = Field(alias="desiredAPIVersion", min_length=1)
    objects: list[dict[str, Any]]


class ConversionReview(Model):
    """The envelope that the API server posts."""

    api_version: Literal["apiextensions.k8s.io/v1"] = Field(alias="apiVersion")
    kind: Literal["ConversionReview"]
    request: ConversionRequest


def review(body: bytes) -> bytes:
    """The ConversionReview that answers the one in `body`: all objects converted, or none.

    Raises MalformedReviewError for a body that is no ConversionReview.
    """
    outcome = "error"
    started = time.perf_counter()
    try:
        request = decoded(ConversionReview, body).request
        response, outcome = _answer(request)
        return json_bytes(
            {"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response}
        )
    except MalformedReviewError:
        outcome = "malformed"
        raise
    finally:
        _SECONDS.observe(time.perf_counter() - started)
        REVIEWS.labels(ROUTE, outcome).inc()


def _answer(request: ConversionRequest) -> tuple[dict[str, Any], str]:
    try:
        converted = [convert(obj, request.desired_api_version) for obj in request.objects]
    except ConversionError as error:
        result = {"status": "Failure", "message": str(error), "reason": "BadRequest", "code": 400}
        return {"uid": request.uid, "result": result}, "invalid"
    except Exception as error:
        # One request's objects end nothing but that request.
        log.exception("conversion failed", version=request.desired_api_version)
        text = f"Muster's webhook failed ({type(error).__name__}): its log has the details"
        result = {"status": "Failure", "message": text, "reason": "InternalError", "code": 500}
        return {"uid": request.uid, "result": result}, "error"
    return {
        "uid": request.uid,
        "result": {"status": "Success"},
        "convertedObjects": converted,
    }, "changed"
