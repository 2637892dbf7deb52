"""The controller process: caches for every replica, controllers for the one that leads."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from api import features
from api.constants import CONTROLLER_COMPONENT
from api.features import Feature, FeatureGates
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.scheduler_names import USUAL, SchedulerNames
from controllers.cache.informers import Caches, Informers
from controllers.cache.objects import COSCHEDULINGS, LEADER_WORKER_SETS, PLUGINS_POD_GROUPS
from controllers.cleanup.orphans import OrphanCollector
from controllers.cleanup.protection import ProtectionController
from controllers.groups.group_claims import GroupClaims
from controllers.groups.group_writer import GroupWriter
from controllers.groups.groups_from_pods import GroupsFromPods
from controllers.groups.implicit_groups import ImplicitGroups
from controllers.groups.template_values import TemplateValues
from controllers.owners.coscheduling import CoschedulingController
from controllers.owners.creators import CreatorStatus
from controllers.owners.jobs import job_controller, jobset_controller
from controllers.owners.leader_worker_sets import LeaderWorkerSetController
from controllers.owners.owner_status import OwnerStatusWriter
from controllers.owners.single_group import SingleGroupController
from controllers.provisioning.controller import ProvisioningController
from controllers.runtime.controller import Controller, Writer
from kube.base.clock import Clock, SystemClock
from kube.base.process import run_until
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.resources import JOBSETS, Resource
from kube.events.events import Recorder
from kube.informers.quarantine import Quarantine
from kube.leader.election import Fence, lead

LEASE: Final = CONTROLLER_COMPONENT


class Reconciler(Protocol):
    """One controller of the process."""

    @property
    def controller(self) -> Controller[Any]: ...

    async def resync(self) -> None:
        """Queue everything, as at the start of a term."""


class Term:
    """What a leader works with, created for its term: nothing of an earlier one counts in it.

    Another process may have led meanwhile. What must last longer is in the API server.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        recorder: Recorder,
        clock: Clock,
        *,
        fence: Fence,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Subscribes to the caches; nothing is done before `run`.

        What makes groups by a feature that is off by `gates` does not run. What removes groups and
        finalizers always does.
        """
        self._caches = caches
        self._recorder = recorder
        self._writer = Writer(client, fence)
        self.reconcilers: tuple[Reconciler, ...] = (
            *self._makers(gates, clock),
            TemplateValues(caches, self._writer, clock),
            ProtectionController(caches, self._writer, clock),
            OrphanCollector(caches, self._writer, clock),
            ProvisioningController(caches, self._writer, recorder, clock),
        )

    async def run(self) -> None:
        """Reconcile everything once, then what changes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reconciler in self.reconcilers:
                await reconciler.resync()
                group.create_task(reconciler.controller.run())

    def details(self) -> Iterator[str]:
        """Lines for `/readyz`: what fails."""
        for reconciler in self.reconcilers:
            yield from reconciler.controller.details()

    def _makers(self, gates: FeatureGates, clock: Clock) -> Iterator[Reconciler]:
        """The controllers that make groups and their claims, those of features that are on."""
        caches, writer = self._caches, self._writer
        groups = GroupWriter(caches, writer, clock, gates)
        status = OwnerStatusWriter(caches, writer, self._recorder, clock)
        if Feature.JOBSET in gates:
            yield jobset_controller(caches, groups, status, clock)
            yield CreatorStatus(JOBSETS, caches, writer, self._recorder, clock)
        if Feature.JOB in gates:
            yield job_controller(caches, groups, status, clock)
        yield from self._single_groups(gates, groups, status, clock)
        if Feature.LEADER_WORKER_SET in gates:
            yield LeaderWorkerSetController(
                LEADER_WORKER_SETS, caches, clock, group_writer=groups, owner_status=status
            )
        if Feature.COSCHEDULING in gates:
            for resource in (COSCHEDULINGS, PLUGINS_POD_GROUPS):
                yield CoschedulingController(
                    resource,
                    caches,
                    clock,
                    group_writer=groups,
                    owner_status=status,
                    writer=writer,
                )
        if Feature.IMPLICIT_POD_GROUPS in gates:
            yield ImplicitGroups(caches, writer, groups, self._recorder, clock)
        makes = Feature.POD_GROUPS_FROM_PODS in gates
        yield GroupsFromPods(caches, writer, self._recorder, clock, makes=makes)
        if Feature.DEVICE_CLAIMS in gates:
            yield GroupClaims(caches, writer, self._recorder, clock)

    def _single_groups(
        self,
        gates: FeatureGates,
        groups: GroupWriter,
        status: OwnerStatusWriter,
        clock: Clock,
    ) -> Iterator[Reconciler]:
        for kind in (it for it in SINGLE_GROUP_KINDS.values() if it.feature in gates):
            yield SingleGroupController(
                kind, self._caches, clock, group_writer=groups, owner_status=status
            )
            if kind.created_by:
                resource = Resource(*kind.kind)
                yield CreatorStatus(resource, self._caches, self._writer, self._recorder, clock)


class ControllerProcess:
    """Everything `muster controller` runs. `checks` are those of `/readyz`."""

    def __init__(
        self,
        client: Client,
        election: LeaderElection,
        namespace: str = "muster-system",
        clock: Clock | None = None,
        scheduler_names: SchedulerNames = USUAL,
        *,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Nothing is read or written before `run`. The lease is in `namespace`."""
        clock = clock or SystemClock()
        self._client = client
        self._election = election
        self._namespace = namespace
        self._clock = clock
        self._gates = gates
        self._caches = Caches(scheduler_names)
        self._recorder = Recorder(client, "muster-controller", clock)
        self._quarantine = Quarantine(self._recorder)
        self._informers = Informers(client, self._caches, clock, self._quarantine)
        self._term: Term | None = None

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """Ready means that the caches are synced; a replica that does not lead is ready too."""
        return {"caches": self._caches.synced.is_set}

    def details(self) -> Iterator[str]:
        """Lines for `/readyz`: what may not be read, what is set aside, and what fails."""
        yield from self._caches.details()
        yield from self._quarantine.details()
        if self._term is not None:
            yield from self._term.details()

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
        with self._caches.term():
            self._term = Term(
                self._client,
                self._caches,
                self._recorder,
                self._clock,
                fence=fence,
                gates=self._gates,
            )
            try:
                await self._term.run()
            finally:
                self._term = None
