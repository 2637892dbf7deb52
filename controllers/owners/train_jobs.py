"""Tells TrainJobs of Kubeflow Trainer what their JobSets wait for.

Trainer makes a JobSet for each TrainJob, and the user knows the TrainJob alone. What the JobSet
waits for is copied to it, as an annotation; when a wait begins, an event says so once. TrainJobs
are not watched: one is read when its JobSet says something new, and only its metadata.
"""

from contextlib import suppress
from functools import partial

from api.constants import (
    ANNOTATION_WAITING_FOR,
    EVENT_FAILED_SCHEDULING,
    TRAIN_JOB,
)
from controllers.cache.informers import BY_TRAIN_JOB, Caches, TrainJobKey, train_job_of
from controllers.cache.objects import Owner
from controllers.runtime.controller import Controller, RequeueError, Writer, queue_all
from controllers.runtime.waiting_for_annotation import REFUSED_SECONDS, WaitingForNote
from kube.base.clock import Clock
from kube.base.errors import NotFound
from kube.client.meta import ObjectMeta
from kube.client.resources import Resource
from kube.events.events import ObjectReference, Recorder


class TrainJobStatus:
    """The only writer of the annotation `waiting-for` on TrainJobs."""

    def __init__(self, caches: Caches, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[TrainJobKey] = Controller("trainjob", self.reconcile, clock)
        self._caches = caches
        self._writer = writer
        self._recorder = recorder
        self._note = WaitingForNote(writer, recorder, clock)
        self._told: dict[TrainJobKey, str] = {}
        caches.jobsets.subscribe(self._on_jobset)

    async def resync(self) -> None:
        """Queue every TrainJob that has a JobSet."""
        await queue_all(self._caches.jobsets.values(), partial(self._on_jobset, None))

    async def reconcile(self, key: TrainJobKey) -> None:
        """Copy what the JobSets of one TrainJob wait for. Raises RequeueError, kube errors."""
        jobsets = self._caches.jobsets.by_index(BY_TRAIN_JOB, key)
        text = min(filter(None, map(_waiting_for, jobsets)), default="")
        if self._told.get(key) != text:
            with suppress(NotFound):  # it goes, and its JobSet follows
                await self._tell(key, text)
            self._told[key] = text
        if not jobsets:
            self._told.pop(key, None)
            self._note.forget(key[3])

    async def _tell(self, key: TrainJobKey, text: str) -> None:
        namespace, api_version, name, uid = key
        group, _, version = api_version.rpartition("/")
        resource = Resource(group, version, TRAIN_JOB.plural, TRAIN_JOB.kind)
        meta = await self._writer.metadata(resource, name, namespace)
        before = meta.annotations.get(ANNOTATION_WAITING_FOR, "")
        if meta.uid != uid or before == text:
            return
        if not await self._note.write(resource, meta, text):
            raise RequeueError("its annotation was refused", REFUSED_SECONDS)
        if text and not before:
            self._event(resource, meta, text)

    def _event(self, resource: Resource, meta: ObjectMeta, text: str) -> None:
        reference = ObjectReference.of(resource, meta)
        self._recorder.event(reference, "Warning", EVENT_FAILED_SCHEDULING, text)

    def _on_jobset(self, old: Owner | None, new: Owner | None) -> None:
        before, now = _key(old), _key(new)
        if before is not None and before != now:
            self.controller.queue.add(before)
        if now is not None and (before != now or _waiting_for(old) != _waiting_for(new)):
            self.controller.queue.add(now)


def _key(jobset: Owner | None) -> TrainJobKey | None:
    return None if jobset is None else train_job_of(jobset)


def _waiting_for(jobset: Owner | None) -> str:
    return "" if jobset is None else jobset.metadata.annotations.get(ANNOTATION_WAITING_FOR, "")
