"""A limit of concurrent work, of which no namespace takes all, however slow its work is.

A namespace may have twice as much under way as is free: alone it gets two thirds of the limit, and
what others need meanwhile is free immediately, not when the first of its work ends. With each
namespace that joins, the shares of all become smaller.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_SHARE: Final = 2
"""The factor of the free slots below which a namespace gets another one."""


class FairOrder(Generic[T]):
    """Items of namespaces in the order of arrival, except that a namespace at its share waits."""

    def __init__(self, limit: int) -> None:
        """Allow at most `limit` items under way: taken, and not `done`."""
        self._free = limit
        self._under_way: Counter[str] = Counter()
        self._items: dict[str, deque[tuple[int, T]]] = {}
        # The namespaces with items, by the number of the first; without those at their share.
        self._heads: list[tuple[int, str]] = []
        self._at_share: list[str] = []
        self._numbers = count()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def put(self, namespace: str, item: T) -> None:
        """Add an item at the end."""
        items = self._items.setdefault(namespace, deque())
        items.append((next(self._numbers), item))
        self._waiting += 1
        if len(items) == 1:
            self._add_head(namespace)

    def take(self) -> tuple[str, T] | None:
        """Take the next item, and return it with its namespace; None if none may be taken."""
        while self._heads and self._free:
            _, namespace = heapq.heappop(self._heads)
            if self._under_way[namespace] < _SHARE * self._free:
                return namespace, self._start(namespace)
            self._at_share.append(namespace)
        return None

    def done(self, namespace: str) -> None:
        """Record that an item of the namespace is no longer under way."""
        self._free += 1
        self._under_way[namespace] -= 1
        if not self._under_way[namespace]:
            del self._under_way[namespace]
        # More is free now, so each of them may be below its share again.
        for each in self._at_share:
            self._add_head(each)
        self._at_share.clear()

    def _add_head(self, namespace: str) -> None:
        heapq.heappush(self._heads, (self._items[namespace][0][0], namespace))

    def _start(self, namespace: str) -> T:
        items = self._items[namespace]
        _, item = items.popleft()
        if items:
            self._add_head(namespace)
        else:
            del self._items[namespace]
        self._waiting -= 1
        self._free -= 1
        self._under_way[namespace] += 1
        return item


class FairQueue(Generic[T]):
    """A queue for workers; each worker reports when it is done with an item."""

    def __init__(self, workers: int) -> None:
        self._order: FairOrder[T] = FairOrder(workers)
        self._getters: deque[asyncio.Future[T]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def put(self, namespace: str, item: T) -> None:
        """Add an item at the end."""
        self._order.put(namespace, item)
        self._serve()

    async def get(self) -> T:
        """Return the next item, which is under way until `done`."""
        getter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        self._serve()
        return await getter

    def done(self, namespace: str) -> None:
        """Record that an item of the namespace is no longer under way."""
        self._order.done(namespace)
        self._serve()

    def _serve(self) -> None:
        while self._getters:
            if self._getters[0].done():
                self._getters.popleft()  # cancelled
            elif (taken := self._order.take()) is not None:
                self._getters.popleft().set_result(taken[1])
            else:
                return


class FairSemaphore:
    """A semaphore of `permits`, of which no namespace has all."""

    def __init__(self, permits: int) -> None:
        self._order: FairOrder[asyncio.Future[None]] = FairOrder(permits)

    @asynccontextmanager
    async def acquired(self, namespace: str) -> AsyncIterator[None]:
        """Hold one permit in the block."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order.put(namespace, turn)
        self._serve()
        try:
            await turn
            yield
        finally:
            if turn.cancelled():
                self._serve()  # not served yet: `_serve` skips it
            else:
                self._order.done(namespace)
                self._serve()

    def _serve(self) -> None:
        while (taken := self._order.take()) is not None:
            namespace, turn = taken
            if turn.done():
                self._order.done(namespace)
            else:
                turn.set_result(None)
