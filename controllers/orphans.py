"""Generated objects whose owners are all gone: which they are, and their deletion.

Collecting them is the task of Kubernetes' garbage collector, and it gets time for it. But it drops
the kinds that discovery leaves out for a moment, as right after an API server started: it never
learns of what is deleted in that moment, and the dependents would stay for ever and keep their
names taken. And what a deletion with `orphan` left behind has no owner any more: it is kept as long
as pods use it.
"""

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import structlog

from api.ownership import OwnerReference, is_orphaned
from controllers.informers import Caches
from controllers.objects import (
    COMPOSITES,
    COSCHEDULINGS,
    JOBS,
    JOBSETS,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Workload,
)
from controllers.runtime import Controller, RequeueError, Writer
from kube.cache import Cache
from kube.clock import Clock
from kube.errors import Conflict, NotFound
from kube.meta import HasMeta, Key, ObjectMeta
from kube.resources import Resource

BY_EACH_OWNER = "each owner"

Generated = Workload | Group

GENERATED = (WORKLOADS, COMPOSITES, POD_GROUPS)
"""The generated kinds; those that others refer to come first."""
OWNERS = (WORKLOADS, JOBS, JOBSETS, COSCHEDULINGS, PLUGINS_POD_GROUPS)
"""The kinds they are made for. Owners of other kinds are not watched and count as alive."""

_KINDS = {(it.api_version, it.kind): it for it in OWNERS}

COLLECTOR_SECONDS: Final = 20.0
"""How long the garbage collector has for an object; usually it needs less than one second."""

ResourceKey = tuple[Resource, Key]

_log = structlog.get_logger()


class OrphanIndex:
    """The owners of generated objects, read from the caches alone."""

    def __init__(self, caches: Caches) -> None:
        """Indexes Workloads and groups by the owners they name."""
        self._caches = caches
        self.generated: dict[Resource, Cache[Any]] = {it: caches.sources[it][0] for it in GENERATED}
        self.owners: dict[Resource, Cache[Any]] = {it: caches.sources[it][0] for it in OWNERS}
        for cache in self.generated.values():
            cache.add_index(BY_EACH_OWNER, lambda obj: _owner_uids(obj.metadata))

    def is_orphaned(self, meta: ObjectMeta) -> bool:
        """Whether no owner of a generated object is alive, as far as the caches know."""
        return is_orphaned(meta, lambda reference: self._is_alive(meta.namespace, reference))

    def is_in_use(self, resource: Resource, obj: Generated) -> bool:
        """Whether pods still use it: a Job deleted with `orphan` leaves its running pods.

        A Workload is used by the pods of its PodGroups; without any its whole tree is deleted.
        """
        if isinstance(obj, Group):
            return self._caches.is_in_use(resource.kind, obj)
        owned = self.owned(obj.metadata.uid)
        return any(
            self._caches.is_in_use(kind.kind, it) for kind, it in owned if kind == POD_GROUPS
        )

    def owned(self, uid: str) -> Iterator[tuple[Resource, Any]]:
        """The Workloads and groups that name the owner."""
        for resource, cache in self.generated.items():
            for obj in cache.by_index(BY_EACH_OWNER, uid):
                yield resource, obj

    def _is_alive(self, namespace: str, reference: OwnerReference) -> bool:
        resource = owner_kind(reference)
        if resource is None:
            return True
        owner: HasMeta | None = self.owners[resource].get(namespace, reference.name)
        return owner is not None and owner.metadata.uid == reference.uid


class OrphanCollector:
    """The controller that deletes orphans; its keys are Workloads and groups without an owner."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[ResourceKey] = Controller("orphans", self.reconcile, clock)
        self._writer = writer
        self._index = OrphanIndex(caches)
        for cache in self._index.owners.values():
            cache.subscribe(self._on_owner)
        for resource, cache in self._index.generated.items():
            cache.subscribe(partial(self._on_generated, resource))

    def resync(self) -> None:
        """Queue everything whose owners are in no cache."""
        for resource, cache in self._index.generated.items():
            for obj in cache.values():
                if self._index.is_orphaned(obj.metadata):
                    self._enqueue(resource, obj.metadata)

    async def reconcile(self, slot: ResourceKey) -> None:
        """Delete one object if none of its owners is alive. Raises RequeueError, kube errors."""
        resource, key = slot
        found = self._index.generated[resource].get(*key)
        if found is None or not self._index.is_orphaned(found.metadata):
            return
        if self._index.is_in_use(resource, found):
            raise RequeueError("pods still use it", COLLECTOR_SECONDS)
        meta = found.metadata
        if await self._has_live_owner(meta):
            return
        try:
            await self._writer.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return
        _log.warning("orphan deleted", kind=resource.kind, namespace=key[0], name=key[1])

    def _on_owner(self, old: HasMeta | None, new: HasMeta | None) -> None:
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        for resource, obj in self._index.owned(old.metadata.uid):
            self._enqueue(resource, obj.metadata)

    def _on_generated(self, resource: Resource, _: Generated | None, new: Generated | None) -> None:
        """An object that lost its last owner, or that was created after its owner was deleted."""
        if new is not None and self._index.is_orphaned(new.metadata):
            self._enqueue(resource, new.metadata)

    def _enqueue(self, resource: Resource, meta: ObjectMeta) -> None:
        self.controller.queue.add_after((resource, meta.key), COLLECTOR_SECONDS)

    async def _has_live_owner(self, meta: ObjectMeta) -> bool:
        """Whether one of the owners is alive, by the API server: a cache may be behind."""
        for reference in meta.owner_references:
            resource = owner_kind(reference)
            assert resource is not None, "other kinds count as alive"
            try:
                live = await self._writer.get(resource, reference.name, meta.namespace)
            except NotFound as error:
                if not error.name:
                    return True  # the kind is not served at the moment: the owner may exist
            else:
                if live["metadata"]["uid"] == reference.uid:
                    return True
        return False


def owner_kind(reference: OwnerReference) -> Resource | None:
    """The kind of an owner; None for one that is not watched."""
    return _KINDS.get((reference.api_version, reference.kind))


def _owner_uids(meta: ObjectMeta) -> Iterable[Hashable]:
    return [it.uid for it in meta.owner_references]
