"""The controller process: caches in every replica, controllers in the leader only."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from api import features
from api.constants import CONTROLLER_COMPONENT
from api.features import Feature, FeatureGates
from api.integration.common.native import GroupsApi
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.scheduler_names import USUAL, SchedulerNames
from controllers.cache.informers import COSCHEDULING_KINDS, Caches, ControllerInformers
from controllers.cache.objects import JOBS, JOBSETS, LEADER_WORKER_SETS
from controllers.cleanup.orphans import OrphanCollector
from controllers.cleanup.protection import ProtectionController
from controllers.groups.group_api import GroupApis
from controllers.groups.group_claims import GroupClaimController
from controllers.groups.group_writer import GroupWriter
from controllers.groups.groups_from_pods import GroupsFromPods
from controllers.groups.implicit_groups import ImplicitGroups
from controllers.groups.template_values import TemplateValues
from controllers.groups.trees import Trees
from controllers.owners.base import Tools
from controllers.owners.coscheduling import CoschedulingController
from controllers.owners.creators import CreatorStatus
from controllers.owners.jobs import JobController, JobSetController
from controllers.owners.leader_worker_sets import LeaderWorkerSetController
from controllers.owners.owner_status import OwnerStatusWriter
from controllers.owners.single_group import SingleGroupController
from controllers.owners.start_timeouts import StartTimeouts
from controllers.provisioning.controller import ProvisioningController
from controllers.runtime.controller import Controller, Writer
from kube.base.clock import Clock, SystemClock
from kube.base.process import run_until
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.events.events import Recorder
from kube.informers.quarantine import Quarantine
from kube.leader.election import Fence, elector

LEASE: Final = CONTROLLER_COMPONENT


class Reconciler(Protocol):
    """A controller of the process."""

    @property
    def controller(self) -> Controller[Any]: ...

    async def resync(self) -> None:
        """Queue all objects that the controller reconciles, as at the start of a term."""


class LeaderTerm:
    """The controllers of a leader, created for one term."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        recorder: Recorder,
        clock: Clock,
        *,
        fence: Fence,
        gates: FeatureGates = features.USUAL,
        groups_api: GroupsApi = GroupsApi.MUSTER,
    ) -> None:
        """Subscribe to the caches; `run` starts the work.

        `groups_api` is the API in which new owners get groups. Controllers that create groups for a
        feature that `gates` turns off do not run. Controllers that delete groups and remove
        finalizers always run.
        """
        # Another process may have led in between, so no term keeps state of an earlier one. State
        # that must outlast a term is in the API server.
        self._caches = caches
        self._recorder = recorder
        self._groups_api = groups_api
        self._writer = Writer(client, fence)
        self._trees = Trees(caches, self._writer, clock, gates)
        self.reconcilers: tuple[Reconciler, ...] = (
            *self._creators(gates, clock),
            # Deletion does not depend on gates: finalizers must come off and groups must be deleted
            # even if the feature that created them is off now.
            self._trees,
            TemplateValues(caches, self._writer, clock),
            ProtectionController(caches, self._writer, clock),
            OrphanCollector(caches, self._writer, clock),
            ProvisioningController(caches, self._writer, recorder, clock),
        )

    async def run(self) -> None:
        """Reconcile all objects once, then each one that changes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reconciler in self.reconcilers:
                await reconciler.resync()
                group.create_task(reconciler.controller.run())

    def details(self) -> Iterator[str]:
        """Yield a line for `/readyz` for each key that fails."""
        for reconciler in self.reconcilers:
            yield from reconciler.controller.details()

    def _creators(self, gates: FeatureGates, clock: Clock) -> Iterator[Reconciler]:
        """Yield the controllers that create groups and their claims, for features that are on."""
        caches, writer = self._caches, self._writer
        groups = GroupWriter(caches, writer, clock, gates)
        status = OwnerStatusWriter(caches, writer, self._recorder, clock)
        apis = GroupApis(caches, self._groups_api)
        timeouts = StartTimeouts(caches, writer, self._recorder)
        tools = Tools(caches, writer, clock, groups, status, apis, self._trees, timeouts)
        if Feature.JOBSET in gates:
            yield JobSetController(JOBSETS, tools)
            yield CreatorStatus(JOBSETS, caches, writer, self._recorder, clock)
        if Feature.JOB in gates:
            yield JobController(JOBS, tools)
        for kind in (it for it in SINGLE_GROUP_KINDS.values() if it.feature in gates):
            yield SingleGroupController(kind, tools)
            if kind.created_by:
                yield CreatorStatus(kind.kind, caches, writer, self._recorder, clock)
        if Feature.LEADER_WORKER_SET in gates:
            yield LeaderWorkerSetController(LEADER_WORKER_SETS, tools)
        if Feature.COSCHEDULING in gates:
            for resource in COSCHEDULING_KINDS:
                yield CoschedulingController(resource, tools)
        if Feature.IMPLICIT_POD_GROUPS in gates:
            yield ImplicitGroups(caches, writer, groups, self._recorder, clock)
        # Without the gate this controller still runs: existing groups must be deleted with their
        # last pod. It creates none then.
        makes = Feature.POD_GROUPS_FROM_PODS in gates
        yield GroupsFromPods(caches, writer, self._recorder, clock, makes=makes)
        if Feature.DEVICE_CLAIMS in gates:
            yield GroupClaimController(caches, writer, self._recorder, clock)


class ControllerProcess:
    """The process behind `muster controller`."""

    def __init__(
        self,
        client: Client,
        election: LeaderElection,
        namespace: str = "muster-system",
        clock: Clock | None = None,
        scheduler_names: SchedulerNames = USUAL,
        *,
        gates: FeatureGates = features.USUAL,
        groups_api: GroupsApi = GroupsApi.MUSTER,
    ) -> None:
        clock = clock or SystemClock()
        self._client = client
        self._election = election
        self._namespace = namespace
        self._clock = clock
        self._gates = gates
        self._groups_api = groups_api
        self._caches = Caches(scheduler_names)
        self._recorder = Recorder(client, "muster-controller", clock)
        self._quarantine = Quarantine(self._recorder)
        self._informers = ControllerInformers(
            client, self._caches, clock, self._quarantine, gates, groups_api=groups_api
        )
        self._term: LeaderTerm | None = None

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """The checks of `/readyz`, by name."""
        # A replica that is not the leader is ready, too. Otherwise a Deployment's rollout would
        # wait for a standby that can never become ready.
        return {"caches": self._caches.synced.is_set}

    def details(self) -> Iterator[str]:
        """Yield lines for `/readyz`: unreadable kinds, undecodable objects and failing keys."""
        yield from self._caches.details()
        yield from self._quarantine.details()
        if self._term is not None:
            yield from self._term.details()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, and retry after errors of the API server."""
        await run_until(stop, self._informers.run(), self._recorder.run(), self._lead())

    async def _lead(self) -> None:
        # A leader with incomplete caches would take existing objects for missing ones.
        await self._caches.synced.wait()
        candidate = elector(self._client, LEASE, self._namespace, self._election, clock=self._clock)
        await candidate.run(self._work)

    async def _work(self, fence: Fence) -> None:
        # Listeners of this term are dropped at its end. Otherwise a standby would queue keys that
        # it never handles.
        with self._caches.term():
            self._term = LeaderTerm(
                self._client,
                self._caches,
                self._recorder,
                self._clock,
                fence=fence,
                gates=self._gates,
                groups_api=self._groups_api,
            )
            try:
                await self._term.run()
            finally:
                self._term = None
