"""A queue of keys for controllers: each key waits at most once, and one worker has it at a time.

No namespace has all workers, however slow its keys are (`kube.concurrency.fair_queue`).
"""

import asyncio
import random
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kube.base.clock import Clock, SystemClock
from kube.base.metrics import QUEUE_DEPTH, QUEUE_RETRIES, RECONCILE_SECONDS
from kube.concurrency.backoff import Backoff
from kube.concurrency.fair_queue import FairQueue

K = TypeVar("K", bound=Hashable)

_FIRST_RETRY = 0.1
"""Seconds until a failed item is retried. Each further failure doubles them."""

_LONGEST_RETRY = 30.0
"""Seconds between two attempts at an item, however often it has failed."""


class WorkQueue(Generic[K]):
    """Keys in order of arrival, except that those of a namespace at its share wait.

    A key that is added while it is worked on comes again after `done`. `retry` puts a key back
    after a wait that doubles with each failure, until `forget`.
    """

    def __init__(
        self,
        name: str,
        *,
        workers: int = 16,
        namespace: Callable[[K], str] = lambda _key: "",
        clock: Clock | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        """Label the metrics with `name`; `workers` share the keys, by their `namespace`."""
        self._clock = clock or SystemClock()
        self._jitter = jitter or random.SystemRandom()
        self._namespace = namespace
        self._ready: FairQueue[K] = FairQueue(workers)
        self._waiting: set[K] = set()  # in _ready, or to be put there after done()
        self._working: dict[K, float] = {}  # key -> when it was taken
        self._later: dict[K, tuple[float, asyncio.Task[None]]] = {}
        self._failures: dict[K, Backoff] = {}
        self._closed = False
        self._depth = QUEUE_DEPTH.labels(name)
        self._retries = QUEUE_RETRIES.labels(name)
        self._seconds = RECONCILE_SECONDS.labels(name)

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Queue the key unless it waits already."""
        if key in self._waiting or self._closed:
            return
        self._waiting.add(key)
        # One worker at a time: two would write the same objects from different states.
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key later; of several waits for one key the shortest counts."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        due = self._clock.monotonic() + seconds
        earlier = self._later.get(key)
        if earlier is not None:
            if earlier[0] <= due:
                return
            earlier[1].cancel()
        self._later[key] = (due, asyncio.create_task(self._add_later(key, seconds)))

    def retry(self, key: K, error: Exception | None = None) -> float:
        """Queue the key after its next back-off, which respects the error; return the wait."""
        backoff = self._failures.get(key)
        if backoff is None:
            backoff = Backoff(_FIRST_RETRY, _LONGEST_RETRY, self._jitter)
            self._failures[key] = backoff
        wait = backoff.next(error)
        self._retries.inc()
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """Record that the key succeeded: its next back-off starts small again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Take the next key, waiting for one; `done` must follow."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working[key] = self._clock.monotonic()
        self._depth.set(len(self._ready))
        return key

    def done(self, key: K) -> None:
        """Record that the worker has finished the key, with or without success."""
        self._seconds.observe(self._clock.monotonic() - self._working.pop(key))
        self._ready.done(self._namespace(key))
        # It changed while it was worked on: the worker may have read the earlier state.
        if key in self._waiting:
            self._push(key)

    def close(self) -> None:
        """Drop all delayed keys, so that no timer outlives the queue, and accept no others."""
        self._closed = True
        for _, task in self._later.values():
            task.cancel()
        self._later.clear()
        self._depth.set(0)

    def _push(self, key: K) -> None:
        self._ready.put(self._namespace(key), key)
        self._depth.set(len(self._ready))

    async def _add_later(self, key: K, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._later[key]
        self.add(key)
