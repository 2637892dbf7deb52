"""ConversionReview `apiextensions.k8s.io/v1`: objects of Muster's kinds in another version."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import structlog
from pydantic import TypeAdapter

from api.causes import Cause, invalid
from api.conversion import ConversionError, convert
from kube.client.decoding import Decoder
from webhooks.reviews.metrics import REVIEW_SECONDS, REVIEWS
from webhooks.reviews.review import OBJECT_MEMORY, MalformedReviewError, decoded, json_bytes

log = structlog.get_logger(__name__)

API_VERSION = "apiextensions.k8s.io/v1"
ROUTE = "convert"

_SECONDS = REVIEW_SECONDS.labels(ROUTE)
_OBJECT = TypeAdapter(dict[str, Any])


class ConversionRequest(msgspec.Struct, rename="camel", gc=False):
    """The objects to convert as they were sent: all of one kind, in any of its versions."""

    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    # Decoded one by one: a list of decoded objects takes ten times its bytes.
    objects: list[msgspec.Raw]


class ConversionReview(msgspec.Struct, rename="camel", gc=False):
    """The envelope that the API server posts."""

    # Any type, so that `faults` reports a wrong value with its field.
    api_version: Any = None
    kind: Any = None
    request: msgspec.Raw = msgspec.Raw(b"null")

    def faults(self) -> Iterator[Cause]:
        """Yield a cause for each field that does not belong to a ConversionReview."""
        if self.api_version != API_VERSION:
            yield invalid("apiVersion", self.api_version, f"must be {API_VERSION}")
        if self.kind != "ConversionReview":
            yield invalid("kind", self.kind, "must be ConversionReview")


decode_review: Final = Decoder(ConversionReview)
decode_request: Final = Decoder(ConversionRequest)


def review(body: bytes) -> bytes:
    """Return the ConversionReview with the response to `body`: all objects converted, or none.

    Raises MalformedReviewError for a body that is no ConversionReview.
    """
    outcome = "error"
    started = time.perf_counter()
    try:
        response, outcome = _response(_request(body))
        return json_bytes(
            {"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response}
        )
    except MalformedReviewError:
        outcome = "malformed"
        raise
    finally:
        _SECONDS.observe(time.perf_counter() - started)
        REVIEWS.labels(ROUTE, outcome).inc()


def _request(body: bytes) -> ConversionRequest:
    """Return the request in a review. Raises MalformedReviewError."""
    path = ""
    try:
        envelope = decode_review(body)
        if faults := list(envelope.faults()):
            raise MalformedReviewError(faults)
        path = "request"
        return decode_request(envelope.request)
    # Deeply nested JSON ends in a RecursionError, which must not end the process.
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedReviewError([Cause(path, "FieldValueInvalid", str(error))]) from error


def _response(request: ConversionRequest) -> tuple[dict[str, Any], str]:
    try:
        converted = [
            # Encode each object at once, so that only one is decoded at a time.
            msgspec.Raw(json_bytes(convert(_object(raw), request.desired_api_version)))
            for raw in request.objects
        ]
    except MalformedReviewError:
        raise
    except ConversionError as error:
        result = {"status": "Failure", "message": str(error), "reason": "BadRequest", "code": 400}
        return {"uid": request.uid, "result": result}, "invalid"
    except Exception as error:
        # A bug with one request's objects must not affect other requests.
        log.exception("failed to convert an object", version=request.desired_api_version)
        text = (
            f"Muster's webhook failed to convert an object ({type(error).__name__}). This is a "
            "bug in Muster: see the webhook's log"
        )
        result = {"status": "Failure", "message": text, "reason": "InternalError", "code": 500}
        return {"uid": request.uid, "result": result}, "error"
    return {
        "uid": request.uid,
        "result": {"status": "Success"},
        "convertedObjects": converted,
    }, "changed"


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    """Decode one object. Raises MalformedReviewError."""
    return decoded(_OBJECT.validate_json, bytes(raw), "request.objects", OBJECT_MEMORY)
