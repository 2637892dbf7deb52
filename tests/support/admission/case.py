"""A case of admission, and helpers to write one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.priority import PriorityClass

Json = dict[str, Any]
Fault = tuple[str, str]
"""A cause's field and its reason, without the common prefix `FieldValue`."""

REQUIRED, INVALID, DUPLICATE = "Required", "Invalid", "Duplicate"
TOO_MANY, FORBIDDEN, NOT_SUPPORTED, TYPE = "TooMany", "Forbidden", "NotSupported", "TypeInvalid"

CLASSES = (
    PriorityClass("admission-high", 1000),
    PriorityClass("admission-low", -5),
    PriorityClass("admission-lowest", -(2**31)),
    PriorityClass("admission-highest", 1_000_000_000),
    PriorityClass("admission-never", 500, preemption_policy="Never"),
)
"""The priority classes besides the system's own; a complete server must have them too."""
SYSTEM_CLASSES = (
    PriorityClass("system-cluster-critical", 2_000_000_000),
    PriorityClass("system-node-critical", 2_000_001_000),
)


@dataclass(frozen=True)
class Case:
    """One request and its expected response."""

    sentence: str
    new: Json
    old: Json | None = None
    """The stored object, if any: then the request is an update, otherwise a creation."""
    subresource: str = ""
    faults: tuple[Fault, ...] = ()
    """The expected causes in order. None: the request is accepted."""
    forbidden: bool = False
    """True if rejected with 403 Forbidden instead of 422 Invalid."""
    warnings: tuple[str, ...] = ()
    """The prefix of each warning."""
    becomes: Mapping[str, Any] = field(default_factory=dict)
    """Values of the stored object, by dotted path; None for absent ones."""
    server: tuple[Fault, ...] | None = None
    """The causes on a complete server, if its own checks of types and keys come first."""
    server_since: tuple[int, int] = (1, 0)
    """The Kubernetes release since which a complete server names `server`; before, `faults`."""

    @property
    def route(self) -> tuple[object, ...]:
        """The route of the request through a server, and the kind of its response."""
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
    """Return an accepted creation; `becomes` with `__` for the dots."""
    paths = {path.replace("__", "."): value for path, value in becomes.items()}
    return Case(sentence, new, warnings=warnings, becomes=paths)


def refused(sentence: str, new: Json, *faults: Fault, **more: Any) -> Case:
    """Return a rejected creation."""
    return Case(sentence, new, faults=faults, **more)


def changed(sentence: str, old: Json, new: Json, *faults: Fault, **more: Any) -> Case:
    """Return an update; without faults it is accepted."""
    return Case(sentence, new, old=old, faults=faults, **more)
