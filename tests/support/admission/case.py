"""One case of admission, and the words to write one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.priority import PriorityClass

Json = dict[str, Any]
Fault = tuple[str, str]
"""A cause's field and its reason, without the `FieldValue` that all reasons begin with."""

REQUIRED, INVALID, DUPLICATE = "Required", "Invalid", "Duplicate"
TOO_MANY, FORBIDDEN, NOT_SUPPORTED, TYPE = "TooMany", "Forbidden", "NotSupported", "TypeInvalid"

CLASSES = (
    PriorityClass("admission-high", 1000),
    PriorityClass("admission-low", -5),
    PriorityClass("admission-lowest", -(2**31)),
    PriorityClass("admission-highest", 1_000_000_000),
    PriorityClass("admission-never", 500, preemption_policy="Never"),
)
"""What there is beside the system's own; a whole server must have them too."""
SYSTEM_CLASSES = (
    PriorityClass("system-cluster-critical", 2_000_000_000),
    PriorityClass("system-node-critical", 2_000_001_000),
)


@dataclass(frozen=True)
class Case:
    """One request and the answer wanted."""

    sentence: str
    new: Json
    old: Json | None = None
    """What is stored already: then the request is an update, otherwise a create."""
    subresource: str = ""
    faults: tuple[Fault, ...] = ()
    """Of each cause, in this order. None: the request is accepted."""
    forbidden: bool = False
    """Refused with 403 Forbidden instead of 422 Invalid."""
    warnings: tuple[str, ...] = ()
    """How each warning begins."""
    becomes: Mapping[str, Any] = field(default_factory=dict)
    """Values of the stored object, by dotted path; None for what must be absent."""
    server: tuple[Fault, ...] | None = None
    """What a whole server answers instead, where its own checks of types and keys come first."""

    @property
    def route(self) -> tuple[object, ...]:
        """The way of the request through a server, and the kind of answer that comes back."""
        return (
            self.new["apiVersion"],
            self.new["kind"],
            self.old is None,
            self.subresource,
            self.code,
            len(self.faults) > 1,
            bool(self.warnings),
            bool(self.becomes),
            self.server is None,
        )

    @property
    def code(self) -> int:
        if not self.faults:
            return 200
        return 403 if self.forbidden else 422


def accepted(sentence: str, new: Json, *, warnings: tuple[str, ...] = (), **becomes: Any) -> Case:
    """A create that goes through; `becomes` with `__` for the dots."""
    paths = {path.replace("__", "."): value for path, value in becomes.items()}
    return Case(sentence, new, warnings=warnings, becomes=paths)


def refused(sentence: str, new: Json, *faults: Fault, **more: Any) -> Case:
    """A create that does not."""
    return Case(sentence, new, faults=faults, **more)


def changed(sentence: str, old: Json, new: Json, *faults: Fault, **more: Any) -> Case:
    """An update; without faults it goes through."""
    return Case(sentence, new, old=old, faults=faults, **more)
