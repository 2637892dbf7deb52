"""Both clients behind one asynchronous interface, so that each test runs on both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from muster_client import Client, aio


class InThread:
    """The synchronous client, each call in a thread."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name in {"list", "watch"}:
            return lambda *args, **kwargs: _iterate(method(*args, **kwargs))
        return lambda *args, **kwargs: asyncio.to_thread(method, *args, **kwargs)


async def _iterate(items: Any) -> AsyncIterator[Any]:
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item


class Pauses:
    """Sleeps that last no time; `seconds` has what was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def connected(kind: str, kubeconfig: str | None) -> AsyncIterator[aio.Client]:
    """Yield the client of that kind, `sync` or `async`."""
    if kind == "async":
        async with await aio.Client.connect(kubeconfig) as client:
            yield client
        return
    made = await asyncio.to_thread(Client, kubeconfig)
    yield cast("aio.Client", InThread(made))
    await asyncio.to_thread(made.__exit__)
