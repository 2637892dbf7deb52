"""The times of binds and group statuses, from watches that are independent of the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from e2e.harness.support.rest import Rest
from tools.bench.end_to_end.objects import PODS

# The name differs between the two schedulers' groups, and between versions.
_SCHEDULED = ("PodGroupScheduled", "PodGroupInitiallyScheduled")


class _Meta(msgspec.Struct):
    name: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(_Event).decode


@dataclass(slots=True)
class Seen:
    """Wall-clock seconds by name: when pods were bound, and when groups became scheduled.

    `told` has every status update of a group, by name; `ended` when victims were deleted. `tried`
    are the pods that a scheduler has reported as waiting.
    """

    bound: dict[str, float] = field(default_factory=dict)
    scheduled: dict[str, float] = field(default_factory=dict)
    told: list[tuple[str, float]] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def pod(self, event: _Event, now: float) -> None:
        name = event.object.metadata.name
        if name not in self.tried and any(c.type == "PodScheduled" and c.status == "False" for c in
                                          event.object.status.conditions):  # fmt: skip
            self.tried.add(name)
            self.changed.set()
        if event.type == "DELETED" and name[0] == "v":
            self.ended[name] = now
            self.changed.set()
        if event.object.spec.node and name not in self.bound and name[0] != "v":
            self.bound[name] = now
            self.changed.set()

    def group(self, event: _Event, now: float) -> None:
        name = event.object.metadata.name
        if event.type == "MODIFIED" and name[0] != "v":
            self.told.append((name, now))
        said = any(c.type in _SCHEDULED and c.status == "True" for c in
                   event.object.status.conditions)  # fmt: skip
        if said and name not in self.scheduled and name[0] != "v":
            self.scheduled[name] = now
            self.changed.set()

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done`; return false if that takes more than so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def observed(rest: Rest, groups_path: str | None) -> AsyncIterator[Seen]:
    """Follow the pods, and the groups if there are any, inside the block."""
    seen = Seen()
    followed = [(PODS, seen.pod)] + ([(groups_path, seen.group)] if groups_path else [])
    opened = [asyncio.Event() for _ in followed]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_follow(rest, path, take, event))
            for (path, take), event in zip(followed, opened, strict=True)
        ]
        # The watches are open before the block begins, so that they miss no bind.
        for event in opened:
            await event.wait()
        yield seen
        for task in tasks:
            task.cancel()


async def _follow(
    rest: Rest, path: str, take: Callable[[_Event, float], None], opened: asyncio.Event
) -> None:
    """Follow a collection until cancelled; a busy server may close the stream of a watcher."""
    version = (await rest.get(path, params={"limit": "1"})).ok()["metadata"]["resourceVersion"]
    while True:
        params = {"watch": "true", "resourceVersion": version}
        async with rest.session.get(path, params=params, timeout=None) as response:
            if response.status != 200:
                raise RuntimeError(f"watch of {path}: HTTP {response.status}")
            opened.set()
            rest_of_line = b""
            async for chunk in response.content.iter_any():
                now = time.time()
                *lines, rest_of_line = (rest_of_line + chunk).split(b"\n")
                for line in lines:
                    event = _decode(line)
                    if event.type == "ERROR":
                        raise RuntimeError(f"watch of {path}: {line.decode()}")
                    version = event.object.metadata.version
                    take(event, now)
