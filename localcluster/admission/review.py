"""The AdmissionReview protocol: the request's JSON, and the validation of responses."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import msgspec

from localcluster.admission.conversion import Converter
from localcluster.base.hooks import AdmissionRequest
from localcluster.base.resources import ResourceInfo
from localcluster.patching.patch import json_patch

Object = dict[str, Any]

API_VERSIONS = {"v1": "admission.k8s.io/v1", "v1beta1": "admission.k8s.io/v1beta1"}


class InvalidResponseError(Exception):
    """The webhook responded, but the protocol does not allow that review."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The response of a webhook."""

    allowed: bool
    status: Object | None
    patch: list[Object]
    warnings: tuple[str, ...]


def request_body(request: AdmissionRequest, info: ResourceInfo, *, uid: str) -> Object:
    """Return the review's `request` without object and oldObject, as match conditions see it."""
    group, version, kind = request.gvk
    asked_kind = {"group": group, "version": version, "kind": kind}
    asked = {
        "group": request.info.group,
        "version": request.info.version,
        "resource": request.info.plural,
    }
    is_own_kind = request.kind is None
    body: Object = {
        "uid": uid,
        "kind": {**asked_kind, "version": info.version} if is_own_kind else asked_kind,
        "resource": {**asked, "version": info.version},
        "requestKind": asked_kind,
        "requestResource": asked,
        "operation": request.operation,
        "userInfo": request.user.to_json(),
        "dryRun": request.dry_run,
        "options": request.options or None,
    }
    optional = {
        "subResource": request.subresource,
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
    }
    return body | {name: value for name, value in optional.items() if value}


def review_version(spec: Object) -> str | None:
    """Return the first protocol version that both the webhook and this server support."""
    return next((one for one in spec["admissionReviewVersions"] if one in API_VERSIONS), None)


@dataclass(frozen=True, slots=True)
class Versioned:
    """The two objects of a request in the version that a webhook expects."""

    obj: Object | None
    old: Object | None


async def in_version(
    converter: Converter, request: AdmissionRequest, info: ResourceInfo
) -> Versioned:
    """Return the objects of a request in the version of `info`. Raises StatusError 500."""
    given = [one for one in (request.obj, request.old) if one is not None]
    if request.kind is not None or all(_is_in(one, info) for one in given):
        return Versioned(request.obj, request.old)
    made = iter(await converter.convert(given, info.collection, info.api_version))
    return Versioned(*(None if one is None else next(made) for one in (request.obj, request.old)))


def _is_in(obj: Object, info: ResourceInfo) -> bool:
    return bool(obj.get("apiVersion") == info.api_version)


def encode(
    request: AdmissionRequest, info: ResourceInfo, seen: Versioned, *, uid: str, version: str
) -> bytes:
    """Return the body of the webhook call."""
    body = request_body(request, info, uid=uid)
    body["object"], body["oldObject"] = seen.obj, seen.old
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": API_VERSIONS[version], "request": body}
    )


def decode(body: bytes, *, uid: str, version: str, mutating: bool) -> AdmissionResponse:
    """Decode the response.

    Raises InvalidResponseError, or ValueError if it is not a JSON object.
    """
    try:
        review = json.loads(body)
    except ValueError as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise ValueError("couldn't get version/kind; json parse error: not an object")
    found = review.get("apiVersion"), review.get("kind")
    if found != (API_VERSIONS[version], "AdmissionReview"):
        raise ValueError(
            f"expected {API_VERSIONS[version]}, Kind=AdmissionReview,"
            f" got {found[0] or ''}, Kind={found[1] or ''}"
        )
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidResponseError("webhook response was absent")
    if response.get("uid") != uid:
        got = json.dumps(response.get("uid") or "")
        raise InvalidResponseError(f'expected response.uid="{uid}", got {got}')
    return AdmissionResponse(
        allowed=response.get("allowed") is True,
        status=response.get("status"),
        patch=_read_patch(response, mutating=mutating),
        warnings=tuple(response.get("warnings") or ()),
    )


def _read_patch(response: Object, *, mutating: bool) -> list[Object]:
    encoded, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        for name, value in (("patch", encoded), ("patchType", kind)):
            if value:
                raise InvalidResponseError(f"validating webhook may not return response.{name}")
        return []
    if encoded and not kind:
        message = "webhook returned response.patch but not response.patchType"
        raise InvalidResponseError(message)
    if kind and not encoded:
        message = "webhook returned response.patchType but not response.patch"
        raise InvalidResponseError(message)
    if kind not in {None, "", "JSONPatch"}:
        message = f'webhook returned invalid response.patchType of "{kind}"'
        raise InvalidResponseError(message)
    if not encoded:
        return []
    try:
        operations = json.loads(base64.b64decode(encoded, validate=True))
    except (ValueError, binascii.Error) as error:
        message = f"received undecodable patch in webhook response: {error}"
        raise InvalidResponseError(message) from error
    if not isinstance(operations, list):
        raise InvalidResponseError("received undecodable patch in webhook response: not a list")
    return operations


def apply_patch(obj: Object, operations: list[Object]) -> Object:
    """Return a patched copy. Raises StatusError when an operation does not apply."""
    patched: Object = json_patch(msgspec.json.decode(msgspec.json.encode(obj)), operations)
    return patched
