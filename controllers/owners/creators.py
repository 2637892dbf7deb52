"""Reports on TrainJobs, RayJobs and RayServices about the owners that they create.

Trainer creates a JobSet for each TrainJob, and KubeRay a RayCluster for each RayJob. Users know
only the first. This controller copies the owner's reason for waiting there, as an annotation, and
records an event when a wait begins.
"""

from contextlib import suppress
from functools import partial

from api.constants import ANNOTATION_WAITING_FOR, EVENT_FAILED_SCHEDULING
from controllers.cache.informers import BY_CREATOR, Caches, CreatorKey, creator_of
from controllers.cache.objects import Owner
from controllers.runtime.controller import Controller, RequeueError, Writer, queue_all
from controllers.runtime.waiting_for_annotation import REFUSED_SECONDS, WaitingForAnnotation
from kube.base.clock import Clock
from kube.base.errors import NotFound
from kube.client.meta import ObjectMeta
from kube.client.resources import Resource
from kube.events.events import ObjectReference, Recorder


class CreatorStatus:
    """The only writer of the annotation `waiting-for` on creators of owners of one kind."""

    def __init__(
        self,
        resource: Resource,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        name = f"{resource.kind.lower()}-creator"
        self.controller: Controller[CreatorKey] = Controller(name, self.reconcile, clock)
        self._owners = caches.owners(resource)
        self._writer = writer
        self._recorder = recorder
        self._note = WaitingForAnnotation(writer, recorder, clock)
        self._reported: dict[CreatorKey, str] = {}
        # Creators are not watched: one is read, by metadata alone, when its owner's annotation
        # changes.
        self._owners.subscribe(self._on_owner)

    async def resync(self) -> None:
        """Queue all objects that created an owner."""
        await queue_all(self._owners.values(), partial(self._on_owner, None))

    async def reconcile(self, key: CreatorKey) -> None:
        """Copy the annotation of one creator's owners. Raises RequeueError, kube errors."""
        owners = self._owners.by_index(BY_CREATOR, key)
        # A RayService may have two RayClusters during an upgrade. The smallest text is a stable
        # choice.
        text = min(filter(None, map(_waiting_for, owners)), default="")
        if self._reported.get(key) != text:
            with suppress(NotFound):  # it is being deleted, and its owner follows
                await self._report(key, text)
            self._reported[key] = text
        if not owners:
            self._reported.pop(key, None)
            self._note.forget(key.uid)

    async def _report(self, key: CreatorKey, text: str) -> None:
        meta = await self._writer.metadata(key.resource, key.name, key.namespace)
        before = meta.annotations.get(ANNOTATION_WAITING_FOR, "")
        # The name may belong to another object by now.
        if meta.uid != key.uid or before == text:
            return
        if not await self._note.write(key.resource, meta, text):
            raise RequeueError("the API server rejected its annotation", REFUSED_SECONDS)
        if text and not before:
            self._event(key.resource, meta, text)

    def _event(self, resource: Resource, meta: ObjectMeta, text: str) -> None:
        reference = ObjectReference.of(resource, meta)
        self._recorder.event(reference, "Warning", EVENT_FAILED_SCHEDULING, text)

    def _on_owner(self, old: Owner | None, new: Owner | None) -> None:
        # The owner was deleted or has another creator now. The old one still has the annotation.
        before, now = _key(old), _key(new)
        if before is not None and before != now:
            self.controller.queue.add(before)
        if now is not None and (before != now or _waiting_for(old) != _waiting_for(new)):
            self.controller.queue.add(now)


def _key(owner: Owner | None) -> CreatorKey | None:
    return None if owner is None else creator_of(owner)


def _waiting_for(owner: Owner | None) -> str:
    return "" if owner is None else owner.metadata.annotations.get(ANNOTATION_WAITING_FOR, "")
