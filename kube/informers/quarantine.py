"""Objects that a process cannot decode or apply, skipped one by one so that all others go on.

No object ends a process, whatever it contains. It is named in the log, in an event on it, in
`/readyz` and in a metric, until its form can be applied, or it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import structlog

from kube.base.metrics import QUARANTINED
from kube.client.meta import Key
from kube.client.quantity import QuantityError
from kube.client.resources import Resource
from kube.concurrency.failures import first_of
from kube.events.events import ObjectReference, Recorder

_LONGEST: Final = 300
"""Characters of a problem that are kept."""

_TRACES: Final = 100
"""Different tracebacks that are logged. Further kinds have one line only."""

_log = structlog.get_logger()

Place = tuple[str, int]


class Quarantine:
    """The objects that one process skips, and the reasons."""

    def __init__(self, events: Recorder | None = None) -> None:
        """Record skipped objects; without `events` they get no event."""
        self._events = events
        self._problems: dict[Resource, dict[Key, str]] = {}
        self._traced: set[tuple[str, Place]] = set()

    def set_aside(self, resource: Resource, key: Key, uid: str, error: Exception) -> None:
        """Record that the object cannot be applied in its present form."""
        problems = self._problems.setdefault(resource, {})
        problem = f"{type(error).__name__}: {error}"[:_LONGEST]
        if key not in problems:
            QUARANTINED.labels(resource.full_name).inc()
        # A status that changes every second must not repeat the log line and the event.
        elif problems[key] == problem:
            return
        problems[key] = problem
        _log.error(
            "skipping undecodable object",
            resource=resource.full_name,
            namespace=key[0],
            name=key[1],
            error=problem,
            exc_info=error if self._is_new(error) else None,
        )
        if self._events is not None:
            regarding = ObjectReference(resource.api_version, resource.kind, *key, uid)
            self._events.event(regarding, "Warning", "Quarantined", _message(error))

    def release(self, resource: Resource, key: Key) -> None:
        """Record that the object was applied, or is gone."""
        problems = self._problems.get(resource, {})
        if problems.pop(key, None) is None:
            return
        if not problems:
            del self._problems[resource]
        QUARANTINED.labels(resource.full_name).dec()
        _log.info(
            "object is decodable again",
            resource=resource.full_name,
            namespace=key[0],
            name=key[1],
        )

    def __bool__(self) -> bool:
        return bool(self._problems)

    def details(self) -> Iterator[str]:
        """Yield a line for each resource: the number of skipped objects, and the first of them."""
        for resource, problems in self._problems.items():
            named = (("/".join(filter(None, key)), problem) for key, problem in problems.items())
            yield f"{resource.full_name}: skipped: {first_of(named, len(problems))}"

    def _is_new(self, error: Exception) -> bool:
        """Return whether no traceback of this kind of error, from this place, was logged yet."""
        trace, place = error.__traceback__, ("", 0)
        while trace is not None:
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            trace = trace.tb_next
        kind = (type(error).__name__, place)
        if kind in self._traced or len(self._traced) >= _TRACES:
            return False
        self._traced.add(kind)
        return True


def _message(error: Exception) -> str:
    """Return the problem for the object's owner, without what only a developer understands."""
    kind = type(error).__name__
    # The text of any other error may be about other objects, of other tenants.
    readable = isinstance(error, QuantityError | msgspec.DecodeError)
    problem = f"{error}"[:_LONGEST] if readable else f"{kind}; the log has the details"
    return f"cannot be decoded or applied, and is skipped until it changes or is deleted: {problem}"
