"""API errors as metav1.Status, the format that every Kubernetes client reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.base.resources import ResourceInfo

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of an error: the field's path, a Kubernetes cause reason, and the message.

    Reasons are those of field errors: FieldValueRequired, FieldValueInvalid, FieldValueDuplicate,
    FieldValueNotSupported, FieldValueForbidden, FieldValueTypeInvalid, FieldValueTooLong,
    FieldValueTooMany, FieldValueNotFound.
    """

    field: str
    reason: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the entry of details.causes."""
        out = {"reason": self.reason, "message": self.message, "field": self.field}
        return {name: value for name, value in out.items() if value}


class StatusError(Exception):
    """An error response; `to_json` is the body of the response, `code` its HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Create an error from the fields of a Status; `headers` are added to the HTTP response."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def to_json(self) -> dict[str, Any]:
        """Return the metav1.Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _details(info: ResourceInfo | None, name: str, kind: str | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if name:
        out["name"] = name
    if info is not None:
        if info.group:
            out["group"] = info.group
        out["kind"] = kind or info.plural
    return out


def not_found(info: ResourceInfo, name: str) -> StatusError:
    """Return a 404: no such object."""
    return StatusError(
        404, "NotFound", f'{info.qualified} "{name}" not found', _details(info, name)
    )


def already_exists(info: ResourceInfo, name: str) -> StatusError:
    """Return a 409: an object of that name exists already."""
    message = f'{info.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(info, name))


def conflict(info: ResourceInfo, name: str, why: str = MODIFIED) -> StatusError:
    """Return a 409: the request is based on an outdated version of the object."""
    message = f'Operation cannot be fulfilled on {info.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(info, name))


def apply_conflict(causes: Sequence[Cause], message: str) -> StatusError:
    """Return a 409: server-side apply conflicts with fields of other managers."""
    details = {"causes": [cause.to_json() for cause in causes]}
    return StatusError(409, "Conflict", message, details)


def invalid(
    info: ResourceInfo, name: str, causes: Sequence[Cause], kind: str | None = None
) -> StatusError:
    """Return a 422: the object is invalid; the causes list every error."""
    kind = kind or info.kind
    qualified = f"{kind}.{info.group}" if info.group else kind
    texts = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes
    ]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(info, name, kind)
    details["causes"] = [cause.to_json() for cause in causes]
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {joined}', details)


def forbidden(info: ResourceInfo, name: str, why: str) -> StatusError:
    """Return a 403: the request is understood but forbidden."""
    named = f'{info.qualified} "{name}"' if name else info.qualified
    return StatusError(403, "Forbidden", f"{named} is forbidden: {why}", _details(info, name))


def bad_request(message: str) -> StatusError:
    """Return a 400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return a 401: the user is unknown."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def unknown_path() -> StatusError:
    """Return a 404: the server does not serve that resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """Return a 405: the resource does not support that verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message)


def expired(message: str) -> StatusError:
    """Return a 410: the requested history has expired and the client must list again."""
    return StatusError(410, "Expired", message)


def too_old(asked: int, oldest: int) -> StatusError:
    """Return a 410 for a watch whose resource version is no longer in the history."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large(asked: int, current: int) -> StatusError:
    """Return a 504: the requested resource version is in the future."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = Cause("", "ResourceVersionTooLarge", "Too large resource version")
    details = {"causes": [cause.to_json()], "retryAfterSeconds": 1}
    return StatusError(504, "Timeout", message, details, {"Retry-After": "1"})


def too_many_requests(
    message: str, retry_after: int = 1, cause: Cause | None = None
) -> StatusError:
    """Return a 429 that asks the client to retry after that many seconds."""
    details: dict[str, Any] = {}
    if cause is not None:
        details["causes"] = [cause.to_json()]
    headers = {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
        headers["Retry-After"] = str(retry_after)
    return StatusError(429, "TooManyRequests", message, details, headers)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """Return a 415: the server cannot read the format of the body."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    """Return a 406: the client accepts no format that the server can write."""
    message = "only the following media types are accepted: " + ", ".join(accepted)
    return StatusError(406, "NotAcceptable", message)


def internal(message: str) -> StatusError:
    """Return a 500: the server itself failed."""
    details = {"causes": [Cause("", "", message).to_json()]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)
