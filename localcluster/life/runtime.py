"""What every controller shares: a queue of keys and workers that reconcile them."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from localcluster.clock import Clock
from localcluster.errors import StatusError
from localcluster.life.workqueue import WorkQueue

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]

WORKERS = 8


class Loop(Generic[K]):
    """Runs `reconcile(key)` for every key added; it answers in how many seconds to come again."""

    def __init__(self, name: str, clock: Clock, reconcile: Reconcile[K]) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock)
        self._reconcile = reconcile

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(WORKERS):
                    tasks.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                again = await self._reconcile(key)
            except StatusError as error:
                # Mostly a conflict or an object that has just gone: a fresh look settles it.
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
