"""Why a request is refused: one `Cause` for each fault, worded like Kubernetes' field errors.

A cause becomes an entry of `Status.details.causes`; its message is the "error body" of
k8s.io/apimachinery's `field.Error` (`Invalid value: "x": text`), so that kubectl prints our
faults exactly as it prints the API server's own.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

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
    """One fault: the field's path, a Kubernetes cause reason, and a text that says what to do."""

    field: str
    reason: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """The entry of `details.causes` in a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def as_warning(self) -> str:
        """What is said of the fault where it does not refuse anything."""
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """All faults of one request, and warnings."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        """True when nothing is wrong."""
        return not self.causes


def required(path: str, text: str = "") -> Cause:
    """A required field that is missing."""
    return Cause(path, REQUIRED, f"Required value: {text}" if text else "Required value")


def invalid(path: str, value: Any, text: str) -> Cause:
    """A value that a rule does not allow."""
    return Cause(path, INVALID, f"Invalid value: {_shown(value)}: {text}")


def immutable(path: str, value: Any) -> Cause:
    """A change of a field that may not change; unsetting and setting later are changes."""
    return invalid(path, value, IMMUTABLE_TEXT)


def duplicate(path: str, value: Any) -> Cause:
    """A value that must be unique and is not."""
    return Cause(path, DUPLICATE, f"Duplicate value: {_shown(value)}")


def too_many(path: str, count: int, limit: int) -> Cause:
    """A list over its limit."""
    plural = "item" if limit == 1 else "items"
    return Cause(path, TOO_MANY, f"Too many: {count}: must have at most {limit} {plural}")


def forbidden(path: str, text: str) -> Cause:
    """A field that may not be set here, whatever its value."""
    return Cause(path, FORBIDDEN, f"Forbidden: {text}")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    """A value that is not one of the supported ones."""
    words = ", ".join(json.dumps(word) for word in supported)
    return Cause(
        path, NOT_SUPPORTED, f"Unsupported value: {_shown(value)}: supported values: {words}"
    )


def type_invalid(path: str, value: Any, wanted: str) -> Cause:
    """A JSON value of another type than the field's."""
    return Cause(path, TYPE_INVALID, f"Invalid value: {_shown(value)}: must be {wanted}")


def _shown(value: Any) -> str:
    """A value as Kubernetes shows it: strings quoted, objects and lists as JSON; long ones cut.

    What is wrong may be as large as a request: no more of it is written than is shown.
    """
    if isinstance(value, str):
        value = value[: SHOWN_LENGTH + 1]
    length, parts = 0, []
    for part in _ENCODER.iterencode(value):
        parts.append(part)
        length += len(part)
        if length > SHOWN_LENGTH:
            return "".join(parts)[:SHOWN_LENGTH] + "..."
    return "".join(parts)
