"""Waiting for an event and for a time at once."""

from __future__ import annotations

import asyncio

from kube.clock import Clock


async def wait_until(event: asyncio.Event, until: float, clock: Clock) -> None:
    """Until the event is set, at most until that time of the monotonic clock."""
    signal = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(until - clock.monotonic()))
    try:
        await asyncio.wait({signal, timer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        signal.cancel()
        timer.cancel()
