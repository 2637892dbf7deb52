"""Waiting for an event and for a time at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kube.base.clock import Clock


async def wait_until(event: asyncio.Event, until: float, clock: Clock) -> None:
    """Wait until the event is set, at most until that time of the monotonic clock."""
    # Not by `asyncio.timeout`: the tests and the lab run in virtual time.
    signal = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(until - clock.monotonic()))
    try:
        await asyncio.wait({signal, timer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        signal.cancel()
        timer.cancel()


async def done_within(work: Coroutine[Any, Any, None], seconds: float, clock: Clock) -> bool:
    """Return whether the work ends within that time; cancel it otherwise. Raise what it raises."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
            return True
        return False
    finally:
        timer.cancel()
        # Also if the caller is cancelled: the work must not go on without it.
        task.cancel()
