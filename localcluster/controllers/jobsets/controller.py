"""The JobSet controller: it watches JobSets and Jobs and carries out the plans of `reconcile`."""

import asyncio
from collections.abc import Iterable

from localcluster.base.clock import Clock
from localcluster.base.errors import StatusError
from localcluster.controllers.base.api_protocol import JOBS, JOBSETS, SERVICES
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.event_recorder import EventRecorder, Note
from localcluster.controllers.base.objects import (
    Key,
    Obj,
    controller_of,
    is_deleting,
    key_of,
    uid_of,
    with_status,
)
from localcluster.controllers.base.workqueue import Loop
from localcluster.controllers.jobsets import constants as words
from localcluster.controllers.jobsets.build import has_hostnames, new_service, subdomain
from localcluster.controllers.jobsets.sync import Plan, reconcile

BY_JOBSET = "jobset"


class JobSetController:
    """Controller that keeps every JobSet's Jobs, Service and status as its spec requires."""

    def __init__(
        self, client: CachedClient, clock: Clock, recorder: EventRecorder, *, scaling: bool = False
    ) -> None:
        """Create the controller.

        With `scaling` Jobs follow changes of replicas and sizes, which v0.11.0 rejects.
        """
        self._scaling = scaling
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self.loop: Loop[Key] = Loop("jobset", clock, self._reconcile)
        client[JOBS].add_index(BY_JOBSET, _jobset_uid)
        client[JOBS].subscribe(self._job_changed)
        client[JOBSETS].subscribe(self._jobset_changed)

    def _jobset_changed(self, _old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.loop.queue.add(key_of(new))

    def _job_changed(self, old: Obj | None, new: Obj | None) -> None:
        for job in (old, new):
            owner = _owner(job) if job is not None else None
            if job is not None and owner is not None:
                self.loop.queue.add((job["metadata"]["namespace"], owner["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        jobset = self._client[JOBSETS].get(key)
        if jobset is None or is_deleting(jobset):
            return None
        if jobset["spec"].get("managedBy", words.MANAGER) != words.MANAGER:
            return None
        jobs = self._client[JOBS].by_index(BY_JOBSET, uid_of(jobset))
        plan = reconcile(jobset, jobs, self._clock.now(), scaling=self._scaling)
        await self._carry_out(jobset, plan)
        return None if plan.again is None else plan.again.total_seconds()

    async def _carry_out(self, jobset: Obj, plan: Plan) -> None:
        delete, client = self._client.delete, self._client
        await asyncio.gather(*(delete(JOBS, job, propagation="Foreground") for job in plan.delete))
        if plan.service and has_hostnames(jobset):
            await self._ensure_service(jobset)
        await self._create(jobset, plan.create)
        for job in (*plan.suspend, *plan.resize):
            await client.update(JOBS, job)
        for job in plan.resume:
            await self._resume(job)
        if plan.expire:
            await delete(JOBSETS, jobset, propagation="Foreground")
            return
        if plan.status is not None:
            await client.update(JOBSETS, with_status(jobset, plan.status), subresource="status")
            self._record(jobset, plan.notes)

    async def _create(self, jobset: Obj, jobs: Iterable[Obj]) -> None:
        """Create all Jobs.

        Report all errors in one event, and end this reconcile if there are any.
        """
        namespace = jobset["metadata"]["namespace"]
        results = await asyncio.gather(
            *(self._client.create(JOBS, namespace, job) for job in jobs), return_exceptions=True
        )
        refusals = [result for result in results if isinstance(result, BaseException)]
        if refusals:
            message = "\n".join(
                f'job "{job["metadata"]["name"]}" creation failed with error: {result}'
                for job, result in zip(jobs, results, strict=True)
                if isinstance(result, StatusError)
            )
            self._record(jobset, [Note("Warning", "JobCreationFailed", message)])
            raise refusals[0]

    async def _resume(self, job: Obj) -> None:
        """Unsuspend a Job, after clearing its start time so that its template may change."""
        present = await self._client.get(JOBS, key_of(job))
        status = (present or {}).get("status") or {}
        if present is not None and status.get("startTime") is not None:
            cleared = {name: value for name, value in status.items() if name != "startTime"}
            written = await self._client.update(
                JOBS, with_status(present, cleared), subresource="status"
            )
            job = {**written, "spec": job["spec"]}
        await self._client.update(JOBS, job)

    async def _ensure_service(self, jobset: Obj) -> None:
        key = jobset["metadata"]["namespace"], subdomain(jobset)
        if self._client[SERVICES].get(key) is not None:
            return
        try:
            await self._client.create(SERVICES, key[0], new_service(jobset))
        except StatusError as error:
            note = Note("Warning", "HeadlessServiceCreationFailed", error.message)
            self._record(jobset, [note])
            raise

    def _record(self, jobset: Obj, notes: Iterable[Note]) -> None:
        for note in notes:
            self._recorder.record(words.COMPONENT, JOBSETS, jobset, note)


def _owner(job: Obj) -> Obj | None:
    owner = controller_of(job)
    ours = owner is not None and (owner["apiVersion"], owner["kind"]) == (
        JOBSETS.api_version,
        JOBSETS.kind,
    )
    return owner if ours else None


def _jobset_uid(job: Obj) -> Iterable[str]:
    owner = _owner(job)
    return () if owner is None else (owner["uid"],)
