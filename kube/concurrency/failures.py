"""Keys whose handling raised an unexpected error: retried later and later, while others go on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

import structlog

from kube.base.metrics import FAILING
from kube.concurrency.backoff import Backoff

K = TypeVar("K", bound=Hashable)

_NAMED: Final = 5
"""Keys or objects that `/readyz` names. Further ones are counted."""

_LONGEST: Final = 300
"""Characters of a problem that are kept."""

_log = structlog.get_logger()


@dataclass(slots=True)
class _Failure:
    """The failures of one key; `traced` are the kinds of error whose traceback was logged."""

    backoff: Backoff
    problem: str = ""
    traced: set[str] = field(default_factory=set)


class Failures(Generic[K]):
    """The keys that fail now, each with its back-off. A traceback is logged once for each kind."""

    def __init__(
        self, work: str, name: Callable[[K], str], *, first: float = 1.0, limit: float = 300.0
    ) -> None:
        """Label the metric with `work`; waits take `first` seconds and double up to `limit`."""
        self._work = work
        self._name = name
        self._first = first
        self._limit = limit
        self._failures: dict[K, _Failure] = {}
        self._gauge = FAILING.labels(work)

    def __contains__(self, key: K) -> bool:
        return key in self._failures

    def __bool__(self) -> bool:
        return bool(self._failures)

    def keys(self) -> Sequence[K]:
        """Return all keys that fail."""
        return list(self._failures)

    def failed(self, key: K, error: Exception) -> float:
        """Record an unexpected error of the key; return the seconds to wait."""
        failure = self._failures.get(key)
        if failure is None:
            failure = self._failures[key] = _Failure(Backoff(self._first, self._limit))
            self._gauge.inc()
        wait = failure.backoff.next(error)
        kind = type(error).__name__
        failure.problem = f"{kind}: {error}"[:_LONGEST]
        # A key that fails for hours would otherwise fill the log with one traceback.
        if kind not in failure.traced:
            failure.traced.add(kind)
            _log.error(
                "work failed, will retry",
                work=self._work,
                key=self._name(key),
                error=failure.problem,
                wait=round(wait, 3),
                exc_info=error,
            )
        return wait

    def succeeded(self, key: K) -> None:
        """Record that the key was handled, or is gone: its next failure counts as the first."""
        if self._failures.pop(key, None) is not None:
            self._gauge.dec()

    def clear(self) -> None:
        """Forget all failures."""
        for key in self.keys():
            self.succeeded(key)

    def details(self) -> Iterator[str]:
        """Yield a line that names the first keys, if any fail."""
        if not self._failures:
            return
        named = ((self._name(key), failure.problem) for key, failure in self._failures.items())
        yield f"{self._work}: failing: {first_of(named, len(self._failures))}"


def first_of(problems: Iterable[tuple[str, str]], total: int) -> str:
    """Return the first names with their problems, and the number of the others."""
    named = [f"{name} ({problem})" for name, problem in islice(problems, _NAMED)]
    left = total - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "")
