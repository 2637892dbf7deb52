"""The watch of Kubernetes' own PodGroups and CompositePodGroups, while the API server serves them.

An administrator turns these APIs on and off by gates of the API server, one by one. So they are
discovered again every minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from api.constants import NATIVE_POD_GROUP
from kube.base.clock import Clock
from kube.base.errors import Forbidden, KubeError
from kube.base.metrics import WATCH_LAG
from kube.client import discovery
from kube.client.client import Client
from kube.client.resources import Resource
from kube.concurrency.event_wait import done_within
from kube.concurrency.freeze import Freeze
from kube.concurrency.pace import Pace
from kube.informers.reflector import Reflector
from scheduler.support.kinds import NATIVE_GROUPS
from scheduler.watch.event_handlers import GroupHandler, PodHandler

_PATIENCE: Final = 30.0
"""Seconds that the scheduler waits at its start for groups that it may read."""

_log = structlog.get_logger()


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
        resources = {kind: NATIVE_GROUPS[kind] for kind in handlers}
        self._discovery = discovery.Discovery(client, resources, clock)

    async def run(self) -> None:
        """Watch what is served, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                served = await self._discovery.probe()
                for kind in self._handlers:
                    if kind in served and kind not in self._tasks:
                        self._begin(kind, group)
                    elif kind not in served and kind in self._tasks:
                        await self._end(kind)
                await self._set_native(NATIVE_POD_GROUP.full_kind in self._tasks)
                if not self.known.is_set():
                    await self._wait_for_groups()
                await asyncio.sleep(discovery.PROBE_SECONDS)

    def _begin(self, kind: str, group: asyncio.TaskGroup) -> None:
        _log.info("the API server serves groups of Kubernetes' own", kind=kind)
        reflector = self._reflector(NATIVE_GROUPS[kind], self._handlers[kind])
        self.reflectors[kind] = reflector
        self._tasks[kind] = group.create_task(reflector.run())

    async def _end(self, kind: str) -> None:
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
            path = reflector.resource.path()
            try:
                await discovery.get(self._client, path, self._clock, limit="1")
            except Forbidden:
                continue  # the reflector logs it
            except KubeError:
                pass  # the reflector tries again
            await reflector.synced.wait()
