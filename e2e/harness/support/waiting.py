"""Waiting for servers, and for what they promise."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aiohttp

from e2e.harness.support.rest import Rest

_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


async def eventually(probe: Callable[[], Awaitable[bool]], what: str, timeout: float = 15) -> None:
    """Polls until `probe` says True. Raises TimeoutError, which says what was waited for.

    It asks less and less often: what does not come at once is waited for by many tests at a time.
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
    """Whether the API server is ready; a server that cannot be reached is not."""
    with contextlib.suppress(*_UNREACHABLE):
        async with client as rest:
            ready = await rest.get("/readyz", timeout=5)
            default = await rest.get("/api/v1/namespaces/default", timeout=5)
            return ready.status == 200 and default.status == 200
    return False


async def healthy(url: str) -> bool:
    """Whether a health page answers 200."""
    with contextlib.suppress(*_UNREACHABLE):
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
            return answer.status == 200
    return False
