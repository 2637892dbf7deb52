"""The synchronous client: the asynchronous one, whose event loop runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection, Coroutine, Generator
from typing import Any, Self, TypeVar

from muster_client import aio
from muster_client.groups import PENDING, Event, G, Outcome, T

R = TypeVar("R")


class Client:
    """The methods of `muster_client.aio.Client`, for any thread. They raise the same errors."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        """Connect as `muster_client.aio.Client.connect` does."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        try:
            self._client = self._run(aio.Client.connect(kubeconfig, context))
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all calls of other threads, close all connections, and end the own thread."""
        self._run(self._close())
        self._end()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._client.__aexit__()

    def _serve(self) -> None:
        self._loop.run_forever()
        if left := asyncio.all_tasks(self._loop):  # of iterators that ended meanwhile
            self._loop.run_until_complete(asyncio.wait(left))

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def get(self, kind: type[T], name: str, namespace: str) -> T:
        """Return an object."""
        return self._run(self._client.get(kind, name, namespace))

    def create(self, obj: T) -> T:
        """Create an object in the namespace of its metadata; return it as stored."""
        return self._run(self._client.create(obj))

    def patch(self, kind: type[T], name: str, namespace: str, changes: aio.Patch) -> T:
        """Apply a merge patch (a mapping) or a JSON patch (a sequence); return the object."""
        return self._run(self._client.patch(kind, name, namespace, changes))

    def delete(self, kind: type[T], name: str, namespace: str, *, uid: str | None = None) -> None:
        """Delete an object; with a UID only the object that has it."""
        self._run(self._client.delete(kind, name, namespace, uid=uid))

    def list(
        self, kind: type[T], namespace: str | None = None, **selectors: str
    ) -> Generator[T, None, None]:
        """Yield the objects of a namespace, or of all; log those that cannot be read.

        `selectors` are `label_selector` and `field_selector`.
        """
        return self._iterate(self._client.list(kind, namespace, **selectors))

    def watch(
        self, kind: type[T], namespace: str | None = None, **selectors: str
    ) -> Generator[Event[T], None, None]:
        """Yield the existing objects as ADDED, and then each change, as `aio.Client` does."""
        return self._iterate(self._client.watch(kind, namespace, **selectors))

    def wait_until_placed(
        self,
        kind: type[G],
        name: str,
        namespace: str,
        *,
        timeout: float,
        pending: Collection[str] = PENDING,
    ) -> Outcome[G]:
        """Wait until the scheduler places or refuses a group; return which, and the reason.

        The arguments and errors are those of `aio.Client.wait_until_placed`.
        """
        waiting = self._client.wait_until_placed(
            kind, name, namespace, timeout=timeout, pending=pending
        )
        return self._run(waiting)

    def _iterate(self, items: AsyncGenerator[R, None]) -> Generator[R, None, None]:
        async def following() -> tuple[R] | None:
            async for item in items:
                return (item,)
            return None

        try:
            while found := self._run(following()):
                yield found[0]
        finally:
            # Without waiting: the garbage collector may do this in the thread of the loop.
            if not self._loop.is_closed():
                asyncio.run_coroutine_threadsafe(items.aclose(), self._loop)

    def _run(self, call: Coroutine[Any, Any, R]) -> R:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the caller was interrupted
            raise
