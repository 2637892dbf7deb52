"""A limit of the memory for request bodies, and for responses that clients have not read yet.

Any client that reaches the port may send bodies, and send them slowly. A body counts by the bytes
received. If the limit is reached, the oldest request is aborted that waits for its client to send
or to read. A complete request is never aborted before its response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

MIB: Final = 1024 * 1024

REVIEW_ROOM: Final = 24 * MIB
CONVERSION_ROOM: Final = 40 * MIB
"""Bytes for reviews, and for conversions: one with its response, and the next that is received."""


class BusyError(Exception):
    """No memory is free for one more body."""

    def __init__(self, held: int, total: int) -> None:
        super().__init__(
            f"the webhook is processing {held} of at most {total} bytes of reviews. Retry later"
        )


@dataclass(slots=True, eq=False)
class RequestBytes:
    """The bytes of one request; `abort` closes its connection.

    `waits` is True while its client has to send or to read.
    """

    abort: Callable[[], None]
    size: int = 0
    waits: bool = True


@dataclass(slots=True)
class ByteBudget:
    """A budget of `total` bytes for all requests together."""

    total: int
    held: int = 0
    # In the order of their arrival: the oldest that waits for its client gives way.
    _open: dict[RequestBytes, None] = field(default_factory=dict)

    @contextmanager
    def open(self, abort: Callable[[], None]) -> Iterator[RequestBytes]:
        """Yield the bytes of one request, and release them at the end."""
        one = RequestBytes(abort)
        self._open[one] = None
        try:
            yield one
        finally:
            self._release(one)

    def hold(self, one: RequestBytes, size: int) -> None:
        """Let a request hold `size` bytes.

        Raises BusyError if no other gives way, or it was aborted.
        """
        while self.held - one.size + size > self.total or one not in self._open:
            # A request without bytes frees nothing, so it is left alone.
            others = (it for it in self._open if it.waits and it.size and it is not one)
            other = next(others, None) if one in self._open else None
            if other is None:
                raise BusyError(self.held, self.total)
            self._release(other)
            other.abort()
        self.held += size - one.size
        one.size = size

    def _release(self, one: RequestBytes) -> None:
        if one in self._open:
            del self._open[one]
            self.held -= one.size


@dataclass(frozen=True, slots=True)
class Intake:
    """The budgets of one listener; large conversions cannot take that of reviews."""

    reviews: ByteBudget = field(default_factory=lambda: ByteBudget(REVIEW_ROOM))
    conversions: ByteBudget = field(default_factory=lambda: ByteBudget(CONVERSION_ROOM))
