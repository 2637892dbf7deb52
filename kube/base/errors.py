"""Errors of an API server by their meaning, so that callers compare types and never text.

The tree is our own and not the HTTP library's: a caller needs to know whether to read again, retry
or give up, and the library below may be replaced.
"""

# ruff: noqa: N818 - the classes are named after what happened, as Kubernetes names its reasons

from dataclasses import dataclass
from typing import Any, Final

import msgspec


class KubeError(Exception):
    """Any error of a request to an API server."""


class ConfigError(KubeError):
    """There is no usable configuration or credential for a cluster."""


class Unreachable(KubeError):
    """No complete response: refused, reset, timed out or a failed TLS handshake.

    The caller cannot know whether a write was carried out.
    """

    def __init__(self, method: str, path: str, detail: str) -> None:
        """`detail` names what happened on the wire."""
        super().__init__(f"{method} {path}: {detail}")
        self.method = method
        self.path = path
        self.detail = detail


class Silent(Unreachable):
    """A watch that the server accepted sent nothing for so long that it counts as lost.

    A resource that never changes has the same effect: kube-apiserver sends no bookmark before it
    has seen an event.
    """


class TooLarge(KubeError):
    """The response has more bytes than the caller wanted to read: ask for less at a time."""


class LeaseLost(KubeError):
    """A request that was not sent: its lease may belong to another process by now."""


class ProtocolError(KubeError):
    """A response that is not the Kubernetes protocol."""


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of `details.causes` of a `Status`; `reason` is a Kubernetes cause type."""

    field: str
    reason: str
    message: str


class ApiError(KubeError):
    """A request that the API server refused; the fields are those of its `Status`.

    `retry_after` is the wait in seconds that the server asked for, if it did.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        causes: tuple[StatusCause, ...] = (),
        *,
        name: str = "",
        method: str = "",
        path: str = "",
        retry_after: float | None = None,
    ) -> None:
        """Take the HTTP code as `status`, and the word of `metav1.StatusReason` as `reason`.

        `name` is the object that the response is about; empty if it is about none.
        """
        super().__init__(f"{method} {path}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.name = name
        self.method = method
        self.path = path
        self.retry_after = retry_after

    @property
    def refused(self) -> bool:
        """True if the request was not carried out, and will not be until something changes.

        A server that fails (5xx), or that stops waiting (408), may have carried it out. One that
        throttles, or that does not know the caller (yet), may do so later.
        """
        return 400 <= self.status < 500 and self.status not in _LATER


class NotFound(ApiError):
    """404: the object, or the whole resource, does not exist; only the former has a `name`."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Conflict(ApiError):
    """409: the object changed in between, or a precondition does not hold."""


class Gone(ApiError):
    """410: the version asked for is no longer in the history; list again."""


class Invalid(ApiError):
    """422: the object breaks a rule, or a JSON patch could not be applied to it."""

    @property
    def patch_failed(self) -> bool:
        """True if a JSON patch did not apply (a `test` that failed, a path that does not exist).

        The API server gives no more details than this sentence; a broken rule has causes.
        """
        return not self.causes and self.message == _PATCH_FAILED


class Forbidden(ApiError):
    """403: not allowed, or rejected by admission.

    A kube-apiserver that has just started gives this response, too, until it has read its roles.
    """


STARTING: Final = 5.0
"""Seconds of repeated 403 responses before one counts: an API server may be starting until then.

kube-apiserver takes 0.2 s.
"""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or out of date."""


class TooManyRequests(ApiError):
    """429: overloaded, or (on an eviction) a disruption budget allows no more."""


class ServerError(ApiError):
    """5xx: the server failed; a later attempt may help."""


_LATER = frozenset({401, 408, 409, 429})

_PATCH_FAILED = "the server rejected our request due to an error in our request"

_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Details(msgspec.Struct):
    name: str | None = None
    causes: list[dict[str, Any]] | None = None
    retryAfterSeconds: float | None = None  # noqa: N815


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


def from_status(
    body: bytes,
    *,
    status: int | None = None,
    method: str = "",
    path: str = "",
    retry_after: float | None = None,
) -> ApiError:
    """Return the error for a `metav1.Status` body; a body of another form becomes the message.

    `status` is the HTTP code; None takes the code from the body (an ERROR event of a watch).
    """
    try:
        parsed = msgspec.json.decode(body, type=_Status)
    except ValueError:
        # Proxies respond with text or HTML of any length.
        parsed = _Status(message=bytes(body[:500]).decode(errors="replace"))
    details = parsed.details or _Details()
    code = status if status is not None else parsed.code or 500
    reason = parsed.reason or ""
    return _class_of(code, reason)(
        code,
        reason,
        parsed.message or "",
        tuple(_cause(raw) for raw in details.causes or ()),
        name=details.name or "",
        method=method,
        path=path,
        retry_after=details.retryAfterSeconds or retry_after,
    )


def _class_of(code: int, reason: str) -> type[ApiError]:
    # The status code alone does not tell a taken name from an object that changed.
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if code >= 500:
        return ServerError
    return _BY_STATUS.get(code, ApiError)


def _cause(raw: dict[str, Any]) -> StatusCause:
    return StatusCause(
        field=str(raw.get("field") or ""),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
    )
