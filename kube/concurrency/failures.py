"""Things whose handling raised an error of ours: others go on, these are tried later and later."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

import structlog

from kube.base.metrics import FAILING
from kube.concurrency.backoff import Backoff

K = TypeVar("K", bound=Hashable)

_NAMED: Final = 5
"""Keys that `/readyz` names. Further ones are counted."""

_LONGEST: Final = 300
"""Characters of a problem that are kept."""

_log = structlog.get_logger()


@dataclass(slots=True)
class _Failure:
    """`traced` are the kinds of error whose traceback was logged."""

    backoff: Backoff
    problem: str = ""
    traced: set[str] = field(default_factory=set)


class Failures(Generic[K]):
    """The keys that fail now, each with its back-off. A traceback is logged once for each kind."""

    def __init__(
        self, work: str, name: Callable[[K], str], *, first: float = 1.0, limit: float = 300.0
    ) -> None:
        """`work` labels the metric; waits begin with `first` seconds and double up to `limit`."""
        self._work = work
        self._name = name
        self._first = first
        self._limit = limit
        self._failures: dict[K, _Failure] = {}
        self._gauge = FAILING.labels(work)

    def __contains__(self, key: K) -> bool:
        """Whether the key failed and has not succeeded since."""
        return key in self._failures

    def __bool__(self) -> bool:
        """Whether any key fails."""
        return bool(self._failures)

    def keys(self) -> Sequence[K]:
        """All that fail."""
        return list(self._failures)

    def failed(self, key: K, error: Exception) -> float:
        """It failed with an error that nobody expected; returns the wait in seconds."""
        failure = self._failures.get(key)
        if failure is None:
            failure = self._failures[key] = _Failure(Backoff(self._first, self._limit))
            self._gauge.inc()
        wait = failure.backoff.next(error)
        kind = type(error).__name__
        failure.problem = f"{kind}: {error}"[:_LONGEST]
        if kind not in failure.traced:
            failure.traced.add(kind)
            _log.error(
                "failed, and is tried again",
                work=self._work,
                key=self._name(key),
                problem=failure.problem,
                wait=round(wait, 3),
                exc_info=error,
            )
        return wait

    def succeeded(self, key: K) -> None:
        """It was handled, or is gone: its next failure counts as the first."""
        if self._failures.pop(key, None) is not None:
            self._gauge.dec()

    def clear(self) -> None:
        """Forget all."""
        for key in self.keys():
            self.succeeded(key)

    def details(self) -> Iterator[str]:
        """A line that names the first of them, if any fail."""
        if not self._failures:
            return
        named = [
            f"{self._name(key)} ({failure.problem})"
            for key, failure in islice(self._failures.items(), _NAMED)
        ]
        left = len(self._failures) - len(named)
        more = f" and {left} more" if left else ""
        yield f"{self._work}: failing: {', '.join(named)}{more}"
