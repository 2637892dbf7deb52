"""What the controllers of Jobs, JobSets and coscheduling groups have in common.

When to make groups, when to remove them, and what to tell meanwhile.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from api.constants import EVENT_WORKLOAD_IGNORED
from api.ownership import made_for
from controllers.maker import Maker
from controllers.mirror import Mirror
from controllers.objects import COMPOSITES, POD_GROUPS, WORKLOADS, Group, Owner, Pod, Workload
from controllers.runtime import Controller, HeldError, NotYetError
from controllers.world import World
from kube.cache import Cache
from kube.clock import Clock
from kube.meta import Key, ObjectMeta
from kube.resources import Resource

Make = Callable[[Owner], Awaitable[None]]
"""Brings one owner's objects to what they should be. Raises NotYetError, HeldError, kube errors."""


# Groups of one owner begin and cease to wait in swarms: they are told of together.
_TOLD_WITHIN: Final = 0.5


class OwnerController:
    """Reconciles the owners of one kind; `make` is what differs between kinds."""

    def __init__(
        self,
        resource: Resource,
        world: World,
        clock: Clock,
        *,
        maker: Maker,
        mirror: Mirror,
        make: Make,
    ) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        name = resource.kind.lower()
        self.controller: Controller[Key] = Controller(name, self.reconcile, clock)
        self._resource = resource
        self._world = world
        self._maker = maker
        self._mirror = mirror
        self._owners: Cache[Owner] = world.owners(resource)
        self._make = make
        self._owners.subscribe(self._on_owner)
        world.workloads.subscribe(self._on_workload)
        world.pod_groups.subscribe(lambda old, new: self._on_group(POD_GROUPS.kind, old, new))
        world.composites.subscribe(lambda old, new: self._on_group(COMPOSITES.kind, old, new))
        world.pods.subscribe(self._on_pod)

    def resync(self) -> None:
        """Queue every owner: at the start of a term, whatever happened before it."""
        for owner in self._owners.values():
            self._on_owner(None, owner)

    async def reconcile(self, key: Key) -> None:
        """Bring one owner's objects to what they should be. Raises NotYetError, kube errors."""
        owner = self._owners.get(*key)
        if owner is None or not owner.spec:
            return
        if owner.metadata.deletion_timestamp is not None:
            return  # owner references see to the rest
        try:
            await self._act(owner)
        except HeldError as fault:
            await self._mirror.held(owner, fault)
        else:
            self._mirror.warn(owner, EVENT_WORKLOAD_IGNORED, self._maker.ignored(owner))
            later = await self.tell(owner)
            if later:
                raise NotYetError("what it waits for may pass", later)

    async def tell(self, owner: Owner) -> float:
        """Say on the owner how things are; how many seconds later to look again (0: never)."""
        return await self._mirror.tell(owner)

    async def _act(self, owner: Owner) -> None:
        if owner.finished:
            return
        if owner.suspended:
            await self._maker.remove_groups(owner)
        else:
            await self._make(owner)

    def _on_owner(self, old: Owner | None, new: Owner | None) -> None:
        if new is not None and new.spec:
            self.controller.queue.add(new.metadata.key)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._mirror.forget(old.metadata.uid)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        self._on_generated(WORKLOADS.kind, _meta(old), _meta(new), changed=False)
        for workload in (old, new):
            said = workload.controller_ref if workload else None
            if workload and said and said[:2] == (self._resource.group, self._resource.kind):
                self.controller.queue.add((workload.metadata.namespace, said[2]))

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        changed = old is not None and new is not None and old.policy != new.policy
        self._on_generated(kind, _meta(old), _meta(new), changed=changed)
        if old is not None and new is not None and old.waiting != new.waiting:
            self._queue_owner(new.metadata, after=_TOLD_WITHIN)

    def _on_generated(
        self, kind: str, old: ObjectMeta | None, new: ObjectMeta | None, *, changed: bool
    ) -> None:
        """A generated object that vanished or changed is looked at; one that appeared is not."""
        if new is None and old is not None:
            self._on_gone(kind, old)
        elif new is not None and old is None:
            self._maker.seen((kind, new.key))
        elif changed and new is not None:
            self._queue_owner(new)

    def _on_gone(self, kind: str, meta: ObjectMeta) -> None:
        self._queue_owner(meta)
        for key in self._maker.gone((kind, meta.key), self._resource):
            self.controller.queue.add(key)

    def _queue_owner(self, meta: ObjectMeta, after: float = 0.0) -> None:
        name = self._made_for(meta)
        if name:
            self.controller.queue.add_after((meta.namespace, name), after)

    def _made_for(self, meta: ObjectMeta) -> str:
        """The name of the owner of this kind that an object was made for; empty for no such."""
        maker = made_for(meta)
        kind = (self._resource.group, self._resource.kind)
        return maker.name if maker is not None and maker[:2] == kind else ""

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The last pod of a group is gone: if its owner is suspended or shrank, it may go."""
        if old is None or not old.active or (new is not None and new.active):
            return
        for name in old.groups:
            group = self._world.pod_groups.get(old.metadata.namespace, name)
            if group is not None:
                self._queue_unused(group)

    def _queue_unused(self, group: Group) -> None:
        if self._made_for(group.metadata) and not self._world.is_held(POD_GROUPS.kind, group):
            self._queue_owner(group.metadata)


def _meta(obj: Workload | Group | None) -> ObjectMeta | None:
    return None if obj is None else obj.metadata
