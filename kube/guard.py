"""Requests that may go out only while something holds, such as a lease."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kube.errors import LeaseLost

_allowed: ContextVar[Callable[[], bool] | None] = ContextVar("allowed", default=None)


@contextmanager
def guarded(allowed: Callable[[], bool]) -> Iterator[None]:
    """Let requests of this context, and of tasks begun in it, go out only while `allowed()`.

    It is asked when a connection is there and nothing is left to wait for; a request that may not
    go raises LeaseLost.
    """
    token = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def check(method: str, path: str) -> None:
    """To be called right before a request is written. Raises LeaseLost."""
    allowed = _allowed.get()
    if allowed is not None and not allowed():
        raise LeaseLost(f"{method} {path}: not sent, the lease may be lost")
