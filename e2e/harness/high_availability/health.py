"""Health checks of servers that share a load."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

_EVERY_SECONDS = 1.0

Check = Callable[[], Awaitable[bool]]


class Health:
    """The servers, by their port, whose last check succeeded; each is checked once a second."""

    def __init__(self, checks: Mapping[int, Check]) -> None:
        self._checks = checks
        self._ill: set[int] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, port: int) -> bool:
        """Return True if the server serves, as far as is known."""
        return port not in self._ill

    def start(self) -> None:
        made = (self._watch(port, check) for port, check in self._checks.items())
        self._tasks = [asyncio.ensure_future(each) for each in made]

    async def stop(self) -> None:
        """End all checks. Raises what a check raised."""
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        self._tasks.clear()

    async def _watch(self, port: int, check: Check) -> None:
        while True:
            if await check():
                self._ill.discard(port)
            else:
                self._ill.add(port)
            await asyncio.sleep(_EVERY_SECONDS)
