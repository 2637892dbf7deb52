"""Requests that may be sent only while a condition holds, such as owning a lease."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kube.base.errors import LeaseLost

_allowed: ContextVar[Callable[[], bool] | None] = ContextVar("allowed", default=None)


@contextmanager
def fenced(allowed: Callable[[], bool]) -> Iterator[None]:
    """Send requests of this context, and of tasks started in it, only while `allowed()`.

    It is called right before the request is written, when a connection is available. A request that
    is not allowed raises LeaseLost.
    """
    token = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def check(method: str, path: str) -> None:
    """Raise LeaseLost if the request must not be sent. Call it right before it is written."""
    allowed = _allowed.get()
    if allowed is not None and not allowed():
        raise LeaseLost(f"{method} {path}: not sent, because the lease may be lost")
