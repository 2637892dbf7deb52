"""Everything that lives in the cluster, started and stopped as one."""

import asyncio
from typing import Any

from localcluster.clock import Clock, SystemClock
from localcluster.life.disruption import DisruptionController
from localcluster.life.jobs.controller import JobController
from localcluster.life.jobsets.controller import JobSetController
from localcluster.life.node_lifecycle import NodeLifecycle
from localcluster.life.nodes import Nodes
from localcluster.life.port import JOBS, JOBSETS, NODES, PDBS, PODS, SERVICES, Server
from localcluster.life.recorder import Recorder
from localcluster.life.world import World
from localcluster.workqueue import Loop, cancel

WATCHED = (NODES, PODS, JOBS, JOBSETS, SERVICES, PDBS)


class Life:
    """The kubelets and controllers of one cluster; `nodes` is how tests reach into it."""

    def __init__(
        self,
        server: Server,
        clock: Clock | None = None,
        *,
        grace_cap: float = 0.05,
        jobset_scaling: bool = False,
    ) -> None:
        clock = clock or SystemClock()
        self._world = World(server, WATCHED, clock)
        self._recorder = Recorder(self._world, clock)
        self.nodes = Nodes(self._world, clock, grace_cap=grace_cap)
        self._loops: list[Loop[Any]] = [
            self.nodes.loop,
            NodeLifecycle(self._world, clock).loop,
            JobController(self._world, clock, self._recorder).loop,
            JobSetController(self._world, clock, self._recorder, scaling=jobset_scaling).loop,
            DisruptionController(self._world, clock).loop,
        ]
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to live; returns once every cache holds the whole cluster."""
        self._task = asyncio.create_task(self._run())
        synced = asyncio.create_task(self._world.synced())
        await asyncio.wait((self._task, synced), return_when=asyncio.FIRST_COMPLETED)
        if not synced.done():
            synced.cancel()
            await self._task

    async def stop(self) -> None:
        """End all tasks; raises what they failed with."""
        if self._task is not None:
            await cancel(self._task)
            self._task = None

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done before time passes or something changes."""
        return self._recorder.idle and all(loop.queue.idle for loop in self._loops)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._world.run())
            await self._world.synced()
            tasks.create_task(self._recorder.run())
            for loop in self._loops:
                tasks.create_task(loop.run())
