"""The Job controller: it watches Jobs and their pods and carries out the decisions of `decide`."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Literal

from localcluster.base.clock import Clock
from localcluster.base.errors import StatusError
from localcluster.controllers.base.api_protocol import JOBS, PODS
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.event_recorder import EventRecorder, Note
from localcluster.controllers.base.objects import (
    Key,
    Obj,
    controller_of,
    finalizers_of,
    is_deleting,
    is_true,
    key_of,
    uid_of,
    with_status,
    without_finalizer,
)
from localcluster.controllers.base.workqueue import Loop
from localcluster.controllers.jobs.conclude import Outcome, conclude
from localcluster.controllers.jobs.decide import Decision, decide, expires_in, is_finished
from localcluster.controllers.jobs.pods import TRACKING_FINALIZER
from localcluster.controllers.jobs.view import Backoff, observe

COMPONENT = "job-controller"
BY_CONTROLLER = "controller"
OWN_MANAGER = "kubernetes.io/job-controller"

# Pod changes are batched, so that a Job of a thousand pods does not sync a thousand times.
# Kubernetes batches for one second.
BATCH_SECONDS = 0.05

JobKey = tuple[Literal["job", "orphan"], Key]


def controller_uid(obj: Obj) -> Iterable[str]:
    """Index objects by the UID of their managing controller."""
    owner = controller_of(obj)
    return () if owner is None else (owner["uid"],)


class JobController:
    """Controller that keeps every Job's pods and status as its spec requires."""

    def __init__(self, client: CachedClient, clock: Clock, recorder: EventRecorder) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._backoffs: dict[str, Backoff] = {}  # by UID of the Job
        self.loop: Loop[JobKey] = Loop("job", clock, self._reconcile)
        client[PODS].add_index(BY_CONTROLLER, controller_uid)
        client[PODS].subscribe(self._pod_changed)
        client[JOBS].subscribe(self._job_changed)

    def _job_changed(self, old: Obj | None, new: Obj | None) -> None:
        job = new or old
        if job is None:
            return
        # A status-only change is mostly our own write and can wait as long as a pod's change.
        delay = BATCH_SECONDS if old and new and _generation(old) == _generation(new) else 0
        self.loop.queue.add_after(("job", key_of(job)), delay)
        if new is None or is_finished(new):
            self._backoffs.pop(uid_of(job), None)
            for pod in self._client[PODS].by_index(BY_CONTROLLER, uid_of(job)):
                self.loop.queue.add(("orphan", key_of(pod)))

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        for pod in (old, new):
            owner = controller_of(pod) if pod is not None else None
            if pod is not None and owner is not None and owner["kind"] == "Job":
                namespace = pod["metadata"]["namespace"]
                self.loop.queue.add_after(("job", (namespace, owner["name"])), BATCH_SECONDS)
        if new is not None and TRACKING_FINALIZER in finalizers_of(new) and self._is_orphan(new):
            self.loop.queue.add(("orphan", key_of(new)))

    async def _reconcile(self, key: JobKey) -> float | None:
        what, where = key
        if what == "orphan":
            await self._release_orphan(where)
            return None
        job = self._client[JOBS].get(where)
        if job is None or job["spec"].get("managedBy", OWN_MANAGER) != OWN_MANAGER:
            return None
        if is_finished(job):
            return await self._expire(job)
        return await self._sync(job)

    async def _sync(self, job: Obj) -> float | None:
        pods = self._client[PODS].by_index(BY_CONTROLLER, uid_of(job))
        view = observe(job, pods, self._backoffs.get(uid_of(job), Backoff()))
        decision = decide(view, self._clock.now())
        outcome, failure = await self._act(job, decision)
        conclusion = conclude(view, decision, outcome, self._clock.now())
        if conclusion.interim is not None:
            job = await self._write(job, conclusion.interim)
            self._backoffs[uid_of(job)] = view.backoff
            self._record(job, conclusion.notes)
        await asyncio.gather(*(self._release(pod) for pod in conclusion.release))
        if conclusion.final is not None:
            job = await self._write(job, conclusion.final)
            self._record(job, conclusion.end_notes)
        if failure is not None:
            raise failure
        return _seconds(decision.again)

    async def _act(self, job: Obj, decision: Decision) -> tuple[Outcome, StatusError | None]:
        """Create and delete pods; return the outcome and the first error."""
        if decision.create:
            made, failure = await self._create(job, decision.create)
            return Outcome(created=made), failure
        ending = decision.stop or decision.remove
        if decision.remove:
            await asyncio.gather(*(self._release(pod) for pod in ending))
        await asyncio.gather(*(self._delete(job, pod) for pod in ending))
        ready = sum(is_true(pod, "Ready") for pod in ending)
        return Outcome(deleted=len(ending), deleted_ready=ready), None

    async def _create(self, job: Obj, pods: Sequence[Obj]) -> tuple[int, StatusError | None]:
        """Create pods in batches of 1, 2, 4...; after an error the rest waits for a retry."""
        made, start, size = 0, 0, 1
        while start < len(pods):
            batch = pods[start : start + size]
            failures = [
                failure
                for failure in await asyncio.gather(*(self._create_one(job, pod) for pod in batch))
                if failure is not None
            ]
            made += len(batch) - len(failures)
            if failures:
                return made, failures[0]
            start, size = start + size, size * 2
        return made, None

    async def _create_one(self, job: Obj, pod: Obj) -> StatusError | None:
        try:
            created = await self._client.create(PODS, job["metadata"]["namespace"], pod)
        except StatusError as error:
            note = Note("Warning", "FailedCreate", f"Error creating: {error.message}")
            self._record(job, (note,))
            return error
        message = f"Created pod: {created['metadata']['name']}"
        self._record(job, (Note("Normal", "SuccessfulCreate", message),))
        return None

    async def _delete(self, job: Obj, pod: Obj) -> None:
        await self._client.delete(PODS, pod, propagation="Background")
        message = f"Deleted pod: {pod['metadata']['name']}"
        self._record(job, (Note("Normal", "SuccessfulDelete", message),))

    async def _release(self, pod: Obj) -> None:
        """Remove the tracking finalizer."""

        def edit(present: Obj) -> Obj | None:
            if TRACKING_FINALIZER not in finalizers_of(present):
                return None
            return without_finalizer(present, TRACKING_FINALIZER)

        await self._client.change(PODS, key_of(pod), uid_of(pod), edit)

    async def _release_orphan(self, key: Key) -> None:
        """Remove the finalizer of an orphaned pod, which no Job will count."""
        pod = self._client[PODS].get(key)
        if pod is None or not self._is_orphan(pod):
            return
        owner = controller_of(pod)
        if owner is not None:
            # The Job cache may lag behind the pod cache: ask the server before releasing a pod
            # uncounted.
            job = await self._client.get(JOBS, (key[0], owner["name"]))
            if job is not None and uid_of(job) == owner["uid"] and not is_finished(job):
                return
        await self._release(pod)

    def _is_orphan(self, pod: Obj) -> bool:
        owner = controller_of(pod)
        if owner is None:
            return True
        if (owner["kind"], owner["apiVersion"]) != ("Job", JOBS.api_version):
            return False
        job = self._client[JOBS].get((pod["metadata"]["namespace"], owner["name"]))
        if job is None or uid_of(job) != owner["uid"]:
            return True
        return is_finished(job) and job["spec"].get("managedBy", OWN_MANAGER) == OWN_MANAGER

    async def _expire(self, job: Obj) -> float | None:
        left = expires_in(job, self._clock.now())
        if left is None or is_deleting(job):
            return None
        if left > timedelta():
            return left.total_seconds()
        await self._client.delete(JOBS, job, propagation="Foreground")
        return None

    async def _write(self, job: Obj, status: Obj) -> Obj:
        return await self._client.update(JOBS, with_status(job, status), subresource="status")

    def _record(self, job: Obj, notes: Iterable[Note]) -> None:
        for note in notes:
            self._recorder.record(COMPONENT, JOBS, job, note)


def _generation(job: Obj) -> int:
    return int(job["metadata"].get("generation", 0))


def _seconds(wait: timedelta | None) -> float | None:
    return None if wait is None else wait.total_seconds()
