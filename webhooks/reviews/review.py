"""AdmissionReview `admission.k8s.io/v1`: decode a request, encode a response."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.causes import Cause
from kube.client.patch import Operation

API_VERSION = "admission.k8s.io/v1"

OUTCOMES = ("allowed", "changed", "invalid", "forbidden")
"""The outcomes of a response, each in one word."""

REVIEW_MEMORY = 160 * 1024 * 1024
"""Bytes of a review as Python objects, at most. The webhook handles one at a time."""

OBJECT_MEMORY = 64 * 1024 * 1024
"""Bytes of an object in a conversion as Python objects, at most. One is converted at a time."""

_MEMORY = {b"{": 72, b"[": 64, b":": 144, b",": 44, b'"': 28}
"""Bytes that each of these characters costs, also inside text."""

_MOST = max(_MEMORY.values())

T = TypeVar("T")


class Model(BaseModel):
    """A message of an API server. Unknown fields are ignored, and types are not coerced."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class GroupVersionKind(Model):
    """A kind as admission names it."""

    group: str = ""
    version: str
    kind: str


class GroupVersionResource(Model):
    """A resource as admission names it."""

    group: str = ""
    version: str
    resource: str


class AdmissionRequest(Model):
    """The used fields of AdmissionRequest in `admission.k8s.io/v1`.

    `object` is the new state, None on DELETE. `old_object` is None on CREATE. Both are raw JSON, as
    a mutating webhook sees them before the check of their schema. They are in the version of
    `kind`. The client may have written another one, which `request_kind` names.
    """

    uid: str = Field(min_length=1)
    kind: GroupVersionKind
    request_kind: GroupVersionKind | None = Field(None, alias="requestKind")
    resource: GroupVersionResource
    sub_resource: str = Field("", alias="subResource")
    name: str = ""
    namespace: str = ""
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = Field(None, alias="oldObject")


class AdmissionReview(Model):
    """The envelope that the API server posts."""

    api_version: Literal["admission.k8s.io/v1"] = Field(alias="apiVersion")
    kind: Literal["AdmissionReview"]
    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """A webhook's response: a patch, or all causes of a rejection, and warnings for the user.

    `forbidden` turns a rejection into 403 Forbidden (the object is valid but may not be created)
    instead of 422 Invalid.
    """

    operations: Sequence[Operation] = ()
    causes: Sequence[Cause] = ()
    warnings: Sequence[str] = ()
    forbidden: bool = False

    @property
    def outcome(self) -> str:
        """One of OUTCOMES, for metrics."""
        if self.causes:
            return "forbidden" if self.forbidden else "invalid"
        return "changed" if self.operations else "allowed"


ALLOWED = AdmissionResponse()


class MalformedReviewError(Exception):
    """The body is not a review; the causes name the invalid fields."""

    def __init__(self, causes: Sequence[Cause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in causes))
        self.causes = causes


def decode(body: bytes) -> AdmissionRequest:
    """Decode the request in an AdmissionReview. Raises MalformedReviewError."""
    return decoded(AdmissionReview.model_validate_json, body).request


def memory_of(body: bytes) -> int:
    """Return an upper bound of the memory that JSON takes as Python objects, in bytes."""
    # Small JSON can be large in memory: `{}` takes 64 bytes and a slot in a list. Text takes four
    # bytes a character if one of its characters needs them.
    text = len(body) if body.isascii() and b"\\u" not in body else 5 * len(body)
    return text + sum(size * body.count(mark) for mark, size in _MEMORY.items())


def decoded(
    read: Callable[[bytes], T], body: bytes, path: str = "", limit: int = REVIEW_MEMORY
) -> T:
    """Return the JSON decoded by `read`, which is at `path` of a review.

    Raises MalformedReviewError, also if it may take more than `limit` bytes of memory.
    """
    # Counting takes a tenth of a small review's time, and a small body cannot exceed the limit.
    if len(body) > limit // _MOST and memory_of(body) > limit:
        text = f"has too many values: it takes more than {limit} bytes of memory"
        raise MalformedReviewError([Cause(path, "FieldValueTooMany", text)])
    try:
        return read(body)
    except ValidationError as error:
        raise MalformedReviewError(
            [
                Cause(
                    _path((*filter(None, [path]), *fault["loc"])), "FieldValueInvalid", fault["msg"]
                )
                for fault in error.errors(
                    include_url=False, include_context=False, include_input=False
                )
            ]
        ) from error


def encode(request: AdmissionRequest, response: AdmissionResponse) -> bytes:
    """Encode the AdmissionReview with the response to `request`."""
    body: dict[str, Any] = {"uid": request.uid, "allowed": not response.causes}
    if response.causes:
        body["status"] = _refusal(request, response)
    elif response.operations:
        body["patchType"] = "JSONPatch"
        body["patch"] = base64.b64encode(json_bytes(response.operations)).decode()
    if response.warnings:
        body["warnings"] = list(response.warnings)
    return _enveloped(body)


def encode_failure(request: AdmissionRequest, error: Exception) -> bytes:
    """Encode the rejection of one request because of a bug of ours."""
    text = (
        f"Muster's webhook failed to review this {request.kind.kind} ({type(error).__name__}). "
        "This is a bug in Muster: see the webhook's log"
    )
    failed = status(500, "InternalError", text)
    return _enveloped({"uid": request.uid, "allowed": False, "status": failed})


def json_bytes(value: Any) -> bytes:
    """Encode JSON, also with numbers that are larger than any field may be."""
    # A user's object may have such numbers in fields that Muster does not read.
    try:
        return msgspec.json.encode(value)
    except OverflowError:
        return json.dumps(value).encode()


def _enveloped(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode(
        {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
    )


def status(
    code: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a failure as `metav1.Status`."""
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details or {},
    }


def _refusal(request: AdmissionRequest, response: AdmissionResponse) -> dict[str, Any]:
    """Return the Status that a user sees, in the words of the API server's own rejections."""
    name = _name(request)
    causes = [cause.as_dict() for cause in response.causes]
    faults = [f"{cause.field}: {cause.message}" for cause in response.causes]
    listed = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    kind, group = request.kind.kind, request.kind.group
    details = {"name": name, "group": group, "causes": causes}
    if response.forbidden:
        resource = ".".join(part for part in (request.resource.resource, group) if part)
        message = f'{resource} "{name}" is forbidden: {listed}'
        return status(403, "Forbidden", message, {**details, "kind": request.resource.resource})
    full_kind = ".".join(part for part in (kind, group) if part)
    message = f'{full_kind} "{name}" is invalid: {listed}'
    return status(422, "Invalid", message, {**details, "kind": kind})


def _name(request: AdmissionRequest) -> str:
    """Return the object's name, or the prefix of its name if it has none yet."""
    # The API server generates a name after admission.
    metadata = (request.object or {}).get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for name in (request.name, metadata.get("name"), metadata.get("generateName")):
        if isinstance(name, str) and name:
            return name
    return ""


def _path(loc: tuple[int | str, ...]) -> str:
    """Return a pydantic location as a Kubernetes field path."""
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
