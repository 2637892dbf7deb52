"""The controller process: caches for every replica, controllers for the one that leads."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controllers.job import job_controller
from controllers.jobset import jobset_controller
from controllers.maker import Maker
from controllers.protection import Protection
from controllers.runtime import Writer
from controllers.world import Watches, World
from kube.client import Client
from kube.clock import Clock, SystemClock
from kube.election import Fence, LeaderElector
from kube.events import Recorder
from kube.process import run_until


def _identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Where the lease is and how fast leadership changes; times in seconds.

    Without `leader_elect` the process leads at once and for ever: for one replica only.
    """

    namespace: str = "muster-system"
    lease_name: str = "muster-controller"
    leader_elect: bool = True
    identity: str = field(default_factory=_identity)
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


class ControllerProcess:
    """Everything `muster controller` runs. `checks` is what `/readyz` asks."""

    def __init__(
        self, client: Client, config: ControllerConfig, clock: Clock | None = None
    ) -> None:
        """Nothing is read or written before `run`."""
        clock = clock or SystemClock()
        self._client = client
        self._config = config
        self._clock = clock
        self._world = World()
        self._watches = Watches(client, self._world, clock)
        self._writer = Writer(client)
        self._recorder = Recorder(client, "muster-controller", clock)
        maker = Maker(self._world, self._writer, self._recorder, clock)
        self._owners = (
            jobset_controller(self._world, maker, clock),
            job_controller(self._world, maker, clock),
        )
        self._protection = Protection(self._world, self._writer, clock)

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """Ready means that the caches are whole; a replica that does not lead is ready too."""
        return {"caches": self._world.synced.is_set}

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. Trouble with the API server is waited out."""
        await run_until(stop, self._watches.run(), self._recorder.run(), self._lead())

    async def _lead(self) -> None:
        await self._world.synced.wait()
        config = self._config
        if not config.leader_elect:
            await self._work(Fence(self._clock, 0, float("inf")))
            return
        elector = LeaderElector(
            self._client,
            config.lease_name,
            config.namespace,
            config.identity,
            self._clock,
            lease=config.lease_seconds,
            renew=config.renew_seconds,
            retry=config.retry_seconds,
        )
        await elector.run(self._work)

    async def _work(self, fence: Fence) -> None:
        """One term: everything is looked at once, then what changes."""
        self._writer.lead(fence)
        async with asyncio.TaskGroup() as group:
            for part in (*self._owners, self._protection):
                part.resync()
                group.create_task(part.controller.run())
