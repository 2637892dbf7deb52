"""How much of what clients send is held at a time.

Whoever reaches the port may send bodies; as objects they take some ten times their bytes. So room
is taken for a body before it is read, and who finds none waits a moment or is told to come again.
Small bodies have room of their own: a flood of large ones does not keep ordinary reviews out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

MIB: Final = 1024 * 1024

SMALL_BODY: Final = 128 * 1024
"""Bytes. Nearly every review of a pod, a Job or a group is smaller."""

SMALL_ROOM: Final = 8 * MIB
REVIEW_ROOM: Final = 16 * MIB
CONVERSION_ROOM: Final = 16 * MIB
"""Bytes held at a time: together they stay below half of the 512 MiB that the manifests give."""

WAITING: Final = 64
"""Requests that wait for room; the next one is turned away at once."""

WAIT_SECONDS: Final = 1.0
"""API servers give a review five seconds, and try again what was turned away."""


class BusyError(Exception):
    """There is no room for one more body now."""

    def __init__(self, held: int, total: int) -> None:
        """`held` of `total` bytes are taken."""
        super().__init__(f"{held} of {total} bytes of reviews are in work: try again")


@dataclass(slots=True)
class Room:
    """`total` bytes; who comes first is served first."""

    total: int
    waiting: int = WAITING
    wait_seconds: float = WAIT_SECONDS
    held: int = 0
    _queue: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    async def take(self, size: int) -> int:
        """Hold `size` bytes, at most the total; what is returned must be given back.

        Raises BusyError after waiting in vain.
        """
        size = min(size, self.total)
        if not self._queue and self.held + size <= self.total:
            self.held += size
        else:
            await self._wait(size)
        return size

    def give(self, size: int) -> None:
        """So many bytes are held no longer."""
        self.held -= size
        self._call_next()

    async def _wait(self, size: int) -> None:
        if len(self._queue) >= self.waiting:
            raise BusyError(self.held, self.total)
        turn = (size, asyncio.get_running_loop().create_future())
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self.wait_seconds):
                await turn[1]
        except BaseException as error:
            if turn in self._queue:
                self._queue.remove(turn)
                self._call_next()
            else:  # its turn came just now
                self.give(size)
            if isinstance(error, TimeoutError):
                raise BusyError(self.held, self.total) from error
            raise

    def _call_next(self) -> None:
        while self._queue and self.held + self._queue[0][0] <= self.total:
            size, turn = self._queue.popleft()
            self.held += size
            if turn.cancelled():
                self.held -= size
            else:
                turn.set_result(None)


@dataclass(frozen=True, slots=True)
class Intake:
    """The rooms of one listener."""

    small: Room = field(default_factory=lambda: Room(SMALL_ROOM))
    reviews: Room = field(default_factory=lambda: Room(REVIEW_ROOM))
    conversions: Room = field(default_factory=lambda: Room(CONVERSION_ROOM))

    def room(self, size: int, *, conversion: bool) -> Room:
        """Where a body of `size` bytes belongs."""
        if size <= SMALL_BODY:
            return self.small
        return self.conversions if conversion else self.reviews
