"""A worker: keys come in from synchronous callbacks, one task works them off in order."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from localcluster.errors import StatusError

K = TypeVar("K", bound=Hashable)
FIRST_DELAY = 0.05
LONGEST_DELAY = 5.0


class Worker(Generic[K]):
    """Runs `work(key)` for every key that was added, once however often it was added meanwhile.

    A StatusError means: try again later, with growing delays. Any other exception ends the worker
    and comes out of `stop`.
    """

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]]) -> None:
        """Name the task."""
        self._name = name
        self._work = work
        self._keys: dict[K, None] = {}
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, key: K) -> None:
        """Work on a key soon."""
        self._keys[key] = None
        self._wake.set()

    def add_later(self, key: K, delay: float) -> None:
        """Work on a key after so many seconds; a later word on the same key counts."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay, self._again, key)

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """End; raises what the work failed with."""
        for timer in self._timers.values():
            timer.cancel()
        if self._task is None:
            return
        self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._task.cancelled():
                raise
        self._task = None

    async def _run(self) -> None:
        while True:
            while not self._keys:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._keys))
            del self._keys[key]
            try:
                await self._work(key)
            except StatusError:
                self._retry(key)
            else:
                self._failures.pop(key, None)

    def _retry(self, key: K) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_later(key, min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY))

    def _again(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
