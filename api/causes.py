"""The causes of a rejection, worded like Kubernetes' field errors: one `Cause` for each fault.

A cause becomes an entry of `Status.details.causes`. Its message is the "error body" of
k8s.io/apimachinery's `field.Error` (`Invalid value: "x": text`), so kubectl prints our causes
exactly like the API server's own.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from api import wording

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
DUPLICATE: Final = "FieldValueDuplicate"
TOO_MANY: Final = "FieldValueTooMany"
FORBIDDEN: Final = "FieldValueForbidden"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
TYPE_INVALID: Final = "FieldValueTypeInvalid"

IMMUTABLE_TEXT: Final = "field is immutable"

SHOWN_LENGTH: Final = 256
"""Characters of a value that a message shows."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class Cause:
    """A fault: a field path, a Kubernetes cause reason, and a text that states what to do."""

    field: str
    reason: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return the entry of `details.causes` in a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def as_warning(self) -> str:
        """Return the text of the fault as a warning, where it does not lead to a rejection."""
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """All faults of one request, and warnings."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        """True if there are no faults."""
        return not self.causes


def required(path: str, text: str = "") -> Cause:
    """Return the cause for a required field that is missing."""
    return Cause(path, REQUIRED, f"Required value: {text}" if text else "Required value")


def invalid(path: str, value: Any, text: str) -> Cause:
    """Return the cause for a value that a rule does not allow."""
    return Cause(path, INVALID, f"Invalid value: {_shown(value)}: {text}")


def immutable(path: str, value: Any) -> Cause:
    """Return the cause for a changed immutable field; setting or unsetting it is a change."""
    return invalid(path, value, IMMUTABLE_TEXT)


def duplicate(path: str, value: Any) -> Cause:
    """Return the cause for a value that must be unique and is not."""
    return Cause(path, DUPLICATE, f"Duplicate value: {_shown(value)}")


def too_many(path: str, count: int, limit: int) -> Cause:
    """Return the cause for a list over its limit."""
    items = wording.count(limit, "item")
    return Cause(path, TOO_MANY, f"Too many: {count}: must have at most {items}")


def forbidden(path: str, text: str) -> Cause:
    """Return the cause for a field that may not be set here, whatever its value."""
    return Cause(path, FORBIDDEN, f"Forbidden: {text}")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    """Return the cause for a value that is not one of the supported ones."""
    words = ", ".join(json.dumps(word) for word in supported)
    return Cause(
        path, NOT_SUPPORTED, f"Unsupported value: {_shown(value)}: supported values: {words}"
    )


def type_invalid(path: str, value: Any, wanted: str) -> Cause:
    """Return the cause for a JSON value of another type than the field's."""
    return Cause(path, TYPE_INVALID, f"Invalid value: {_shown(value)}: must be {wanted}")


def _shown(value: Any) -> str:
    """Return a value as Kubernetes prints it.

    Strings are quoted, objects and lists are JSON, and a long text is cut.
    """
    if isinstance(value, str):
        # A wrong value may be as large as a request, so encode no more of it than the message
        # shows.
        value = value[: SHOWN_LENGTH + 1]
    length, parts = 0, []
    for part in _ENCODER.iterencode(value):
        parts.append(part)
        length += len(part)
        if length > SHOWN_LENGTH:
            return "".join(parts)[:SHOWN_LENGTH] + "..."
    return "".join(parts)
