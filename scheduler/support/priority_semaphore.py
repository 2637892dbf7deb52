"""Semaphores whose waiters are served by priority."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class PrioritySemaphore:
    """Waiters are served by priority, the lowest number first, then in the order they came."""

    def __init__(self, permits: int) -> None:
        self._free = permits
        self._numbers = count()
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def acquired(self, priority: int) -> AsyncIterator[None]:
        """Holds one permit inside the block."""
        await self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, priority: int) -> None:
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (priority, next(self._numbers), waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release()  # it had been handed a permit
            raise

    def _release(self) -> None:
        """Hand the permit to the next waiter; only without waiters does it become free."""
        while self._waiters:
            *_, waiter = heapq.heappop(self._waiters)
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


class SharedSemaphore:
    """Of `permits` in all, one key holds at most `share`, and leaves the others to other keys.

    Waiters are served by priority.
    """

    def __init__(self, permits: int, share: int) -> None:
        self._all = PrioritySemaphore(permits)
        self._share = share
        self._shares: dict[str, PrioritySemaphore] = {}
        self._users: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._shares)

    @asynccontextmanager
    async def acquired(self, key: str, priority: int) -> AsyncIterator[None]:
        """Holds one permit inside the block."""
        share = self._shares.setdefault(key, PrioritySemaphore(self._share))
        self._users[key] += 1
        try:
            async with share.acquired(priority), self._all.acquired(priority):
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._shares[key]
