"""Semaphores whose waiters are served by priority."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class PrioritySemaphore:
    """A semaphore that serves waiters by priority, the lowest number first, then by arrival."""

    def __init__(self, permits: int) -> None:
        self._free = permits
        self._numbers = count()
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def acquired(self, priority: int) -> AsyncIterator[None]:
        """Hold one permit in the block."""
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
                self._release()  # it had got a permit already
            raise

    def _release(self) -> None:
        """Pass the permit to the next waiter; only without waiters does it become free."""
        while self._waiters:
            *_, waiter = heapq.heappop(self._waiters)
            # A waiter that was cancelled is still on the heap.
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


class SharedSemaphore:
    """A semaphore of `permits` in all, of which one key holds at most `share`.

    Waiters are served by priority.
    """

    def __init__(self, permits: int, share: int) -> None:
        self._all = PrioritySemaphore(permits)
        self._share = share
        self._shares: dict[str, PrioritySemaphore] = {}
        self._users: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return the number of keys in use."""
        return len(self._shares)

    @asynccontextmanager
    async def acquired(self, key: str, priority: int) -> AsyncIterator[None]:
        """Hold one permit in the block."""
        share = self._shares.setdefault(key, PrioritySemaphore(self._share))
        self._users[key] += 1
        try:
            # First the share: a key whose share is used up must not wait with a permit of all.
            async with share.acquired(priority), self._all.acquired(priority):
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                # Keys are namespaces, which come and go.
                del self._users[key], self._shares[key]
