"""Polling of servers and their state."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aiohttp

from e2e.harness.support.rest import Rest

UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


async def eventually(probe: Callable[[], Awaitable[bool]], what: str, timeout: float = 15) -> None:
    """Poll until `probe` returns True.

    Raises TimeoutError, which names what was awaited.

    The interval increases: many tests wait at the same time for slow conditions.
    """
    pause = 0.03
    try:
        async with asyncio.timeout(timeout):
            while not await probe():
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, 0.3)
    except TimeoutError as error:
        raise TimeoutError(f"waited {timeout:.0f} s for {what}") from error


async def answers(client: Rest) -> bool:
    """Return True if the API server is ready; an unreachable server is not."""
    with contextlib.suppress(*UNREACHABLE):
        async with client as rest:
            ready = await rest.get("/readyz", timeout=5)
            default = await rest.get("/api/v1/namespaces/default", timeout=5)
            return ready.status == 200 and default.status == 200
    return False


async def healthy(url: str) -> bool:
    """Return True if a health page responds with 200."""
    with contextlib.suppress(*UNREACHABLE):
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
            return answer.status == 200
    return False


class Patience:
    """Patience with what becomes less: the total time depends on the machine."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._fewest: int | None = None
        self._since = 0.0

    def is_over(self, left: int) -> bool:
        """Return True if what is left has not become less for so many seconds."""
        now = asyncio.get_running_loop().time()
        if self._fewest is None or left < self._fewest:
            self._fewest, self._since = left, now
        return now - self._since > self.seconds
