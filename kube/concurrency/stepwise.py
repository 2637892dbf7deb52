"""Plain functions that give way in the middle, without being written as generators.

At any depth of nested calls, such a function calls `pause` between two steps. Work that turns out
to be long restarts in a thread of its own. The two threads never run at the same time: while one
runs the other waits for it. So nothing has to be locked, and the function may use what its caller
uses, as a generator may.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Final, Generic, Protocol, TypeVar

from kube.base.clock import Clock

T = TypeVar("T")

SHORT: Final = 0.01
"""Seconds of its thread's own time within which most work ends, without a thread."""

SLICE: Final = 0.002
"""Seconds of longer work after which others may run."""


class _StoppedError(BaseException):
    """The end of work at a pause; no error handler is meant to catch it."""


class _UnderWay(Protocol):
    given: float

    def pause(self) -> None: ...


class Stepwise:
    """A runner of work in steps; several may alternate, each in the middle of its work."""

    def __init__(self, clock: Clock, spent: Callable[[], float] | None = None) -> None:
        """Measure by `spent`, the seconds that this thread has run; by default any time counts.

        On a busy machine, work is not long merely because other processes run meanwhile.
        """
        self._clock = clock
        self._spent = spent or clock.monotonic
        self._current: _UnderWay | None = None

    def pause(self) -> None:
        """Let others run here, between two steps of work. Outside of work it does nothing."""
        if self._current is not None:
            self._current.pause()

    def monotonic(self) -> float:
        """Return a time that stands still for the current work while others run."""
        given = self._current.given if self._current is not None else 0.0
        return self._clock.monotonic() - given

    def steps(self, work: Callable[[], T]) -> Generator[None, None, T]:
        """Return the result of the work; yield where it paused and others should run.

        The work may restart, so it must not change anything before. Closing the generator ends the
        work at its pause.
        """
        self._current = _Short(self._clock, self._spent)
        try:
            # Most work is short: it needs neither a thread nor a second run.
            return work()
        except _StoppedError:
            pass
        finally:
            self._current = None
        yield
        long = _Long(work, self._clock)
        try:
            while not self._resume(long):
                before = self._clock.monotonic()
                yield
                long.given += self._clock.monotonic() - before
        finally:
            self._close(long)
        return long.result()

    async def awaited(self, work: Callable[[], T]) -> T:
        """Return the result of the work; other tasks run where it pauses."""
        with closing(self.steps(work)) as steps:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    result: T = end.value
                    return result
                await asyncio.sleep(0)

    def _resume(self, long: _Long[T]) -> bool:
        self._current = long
        try:
            return long.resume()
        finally:
            self._current = None

    def _close(self, long: _Long[T]) -> None:
        self._current = long
        try:
            long.close()
        finally:
            self._current = None


class _Short:
    """Work that may be short; it is stopped if it is not."""

    def __init__(self, clock: Clock, spent: Callable[[], float]) -> None:
        self.given = 0.0
        self._clock = clock
        self._spent = spent
        self._until = clock.monotonic() + SHORT
        self._enough = spent() + SHORT

    def pause(self) -> None:
        # The thread runs no longer than time passes, and the clock costs less than the thread's
        # time.
        if self._clock.monotonic() >= self._until and self._spent() >= self._enough:
            raise _StoppedError


class _Long(Generic[T]):
    """Work in a thread of its own, which runs only inside `resume`; `given` is others' time."""

    def __init__(self, work: Callable[[], T], clock: Clock) -> None:
        self.given = 0.0
        self._work = work
        self._clock = clock
        self._resumed = 0.0
        self._done = self._running = self._stopped = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        # A daemon: work that no caller resumes must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="stepwise", daemon=True)
        self._thread.start()

    def resume(self) -> bool:
        """Run the work until it pauses; return whether it is done."""
        self._resumed = self._clock.monotonic()
        self._running = True
        self._go.release()
        self._wait()
        return self._done

    def close(self) -> None:
        """End the work, at its current pause."""
        self._stopped = True
        if self._running:  # the caller was interrupted while it waited
            self._wait()
        while not self._done:
            self.resume()
        self._thread.join()

    def result(self) -> T:
        """Return what the work returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def pause(self) -> None:
        if not self._stopped and self._clock.monotonic() - self._resumed < SLICE:
            return
        if not self._stopped:
            self._back.release()
            self._go.acquire()
        if self._stopped:
            raise _StoppedError

    def _wait(self) -> None:
        self._back.acquire()
        self._running = False

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._stopped:
                self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error
        finally:
            self._done = True
            self._back.release()
