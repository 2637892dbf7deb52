"""The controllers on an API server in memory: `settle` processes their queues."""

import random
from contextlib import ExitStack
from typing import Any

import jsonpatch
import pytest

from api import features
from api.constants import MPI_JOB, RAY_CLUSTER
from api.features import FeatureGates
from api.integration.common.native import GroupsApi
from api.integration.common.owner_kind import Review
from api.integration.common.result import Taken, no_name_taken
from api.integration.job.admission import job_admission
from api.integration.jobset.admission import jobset_admission
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.integration.lws.admission import lws_admission
from api.scheduler_names import USUAL, SchedulerNames
from controllers.cache.informers import COSCHEDULING_KINDS, Caches
from controllers.cache.objects import COSCHEDULINGS, JOBS, LEADER_WORKER_SETS, PLUGINS_POD_GROUPS
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
from kube.client.resources import JOBSETS, Resource
from kube.leader.election import Fence
from tests.controllers.cluster import Cluster
from tests.support.clock import FakeClock
from tests.support.events import RecordedEvents

Json = dict[str, Any]


RAY_CLUSTERS = Resource(*RAY_CLUSTER)
OPTIONAL_OWNERS = (
    *(JOBSETS, LEADER_WORKER_SETS, RAY_CLUSTERS, Resource(*MPI_JOB)),
    *COSCHEDULING_KINDS,
)


class ControllerHarness:
    """Caches, API server and all controllers, as one leading process has them."""

    def __init__(
        self,
        scheduler_names: SchedulerNames = USUAL,
        *,
        gates: FeatureGates = features.USUAL,
        groups_api: GroupsApi = GroupsApi.MUSTER,
    ) -> None:
        """Create the harness with these feature gates, and this setting of `groups.api`."""
        self.groups_api = groups_api
        self.clock = FakeClock()
        self.caches = Caches(scheduler_names)
        for kind in OPTIONAL_OWNERS:
            self.caches.serve(kind)
        self.api = Cluster(self.caches, self.clock)
        self.recorded = RecordedEvents()
        self._gates = gates
        self._term = ExitStack()
        self._begin_term()

    async def new_term(self) -> None:
        """Let the process lose and regain the lease."""
        self._end_term()
        self._begin_term()
        for part in self.parts:
            await part.resync()

    def _end_term(self) -> None:
        for controller in self.controllers:
            controller.queue.close()
        self._term.close()

    def _begin_term(self) -> None:
        """Create all parts of a term, as `controllers.app.Term` does."""
        self._term.enter_context(self.caches.term())
        caches, clock = self.caches, self.clock
        recorder = self.recorded
        self.fence = Fence(clock, 0, float("inf"))
        writer = Writer(self.api.client, self.fence)
        self.group_writer = GroupWriter(caches, writer, clock, self._gates)
        status = OwnerStatusWriter(caches, writer, recorder, clock)
        apis = GroupApis(caches, self.groups_api)
        self.trees = Trees(caches, writer, clock, self._gates)
        timeouts = StartTimeouts(caches, writer, recorder)
        tools = Tools(caches, writer, clock, self.group_writer, status, apis, self.trees, timeouts)
        self.jobset = JobSetController(JOBSETS, tools)
        self.job = JobController(JOBS, tools)
        self.single_groups = [
            SingleGroupController(kind, tools) for kind in SINGLE_GROUP_KINDS.values()
        ]
        self.lws = LeaderWorkerSetController(LEADER_WORKER_SETS, tools)
        self.coscheduling, self.plugins = (
            CoschedulingController(it, tools) for it in (COSCHEDULINGS, PLUGINS_POD_GROUPS)
        )
        self.creators = [
            CreatorStatus(resource, caches, writer, recorder, clock)
            for resource in (JOBSETS, RAY_CLUSTERS)
        ]
        self.protection = ProtectionController(caches, writer, clock)
        self.implicit_groups = ImplicitGroups(caches, writer, self.group_writer, recorder, clock)
        self.from_pods = GroupsFromPods(caches, writer, recorder, clock)
        self.template_values = TemplateValues(caches, writer, clock)
        self.group_claims = GroupClaimController(caches, writer, recorder, clock)
        self.orphans = OrphanCollector(caches, writer, clock)
        self.provisioning = ProvisioningController(caches, writer, recorder, clock)
        for controller in self.controllers:  # the same sequence twice has the same timing
            controller.queue._jitter = random.Random(controller.name)

    @property
    def controllers(self) -> list[Controller[Any]]:
        return [part.controller for part in self.parts]

    @property
    def parts(self) -> tuple[Any, ...]:
        owners = (
            *(self.jobset, self.job, *self.single_groups, self.lws),
            *(self.coscheduling, self.plugins),
        )
        groups = (
            self.implicit_groups,
            self.from_pods,
            self.template_values,
            self.trees,
            self.protection,
            self.orphans,
        )
        return (*owners, *self.creators, *groups, self.group_claims, self.provisioning)

    async def settle(self, *, seconds: float = 0.0) -> None:
        """Advance the time, then work until every queue is empty."""
        if seconds:
            await self.clock.advance(seconds)
        while any(len(controller.queue) for controller in self.controllers):
            for controller in self.controllers:
                while len(controller.queue):
                    key = await controller.queue.get()
                    await controller.handle(key)
                    controller.queue.done(key)

    def submit_jobset(self, jobset: Json, taken: Taken = no_name_taken) -> Json:
        """Store a JobSet after admission."""
        patch = jobset_admission(jobset, Review("CREATE", taken=taken)).patch
        return self.api.put(jsonpatch.apply_patch(jobset, patch) | {"kind": "JobSet"})

    def submit_job(self, job: Json) -> Json:
        """Store a Job after admission."""
        patch = job_admission(job, Review("CREATE", namespace="default")).patch
        return self.api.put(jsonpatch.apply_patch(job, patch) | {"kind": "Job"})

    def submit_lws(self, lws: Json) -> Json:
        """Store a LeaderWorkerSet, or an update of one, after admission."""
        slot = ("LeaderWorkerSet", "default", lws["metadata"]["name"])
        old = self.api.objects.get(slot)
        patch = lws_admission(lws, Review("CREATE" if old is None else "UPDATE", old)).patch
        return self.api.put(jsonpatch.apply_patch(lws, patch))

    def change(self, kind: str, name: str, **spec: Any) -> None:
        """Change fields of an object's spec."""
        obj = self.api.objects[kind, "default", name]
        self.api.put(obj | {"spec": obj["spec"] | spec})

    def close(self) -> None:
        self.api.client.disconnect()
        self._end_term()


@pytest.fixture
async def harness() -> Any:
    harness = ControllerHarness()
    yield harness
    harness.close()
