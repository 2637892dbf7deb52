"""Virtual time for tests: it advances only when a test advances it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

T = TypeVar("T")

_SETTLE_TURNS = 20


class FakeClock:
    """A clock that does not advance by itself.

    It starts later than the clock of any test machine, however long that has been up. So code that
    compares the two by accident behaves the same everywhere.
    """

    def __init__(self, start: float = 1e8) -> None:
        """Create a clock; `start` is the first value of `monotonic`, in seconds."""
        self._monotonic = start
        self._epoch = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=start)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._slept = asyncio.Event()

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self._monotonic)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), future))
        self._slept.set()
        await future

    async def advance(self, seconds: float) -> None:
        """Advance the time; sleepers wake in order, each at its own time."""
        target = self._monotonic + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            self._wake_next()
            await settle()
        self._monotonic = max(self._monotonic, target)
        await settle()

    async def advance_to_next(self) -> None:
        """Advance the time to the next sleeper, which must exist."""
        if not self._pending():
            raise AssertionError("no task is sleeping")
        self._wake_next()
        await settle()

    def jump(self, seconds: float) -> None:
        """Jump forward, as after a suspended machine; sleepers do not wake."""
        self._monotonic += seconds

    async def sleeping(self, count: int = 1) -> None:
        """Wait until at least `count` sleepers are waiting."""
        while len(self._pending()) < count:
            self._slept.clear()
            await self._slept.wait()

    async def play(self, awaitable: Awaitable[T]) -> T:
        """Run to the end, advancing to the next sleeper whenever there is one."""
        task = asyncio.ensure_future(awaitable)
        while not task.done():
            await settle()
            if task.done():
                break
            if self._pending():
                self._wake_next()
                continue
            self._slept.clear()
            waiter = asyncio.ensure_future(self._slept.wait())
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
        return await task

    def _pending(self) -> list[tuple[float, int, asyncio.Future[None]]]:
        """Return the waiting sleepers as a heap, without cancelled ones."""
        self._sleepers = [entry for entry in self._sleepers if not entry[2].done()]
        heapq.heapify(self._sleepers)
        return self._sleepers

    def _wake_next(self) -> None:
        due, _, future = heapq.heappop(self._sleepers)
        self._monotonic = max(self._monotonic, due)
        if not future.done():
            future.set_result(None)


async def settle() -> None:
    """Run every task that can proceed without time or I/O."""
    loop = asyncio.get_running_loop()
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)
        if _is_idle(loop):
            return


def _is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if more iterations change nothing: no callback is ready, and no socket is open.

    Tests with a virtual clock spent most of their time in iterations of an idle loop. Event loops
    other than asyncio's own do not expose this state, and get all iterations.
    """
    ready, selector = getattr(loop, "_ready", True), getattr(loop, "_selector", None)
    # The loop itself registers one descriptor, by which threads wake it.
    return not ready and selector is not None and len(selector.get_map()) == 1
