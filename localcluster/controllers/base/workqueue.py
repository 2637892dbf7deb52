"""The work queue of the controllers, and the workers that reconcile its keys."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from localcluster.base.clock import Clock
from localcluster.base.errors import StatusError

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]

WORKERS = 8

FIRST_RETRY_SECONDS = 0.005
LAST_RETRY_SECONDS = 10.0


class WorkQueue(Generic[K]):
    """Keys to reconcile: each is queued once, and only one worker processes it at a time.

    A key that is added during its processing is queued again afterwards.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # in _ready, or to be queued again by `done`
        self._working: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.Task[None]]] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        """Queue the key."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key after a delay, or earlier if an earlier time was requested."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= due:
                return
            timer[1].cancel()
        self._timers[key] = due, asyncio.create_task(self._fire(key, seconds))

    def retry(self, key: K) -> None:
        """Queue a failed key again, with increasing backoff."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_RETRY_SECONDS * 2 ** min(failures, 20), LAST_RETRY_SECONDS))

    def succeeded(self, key: K) -> None:
        """Reset the failures of a key."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next key, reserved for this caller until `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """Release the key."""
        self._working.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._wake.set()

    @property
    def idle(self) -> bool:
        """True if there is no work before a timer fires."""
        return not self._waiting and not self._working

    def close(self) -> None:
        """Stop all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def _fire(self, key: K, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._timers[key]
        self.add(key)


class Loop(Generic[K]):
    """A loop that runs `reconcile(key)` for each queued key.

    `reconcile` returns the seconds until the next run. Failures are retried with increasing
    backoff.
    """

    def __init__(
        self, name: str, clock: Clock, reconcile: Reconcile[K], *, workers: int = WORKERS
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock)
        self._reconcile = reconcile
        self._workers = workers
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the loop."""
        self._task = asyncio.create_task(self.run(), name=self.name)

    async def stop(self) -> None:
        """Stop the loop."""
        if self._task is not None:
            await cancel(self._task)
            self._task = None

    async def run(self) -> None:
        """Process keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._workers):
                    tasks.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                again = await self._reconcile(key)
            except StatusError as error:
                # Mostly a conflict or a deleted object, which a retry with fresh state resolves.
                log.debug("retrying", controller=self.name, key=key, error=str(error))
                self.queue.retry(key)
            except Exception:
                log.exception("reconcile failed, retrying", controller=self.name, key=key)
                self.queue.retry(key)
            else:
                self.queue.succeeded(key)
                if again is not None:
                    self.queue.add_after(key, again)
            finally:
                self.queue.done(key)


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task; raises the error it failed with."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.result()
