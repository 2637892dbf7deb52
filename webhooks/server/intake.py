"""How much of what clients send, and of the answers that they have not taken, is held at a time.

Whoever reaches the port may send bodies, and send them slowly. A body counts by what came of it.
Where there is no room the request gives way that has waited longest for its client to send or to
take something: who is complete is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

MIB: Final = 1024 * 1024

REVIEW_ROOM: Final = 24 * MIB
CONVERSION_ROOM: Final = 40 * MIB
"""Bytes held at a time: a conversion and its answer, and the next one that is being sent."""


class BusyError(Exception):
    """There is no room for one more body now."""

    def __init__(self, held: int, total: int) -> None:
        """`held` of `total` bytes are taken."""
        super().__init__(f"{held} of {total} bytes of reviews are in work: try again")


@dataclass(slots=True, eq=False)
class Holding:
    """The bytes of one request; `abort` ends its connection.

    `waits` while its client has to send or to take something.
    """

    abort: Callable[[], None]
    size: int = 0
    waits: bool = True


@dataclass(slots=True)
class Room:
    """`total` bytes for all requests together."""

    total: int
    held: int = 0
    _open: dict[Holding, None] = field(default_factory=dict)

    @contextmanager
    def open(self, abort: Callable[[], None]) -> Iterator[Holding]:
        """What one request holds, until its end."""
        one = Holding(abort)
        self._open[one] = None
        try:
            yield one
        finally:
            self._release(one)

    def hold(self, one: Holding, size: int) -> None:
        """Let a request hold `size` bytes. Raises BusyError where nobody gives way, or it did."""
        while self.held - one.size + size > self.total or one not in self._open:
            others = (it for it in self._open if it.waits and it.size and it is not one)
            other = next(others, None) if one in self._open else None
            if other is None:
                raise BusyError(self.held, self.total)
            self._release(other)
            other.abort()
        self.held += size - one.size
        one.size = size

    def _release(self, one: Holding) -> None:
        if one in self._open:
            del self._open[one]
            self.held -= one.size


@dataclass(frozen=True, slots=True)
class Intake:
    """The rooms of one listener: conversions, which are large, leave reviews theirs."""

    reviews: Room = field(default_factory=lambda: Room(REVIEW_ROOM))
    conversions: Room = field(default_factory=lambda: Room(CONVERSION_ROOM))
