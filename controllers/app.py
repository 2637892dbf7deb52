"""The controller process: caches for every replica, controllers for the one that leads."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from controllers.coscheduling import Coscheduling
from controllers.fill import Fill
from controllers.implicit import Implicit
from controllers.job import job_controller
from controllers.jobset import jobset_controller
from controllers.leftovers import Leftovers
from controllers.maker import Maker
from controllers.mirror import Mirror
from controllers.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS
from controllers.protection import Protection
from controllers.runtime import Controller, Writer
from controllers.world import Watches, World
from kube.client import Client
from kube.clock import Clock, SystemClock
from kube.election import Fence, lead
from kube.events import Recorder
from kube.process import run_until
from kube.settings import LeaderElection

LEASE = "muster-controller"


class Part(Protocol):
    """One controller of the process."""

    @property
    def controller(self) -> Controller[Any]: ...

    def resync(self) -> None:
        """Queue everything, as at the start of a term."""


class ControllerProcess:
    """Everything `muster controller` runs. `checks` is what `/readyz` asks."""

    def __init__(
        self,
        client: Client,
        election: LeaderElection,
        namespace: str = "muster-system",
        clock: Clock | None = None,
    ) -> None:
        """Nothing is read or written before `run`. The lease is in `namespace`."""
        clock = clock or SystemClock()
        self._client = client
        self._election = election
        self._namespace = namespace
        self._clock = clock
        self._world = World()
        self._watches = Watches(client, self._world, clock)
        self._writer = Writer(client)
        self._recorder = Recorder(client, "muster-controller", clock)
        maker = Maker(self._world, self._writer, clock)
        mirror = Mirror(self._world, self._writer, self._recorder, clock)
        self._parts: tuple[Part, ...] = (
            jobset_controller(self._world, maker, mirror, clock),
            job_controller(self._world, maker, mirror, clock),
            *(
                Coscheduling(
                    resource, self._world, clock, maker=maker, mirror=mirror, writer=self._writer
                )
                for resource in (COSCHEDULINGS, PLUGINS_POD_GROUPS)
            ),
            Implicit(self._world, self._writer, maker, self._recorder, clock),
            Fill(self._world, self._writer, clock),
            Protection(self._world, self._writer, clock),
            Leftovers(self._world, self._writer, clock),
        )

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """Ready means that the caches are whole; a replica that does not lead is ready too."""
        return {"caches": self._world.synced.is_set}

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. Trouble with the API server is waited out."""
        await run_until(stop, self._watches.run(), self._recorder.run(), self._lead())

    async def _lead(self) -> None:
        await self._world.synced.wait()
        await lead(
            self._client,
            LEASE,
            self._namespace,
            self._election,
            self._work,
            clock=self._clock,
        )

    async def _work(self, fence: Fence) -> None:
        """One term: everything is looked at once, then what changes."""
        self._writer.lead(fence)
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                part.resync()
                group.create_task(part.controller.run())
