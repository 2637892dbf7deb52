"""What the Job and the JobSet controllers have in common: when to make groups, when to remove."""

from collections.abc import Callable

from controllers.maker import Formula, Maker
from controllers.objects import COMPOSITES, POD_GROUPS, WORKLOADS, Group, Owner, Pod
from controllers.runtime import Controller
from controllers.world import World
from kube.cache import Cache
from kube.clock import Clock
from kube.meta import Key, ObjectMeta, Partial


class OwnerController:
    """Reconciles the owners of one kind. Wanted objects come from a formula of the API."""

    def __init__(
        self,
        kind: str,
        world: World,
        maker: Maker,
        clock: Clock,
        formula: Callable[[Owner], Formula],
    ) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[Key] = Controller(kind.lower(), self.reconcile, clock)
        self._kind = kind
        self._world = world
        self._maker = maker
        self._owners: Cache[Owner] = world.owners(kind)
        self._formula = formula
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
        """Bring one owner's objects to what its formula says. Raises NotYetError, kube errors."""
        owner = self._owners.get(*key)
        if owner is None or not owner.spec or owner.finished:
            return
        if owner.metadata.deletion_timestamp is not None:
            return  # owner references see to the rest
        formula = self._formula(owner)
        if not formula(None):
            return
        if owner.suspended:
            await self._maker.remove_groups(owner)
        else:
            await self._maker.ensure(owner, formula)

    def _on_owner(self, _old: Owner | None, new: Owner | None) -> None:
        if new is not None and new.spec:
            self.controller.queue.add(new.metadata.key)

    def _on_workload(self, old: Partial | None, new: Partial | None) -> None:
        self._on_generated(WORKLOADS.kind, _meta(old), _meta(new), changed=False)

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        changed = old is not None and new is not None and old.policy != new.policy
        self._on_generated(kind, _meta(old), _meta(new), changed=changed)

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
        for key in self._maker.gone((kind, meta.key), self._kind):
            self.controller.queue.add(key)

    def _queue_owner(self, meta: ObjectMeta) -> None:
        controller = meta.controller
        if controller is not None and controller.kind == self._kind:
            self.controller.queue.add((meta.namespace, controller.name))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The last pod of a suspended owner is gone: its groups may go."""
        if old is None or not old.active or (new is not None and new.active):
            return
        namespace = old.metadata.namespace
        for name in old.groups:
            group = self._world.pod_groups.get(namespace, name)
            if group is not None and not self._world.has_pods(namespace, name):
                self._queue_suspended(group.metadata)

    def _queue_suspended(self, meta: ObjectMeta) -> None:
        controller = meta.controller
        if controller is None or controller.kind != self._kind:
            return
        owner = self._owners.get(meta.namespace, controller.name)
        if owner is not None and owner.suspended:
            self.controller.queue.add(owner.metadata.key)


def _meta(obj: Partial | Group | None) -> ObjectMeta | None:
    return None if obj is None else obj.metadata
