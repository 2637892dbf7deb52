"""The controller process: caches for every replica, controllers for the one that leads."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from api.constants import CONTROLLER_COMPONENT
from api.scheduler_names import USUAL, SchedulerNames
from controllers.coscheduling import CoschedulingController
from controllers.group_claims import GroupClaims
from controllers.group_writer import GroupWriter
from controllers.implicit_groups import ImplicitGroups
from controllers.informers import Caches, Informers
from controllers.jobs import job_controller, jobset_controller
from controllers.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS
from controllers.orphans import OrphanCollector
from controllers.owner_status import OwnerStatusWriter
from controllers.protection import ProtectionController
from controllers.provisioning import ProvisioningController
from controllers.runtime import Controller, Writer
from controllers.template_values import TemplateValues
from kube.client import Client
from kube.clock import Clock, SystemClock
from kube.election import Fence, lead
from kube.events import Recorder
from kube.process import run_until
from kube.quarantine import Quarantine
from kube.settings import LeaderElection

LEASE: Final = CONTROLLER_COMPONENT


class Reconciler(Protocol):
    """One controller of the process."""

    @property
    def controller(self) -> Controller[Any]: ...

    async def resync(self) -> None:
        """Queue everything, as at the start of a term."""


class ControllerProcess:
    """Everything `muster controller` runs. `checks` are those of `/readyz`."""

    def __init__(
        self,
        client: Client,
        election: LeaderElection,
        namespace: str = "muster-system",
        clock: Clock | None = None,
        scheduler_names: SchedulerNames = USUAL,
    ) -> None:
        """Nothing is read or written before `run`. The lease is in `namespace`."""
        clock = clock or SystemClock()
        self._client = client
        self._election = election
        self._namespace = namespace
        self._clock = clock
        self._caches = Caches(scheduler_names)
        self._recorder = Recorder(client, "muster-controller", clock)
        self._quarantine = Quarantine(self._recorder)
        self._informers = Informers(client, self._caches, clock, self._quarantine)
        self._writer = Writer(client)
        group_writer = GroupWriter(self._caches, self._writer, clock)
        owner_status = OwnerStatusWriter(self._caches, self._writer, self._recorder, clock)
        self._reconcilers: tuple[Reconciler, ...] = (
            jobset_controller(self._caches, group_writer, owner_status, clock),
            job_controller(self._caches, group_writer, owner_status, clock),
            *(
                CoschedulingController(
                    resource,
                    self._caches,
                    clock,
                    group_writer=group_writer,
                    owner_status=owner_status,
                    writer=self._writer,
                )
                for resource in (COSCHEDULINGS, PLUGINS_POD_GROUPS)
            ),
            ImplicitGroups(self._caches, self._writer, group_writer, self._recorder, clock),
            TemplateValues(self._caches, self._writer, clock),
            GroupClaims(self._caches, self._writer, self._recorder, clock),
            ProtectionController(self._caches, self._writer, clock),
            OrphanCollector(self._caches, self._writer, clock),
            ProvisioningController(self._caches, self._writer, self._recorder, clock),
        )

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """Ready means that the caches are synced; a replica that does not lead is ready too."""
        return {"caches": self._caches.synced.is_set}

    def details(self) -> Iterator[str]:
        """Lines for `/readyz`: what is set aside, and what fails."""
        yield from self._quarantine.details()
        for reconciler in self._reconcilers:
            yield from reconciler.controller.details()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. Errors of the API server are retried."""
        await run_until(stop, self._informers.run(), self._recorder.run(), self._lead())

    async def _lead(self) -> None:
        await self._caches.synced.wait()
        await lead(
            self._client,
            LEASE,
            self._namespace,
            self._election,
            self._work,
            clock=self._clock,
        )

    async def _work(self, fence: Fence) -> None:
        """One term as leader: everything is reconciled once, then what changes."""
        self._writer.lead(fence)
        async with asyncio.TaskGroup() as group:
            for reconciler in self._reconcilers:
                await reconciler.resync()
                group.create_task(reconciler.controller.run())
