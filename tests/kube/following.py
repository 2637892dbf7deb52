"""A recording sink, and a reflector that feeds it from a scripted server."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from typing import Any

from kube.base.clock import Clock
from kube.client.client import Client
from kube.client.meta import Key, Partial, decode_partial
from kube.client.resources import PODS
from kube.informers.reflector import Delivery, Reflector, Requests, Sink
from tests.support.api_server import Reply
from tests.support.builders import make_pod

Following = Callable[..., AbstractAsyncContextManager[Reflector[Partial]]]


class Record:
    """A sink that records its calls and lets tests wait for them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def upsert(self, obj: Partial) -> None:
        self._note(f"+{obj.metadata.name}")

    def delete(self, key: Key) -> None:
        self._note(f"-{key[1]}")

    async def until(self, *want: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.told == list(want))

    def _note(self, word: str) -> None:
        self.told.append(word)
        task = asyncio.ensure_future(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


_DELIVERY = [each.name for each in fields(Delivery)]
_REQUESTS = [each.name for each in fields(Requests)]


@asynccontextmanager
async def following(
    client: Client, sink: Sink[Partial], clock: Clock, **options: Any
) -> AsyncIterator[Reflector[Partial]]:
    """Run a reflector of pods inside the block; only the end of the block stops it."""
    requests = {name: options.pop(name) for name in _REQUESTS if name in options}
    delivery = {name: options.pop(name) for name in _DELIVERY if name in options}
    reflector = Reflector(
        client,
        PODS,
        sink,
        decode=options.pop("decode", decode_partial),
        clock=clock,
        delivery=Delivery(**delivery),
        requests=Requests(jitter=random.Random(1), **requests),
        **options,
    )
    task = asyncio.ensure_future(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()


def pod(name: str, version: int = 1) -> dict[str, Any]:
    return make_pod(name, "ns").stored(f"uid-{name}", str(version)).build()


def page(*names: str, version: str = "10", token: str = "") -> Reply:
    meta = {"resourceVersion": version, "continue": token}
    return Reply({"metadata": meta, "items": [pod(name) for name in names]})
