"""The watch of Kubernetes' own PodGroups and CompositePodGroups, while the API server serves them.

An administrator turns these APIs on and off by gates of the API server, one by one. So they are
discovered again every minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from api.constants import NATIVE_POD_GROUP
from kube.base.clock import Clock
from kube.base.errors import STARTING, Forbidden, KubeError, NotFound
from kube.base.metrics import WATCH_LAG
from kube.client.client import Client
from kube.client.decoding import Decoder
from kube.client.resources import Resource
from kube.concurrency.freeze import Freeze
from kube.concurrency.pace import Pace
from kube.informers.reflector import Reflector
from scheduler.support.event_wait import done_within
from scheduler.support.kinds import NATIVE_GROUPS
from scheduler.watch.event_handlers import GroupHandler, PodHandler

_PROBE_SECONDS: Final = 60.0
"""Seconds between two discoveries."""

_ASKED_AGAIN: Final = 1.0
"""Seconds between two requests after an error of the API server, until the first answer."""

_PATIENCE: Final = 30.0
"""Seconds that the scheduler waits at its start for groups that it may read."""

_MISSED: Final = 3
"""Probes in a row that do not find a kind before it is gone: one of several API servers may lack it
while all of them restart."""

_log = structlog.get_logger()


class _ServedResource(msgspec.Struct):
    name: str = ""


class _ServedResources(msgspec.Struct):
    resources: list[_ServedResource] = []


_served_resources: Final = Decoder(_ServedResources)


class NativeGroupWatch:
    """The reflectors of the kinds that are served, by the kind of their groups' keys.

    `discovered` is set once it is known which these are, and so what `spec.schedulingGroup` of a
    pod means. `known` is set once their groups are known, too, or could not be read in time.
    """

    def __init__(
        self,
        client: Client,
        handlers: Mapping[str, GroupHandler],
        pods: PodHandler,
        *,
        reflector: Callable[[Resource, GroupHandler], Reflector[Any]],
        reread_pods: Callable[[], Awaitable[None]],
        clock: Clock,
        freeze: Freeze,
    ) -> None:
        """Call `reread_pods` when `spec.schedulingGroup` of pods changes its meaning."""
        self.reflectors: dict[str, Reflector[Any]] = {}
        self.discovered = asyncio.Event()
        self.known = asyncio.Event()
        self._client = client
        self._handlers = handlers
        self._pods = pods
        self._reflector = reflector
        self._reread_pods = reread_pods
        self._clock = clock
        self._freeze = freeze
        self._pace = Pace("native groups", clock)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._missed: dict[str, int] = {}

    async def run(self) -> None:
        """Watch what is served, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                served = await self._discover()
                for kind in self._handlers:
                    if kind not in served:
                        await self._miss(kind)
                        continue
                    self._missed.pop(kind, None)
                    if kind not in self._tasks:
                        self._begin(kind, group)
                await self._set_native(NATIVE_POD_GROUP.full_kind in self._tasks)
                if not self.known.is_set():
                    await self._wait_for_groups()
                await asyncio.sleep(_PROBE_SECONDS)

    async def _discover(self) -> set[str]:
        """Return the kinds that are served. Waits while the API server is down."""
        while True:
            try:
                return {kind for kind in self._handlers if await self._serves(NATIVE_GROUPS[kind])}
            except (KubeError, msgspec.DecodeError) as error:
                _log.warning("failed to discover Kubernetes' own PodGroups", error=str(error))
                await asyncio.sleep(_ASKED_AGAIN)

    async def _serves(self, resource: Resource) -> bool:
        # Discovery, not a list: pods name these groups even if the role does not allow to read any.
        path = f"/apis/{resource.group}/{resource.version}"
        try:
            body = await self._permitted(path)
        except NotFound:
            return False
        found = _served_resources(body) if body is not None else _ServedResources()
        return any(each.name == resource.plural for each in found.resources)

    async def _permitted(self, path: str, **params: str) -> bytes | None:
        """Return the response, or None if it may not be read. Raises other KubeErrors."""
        starts_until = self._clock.monotonic() + STARTING
        while True:
            try:
                return await self._client.request("GET", path, params=params)
            except Forbidden as error:
                # An API server that is starting responds with 403 for a moment.
                if self._clock.monotonic() >= starts_until:
                    _log.error("may not read Kubernetes' own groups", error=str(error))
                    return None
            await asyncio.sleep(_ASKED_AGAIN)

    def _begin(self, kind: str, group: asyncio.TaskGroup) -> None:
        _log.info("the API server serves groups of Kubernetes' own", kind=kind)
        reflector = self._reflector(NATIVE_GROUPS[kind], self._handlers[kind])
        self.reflectors[kind] = reflector
        self._tasks[kind] = group.create_task(reflector.run())

    async def _miss(self, kind: str) -> None:
        """Count a probe that did not find the kind, and end its watch after the last one."""
        if kind not in self._tasks:
            return
        self._missed[kind] = self._missed.get(kind, 0) + 1
        if self._missed[kind] < _MISSED:
            return
        _log.info("the API server no longer serves groups of Kubernetes' own", kind=kind)
        self._tasks.pop(kind).cancel()
        del self.reflectors[kind]
        WATCH_LAG.remove(NATIVE_GROUPS[kind].full_name)
        handler = self._handlers[kind]
        for key in handler.known():
            await self._freeze.over()
            handler.delete(key)
            if self._pace.over(key):
                await self._pace.give_way()

    async def _set_native(self, native: bool) -> None:
        changed, self._pods.native = native != self._pods.native, native
        if not self.discovered.is_set():
            # No pod has been read yet.
            self.discovered.set()
        elif changed:
            await self._reread_pods()

    async def _wait_for_groups(self) -> None:
        await done_within(self._synced(), _PATIENCE, self._clock)
        self.known.set()

    async def _synced(self) -> None:
        """Wait for the first lists of the kinds that may be read."""
        for reflector in list(self.reflectors.values()):
            try:
                readable = await self._permitted(reflector.resource.path(), limit="1") is not None
            except KubeError:
                readable = True  # the reflector tries again
            if readable:
                await reflector.synced.wait()
