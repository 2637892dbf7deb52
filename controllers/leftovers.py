"""Deletes generated objects whose owners are all gone, where the garbage collector missed them.

Collecting is Kubernetes' work, and it is given time for it. But its collector drops the kinds that
discovery leaves out for a moment, as right after an API server started; of what is deleted in that
moment it never hears, and what that owned would stay for ever and keep its name taken.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final

import structlog

from api.constants import LABEL_MANAGED_BY, MANAGED_BY
from controllers.objects import (
    COMPOSITES,
    COSCHEDULINGS,
    JOBS,
    JOBSETS,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
)
from controllers.runtime import Controller, Writer
from controllers.world import World
from kube.cache import Cache
from kube.clock import Clock
from kube.errors import Conflict, NotFound
from kube.meta import HasMeta, Key, ObjectMeta, OwnerReference
from kube.resources import Resource

PATIENCE: Final = 20.0
"""Seconds that the garbage collector has for an object; it needs less than one when all is well."""

BY_EACH_OWNER: Final = "each owner"

Slot = tuple[Resource, Key]

_log = structlog.get_logger()


class Leftovers:
    """The controller of what was left; its keys are Workloads and groups that look ownerless."""

    def __init__(self, world: World, writer: Writer, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[Slot] = Controller("leftovers", self.reconcile, clock)
        self._writer = writer
        self._generated: dict[Resource, Cache[Any]] = {
            WORKLOADS: world.workloads,
            COMPOSITES: world.composites,
            POD_GROUPS: world.pod_groups,
        }
        self._owners: dict[tuple[str, str], tuple[Resource, Cache[Any]]] = {
            (WORKLOADS.api_version, WORKLOADS.kind): (WORKLOADS, world.workloads)
        }
        for resource in (JOBS, JOBSETS, COSCHEDULINGS, PLUGINS_POD_GROUPS):
            self._owners[resource.api_version, resource.kind] = (resource, world.owners(resource))
        for cache in self._generated.values():
            cache.add_index(BY_EACH_OWNER, lambda obj: _owner_uids(obj.metadata))
        for _, cache in self._owners.values():
            cache.subscribe(self._on_owner)

    def resync(self) -> None:
        """Look at everything whose owners are in no cache."""
        for resource, cache in self._generated.items():
            for obj in cache.values():
                if _is_generated(obj.metadata) and not self._has_cached_owner(obj.metadata):
                    self._later(resource, obj.metadata)

    async def reconcile(self, slot: Slot) -> None:
        """Delete one object if none of its owners lives any more. Raises kube errors."""
        resource, key = slot
        found = self._generated[resource].get(*key)
        if found is None or not _is_generated(found.metadata):
            return
        meta = found.metadata
        if self._has_cached_owner(meta) or await self._has_live_owner(meta):
            return
        try:
            await self._writer.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return
        _log.warning("left over, deleted", kind=resource.kind, namespace=key[0], name=key[1])

    def _on_owner(self, old: HasMeta | None, new: HasMeta | None) -> None:
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        for resource, cache in self._generated.items():
            for obj in cache.by_index(BY_EACH_OWNER, old.metadata.uid):
                self._later(resource, obj.metadata)

    def _later(self, resource: Resource, meta: ObjectMeta) -> None:
        self.controller.queue.add_after((resource, meta.key), PATIENCE)

    def _has_cached_owner(self, meta: ObjectMeta) -> bool:
        """Whether an owner is in a cache, or of a kind that is none of ours to judge."""
        for reference in meta.owner_references:
            owners = self._owners.get((reference.api_version, reference.kind))
            if owners is None or _is(reference, owners[1].get(meta.namespace, reference.name)):
                return True
        return False

    async def _has_live_owner(self, meta: ObjectMeta) -> bool:
        """The same, asked of the API server, since a cache may be behind."""
        for reference in meta.owner_references:
            resource, _ = self._owners[reference.api_version, reference.kind]
            try:
                live = await self._writer.get(resource, reference.name, meta.namespace)
            except NotFound as error:
                if not error.name:
                    return True  # the kind is not served at the moment: that proves nothing
            else:
                if live["metadata"]["uid"] == reference.uid:
                    return True
        return False


def _is(reference: OwnerReference, owner: HasMeta | None) -> bool:
    return owner is not None and owner.metadata.uid == reference.uid


def _is_generated(meta: ObjectMeta) -> bool:
    return (
        meta.labels.get(LABEL_MANAGED_BY) == MANAGED_BY
        and meta.deletion_timestamp is None
        and bool(meta.owner_references)
    )


def _owner_uids(meta: ObjectMeta) -> Iterable[Hashable]:
    return _uids(meta) if meta.labels.get(LABEL_MANAGED_BY) == MANAGED_BY else ()


def _uids(meta: ObjectMeta) -> Iterator[Hashable]:
    return (reference.uid for reference in meta.owner_references)
