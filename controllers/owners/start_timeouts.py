"""Suspension of owners whose gang did not start within their `start-timeout`.

The scheduler gives such a gang up, and its pods remain. Suspending the owner deletes them, so that
quotas and names are free again. This is done only for an owner that asks for one gang with a limit
itself: otherwise other pods of it may run. A TrainJob or RayJob is suspended in place of the JobSet
or RayCluster that it created. Kueue suspends and resumes its objects itself.
"""

from typing import Any, Final, NamedTuple

from api import duration
from api.constants import ANNOTATION_START_TIMEOUT, CRON_JOB, EVENT_START_TIMEOUT
from api.integration.common.suspension import (
    SUSPEND_FIELDS,
    is_queued,
    is_suspended,
    resume_command,
)
from api.integration.jobset.view import read_jobset
from api.reading import dig
from controllers.cache.informers import BY_OWNER, Caches, creator_of
from controllers.cache.objects import JOBSETS, Group, Owner
from controllers.runtime.controller import NotServedError, Writer
from kube.base.errors import Forbidden, Invalid, NotFound
from kube.client.meta import Json, ObjectMeta
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import Resource
from kube.events.events import ObjectReference, Recorder

_BY_KUEUE: Final = (
    "Kueue decides when it runs: remove it from its queue, or see waitForPodsReady in Kueue's"
    " configuration"
)
_NOT_KNOWN: Final = "the API server dropped the field: its kind has none in this version"


class _Target(NamedTuple):
    """The object to suspend: its metadata as last read, and its spec if that is known."""

    resource: Resource
    meta: ObjectMeta
    spec: Json

    @property
    def phrase(self) -> str:
        return f"{self.resource.kind} {self.meta.name}"

    def command(self) -> str:
        """Return the command that resumes it."""
        meta, resource = self.meta, self.resource
        return resume_command(resource.kind, resource.full_name, meta.namespace, meta.name)


class StartTimeouts:
    """The writer of `suspend` on owners and their creators."""

    def __init__(self, caches: Caches, writer: Writer, recorder: Recorder) -> None:
        self._caches = caches
        self._writer = writer
        self._recorder = recorder
        # By UID of the owner: the UID of the group for which it was suspended, or could not be.
        self._handled: dict[str, str] = {}

    async def enforce(self, owner: Owner) -> None:
        """Suspend an owner whose gang was given up, once for each group. Raises kube errors."""
        uid, limit = owner.metadata.uid, owner.metadata.annotations.get(ANNOTATION_START_TIMEOUT)
        root = self._given_up(owner) if duration.positive_seconds(limit) else None
        if root is None:
            self._handled.pop(uid, None)
            return
        # Otherwise the scheduler has yet to see the current limit.
        current = root.metadata.annotations.get(ANNOTATION_START_TIMEOUT) == limit
        handled = self._handled.get(uid) == root.metadata.uid
        if owner.kind in SUSPEND_FIELDS and current and not handled:
            await self._suspend(owner, f"{root.metadata.name} did not start within {limit}")
            self._handled[uid] = root.metadata.uid

    def forget(self, uid: str) -> None:
        """Forget an owner that is deleted."""
        self._handled.pop(uid, None)

    def _given_up(self, owner: Owner) -> Group | None:
        """Return the one root of the owner's groups if the scheduler has given it up."""
        roots = [
            group
            for cache in self._caches.generated_groups.values()
            for group in cache.by_index(BY_OWNER, owner.as_index)
            if not group.parent
        ]
        if len(roots) != 1 or not roots[0].timed_out:
            return None
        # A limit next to no gang-mode has no effect: the gang is that of a replicatedJob.
        inner = owner.resource == JOBSETS and not read_jobset(owner.as_object()).options.asks
        return None if inner else roots[0]

    async def _suspend(self, owner: Owner, why: str) -> None:
        target = await self._target(owner)
        if isinstance(target, str):
            self._event(owner, f"{why}, but it is not suspended: {target}")
        # None: somebody has deleted it in the meantime.
        elif target is not None:
            queued = is_queued(target.meta.labels)
            problem = _BY_KUEUE if queued else await self._send(target)
            done = f": {target.phrase} is suspended. To try again: {target.command()}"
            failed = f", but {target.phrase} is not suspended: {problem}"
            self._event(owner, f"{why}{failed if problem else done}", target)

    async def _target(self, owner: Owner) -> _Target | str | None:
        """Return the object to suspend, why there is none, or None if it is deleted."""
        parent = owner.metadata.controller
        if parent is None or parent.kind == CRON_JOB.kind:
            return _Target(owner.resource, owner.metadata, owner.as_object()["spec"])
        creator = creator_of(owner)
        if creator is None or creator.resource.kind not in SUSPEND_FIELDS:
            return f"{parent.kind} {parent.name} controls it, and would resume it"
        try:
            meta = await self._writer.metadata(creator.resource, creator.name, creator.namespace)
        except (NotFound, NotServedError):
            return None
        # The name may belong to another object by now.
        return _Target(creator.resource, meta, {}) if meta.uid == creator.uid else None

    async def _send(self, target: _Target) -> str:
        """Suspend the object as it was read; return why that is impossible, or nothing."""
        resource, meta = target.resource, target.meta
        try:
            live = await self._writer.patch(resource, meta.name, _patch(target), meta.namespace)
        except (Forbidden, Invalid) as error:
            if isinstance(error, Invalid) and error.patch_failed:
                raise
            return error.message
        except NotFound:
            return "it is deleted"
        return "" if is_suspended(resource.kind, live) else _NOT_KNOWN

    def _event(self, owner: Owner, text: str, target: _Target | None = None) -> None:
        """Record a warning on the owner, and on its creator if that is the object to suspend."""
        about = {owner.metadata.uid: (owner.resource, owner.metadata)}
        if target is not None:
            about[target.meta.uid] = (target.resource, target.meta)
        for resource, meta in about.values():
            reference = ObjectReference.of(resource, meta)
            self._recorder.event(reference, "Warning", EVENT_START_TIMEOUT, text)


def _patch(target: _Target) -> PatchBuilder:
    """Return the patch that suspends the object unless it has changed since it was read."""
    path, value = SUSPEND_FIELDS[target.resource.kind], True
    ops = PatchBuilder().of_uid(target.meta.uid).at_version(target.meta.resource_version)
    return ops.add(*_added(target.spec, path, value))


def _added(spec: Json, path: tuple[str, ...], value: Any) -> tuple[str, Any]:
    """Return path and value of an operation that also adds the parent, if it is missing."""
    parent = path[:-1]
    if parent and dig(spec, *parent) is None:
        return pointer("spec", *parent), {path[-1]: value}
    return pointer("spec", *path), value
