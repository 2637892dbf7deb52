"""Deletes generated objects whose owners are all gone, where nobody else will.

Collecting is Kubernetes' work, and it is given time for it. But its collector drops the kinds that
discovery leaves out for a moment, as right after an API server started; of what is deleted in that
moment it never hears, and what that owned would stay for ever and keep its name taken. And what a
deletion orphaned has no owner any more: it is kept as long as pods use it.
"""

from functools import partial
from typing import Final

import structlog

from controllers.remains import Generated, Remains, owner_kind
from controllers.runtime import Controller, NotYetError, Writer
from controllers.world import World
from kube.clock import Clock
from kube.errors import Conflict, NotFound
from kube.meta import HasMeta, Key, ObjectMeta
from kube.resources import Resource

PATIENCE: Final = 20.0
"""Seconds that the garbage collector has for an object; it needs less than one when all is well."""

Slot = tuple[Resource, Key]

_log = structlog.get_logger()


class Leftovers:
    """The controller of what was left; its keys are Workloads and groups that look ownerless."""

    def __init__(self, world: World, writer: Writer, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[Slot] = Controller("leftovers", self.reconcile, clock)
        self._writer = writer
        self._remains = Remains(world)
        for cache in self._remains.owners.values():
            cache.subscribe(self._on_owner)
        for resource, cache in self._remains.generated.items():
            cache.subscribe(partial(self._on_generated, resource))

    def resync(self) -> None:
        """Look at everything whose owners are in no cache."""
        for resource, cache in self._remains.generated.items():
            for obj in cache.values():
                if self._remains.is_left_over(obj.metadata):
                    self._later(resource, obj.metadata)

    async def reconcile(self, slot: Slot) -> None:
        """Delete one object if none of its owners lives any more. Raises kube errors."""
        resource, key = slot
        found = self._remains.generated[resource].get(*key)
        if found is None or not self._remains.is_left_over(found.metadata):
            return
        if self._remains.is_held(resource, found):
            raise NotYetError("pods still use it", PATIENCE)
        meta = found.metadata
        if await self._has_live_owner(meta):
            return
        try:
            await self._writer.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return
        _log.warning("left over, deleted", kind=resource.kind, namespace=key[0], name=key[1])

    def _on_owner(self, old: HasMeta | None, new: HasMeta | None) -> None:
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        for resource, obj in self._remains.owned(old.metadata.uid):
            self._later(resource, obj.metadata)

    def _on_generated(self, resource: Resource, _: Generated | None, new: Generated | None) -> None:
        """An object that lost its last owner, or that was made after its owner had gone."""
        if new is not None and self._remains.is_left_over(new.metadata):
            self._later(resource, new.metadata)

    def _later(self, resource: Resource, meta: ObjectMeta) -> None:
        self.controller.queue.add_after((resource, meta.key), PATIENCE)

    async def _has_live_owner(self, meta: ObjectMeta) -> bool:
        """Whether one of the owners lives, asked of the API server, as a cache may be behind."""
        for reference in meta.owner_references:
            resource = owner_kind(reference)
            assert resource is not None, "others count as living"
            try:
                live = await self._writer.get(resource, reference.name, meta.namespace)
            except NotFound as error:
                if not error.name:
                    return True  # the kind is not served at the moment: that proves nothing
            else:
                if live["metadata"]["uid"] == reference.uid:
                    return True
        return False
