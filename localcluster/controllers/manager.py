"""The controllers and kubelets of a cluster, started and stopped together."""

import asyncio
from typing import Any

from localcluster.base.clock import Clock, SystemClock
from localcluster.controllers.base.api_protocol import (
    CLAIM_TEMPLATES,
    CLAIMS,
    JOBS,
    JOBSETS,
    NODES,
    PDBS,
    PODS,
    SERVICES,
    Server,
)
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.event_recorder import EventRecorder
from localcluster.controllers.base.workqueue import Loop, cancel
from localcluster.controllers.disruption import DisruptionController
from localcluster.controllers.jobs.controller import JobController
from localcluster.controllers.jobsets.controller import JobSetController
from localcluster.controllers.node_lifecycle import NodeLifecycle
from localcluster.controllers.nodes import Nodes
from localcluster.controllers.resource_claims.controller import ResourceClaimController

WATCHED = (NODES, PODS, JOBS, JOBSETS, SERVICES, PDBS, CLAIMS, CLAIM_TEMPLATES)


class ControllerManager:
    """The kubelets and controllers of one cluster; tests use its `nodes`."""

    def __init__(
        self,
        server: Server,
        clock: Clock | None = None,
        *,
        grace_cap: float = 0.05,
        jobset_scaling: bool = False,
    ) -> None:
        clock = clock or SystemClock()
        self._client = CachedClient(server, WATCHED, clock)
        self._recorder = EventRecorder(self._client, clock)
        self.nodes = Nodes(self._client, clock, grace_cap=grace_cap)
        self._loops: list[Loop[Any]] = [
            self.nodes.loop,
            NodeLifecycle(self._client, clock).loop,
            JobController(self._client, clock, self._recorder).loop,
            JobSetController(self._client, clock, self._recorder, scaling=jobset_scaling).loop,
            DisruptionController(self._client, clock).loop,
            ResourceClaimController(self._client, clock, self._recorder).loop,
        ]
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start; returns once every cache is synced."""
        self._task = asyncio.create_task(self._run())
        synced = asyncio.create_task(self._client.synced())
        await asyncio.wait((self._task, synced), return_when=asyncio.FIRST_COMPLETED)
        if not synced.done():
            synced.cancel()
            await self._task

    async def stop(self) -> None:
        """Stop all tasks; raises the errors they failed with."""
        if self._task is not None:
            await cancel(self._task)
            self._task = None

    @property
    def idle(self) -> bool:
        """True if there is no work before time passes or an object changes."""
        return self._recorder.idle and all(loop.queue.idle for loop in self._loops)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._client.run())
            await self._client.synced()
            tasks.create_task(self._recorder.run())
            for loop in self._loops:
                tasks.create_task(loop.run())
