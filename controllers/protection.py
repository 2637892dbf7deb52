"""Takes the protection finalizers off deleted groups, so that a tree unwinds from the leaves.

A PodGroup is held while an active pod names it, a CompositePodGroup while a child group is left.
Nothing holds a group whose namespace is going; composites that are each other's ancestors, all of
them being deleted, do not hold each other.

A PodGroup is not held by pods that name it by chance, of a namesake of its owner as a rule: they
wait for the one that is made for them once it is gone. Nor is it held by pods without a node, if it
was made for an owner that lives and so makes it again: a pod that came just before the deletion
would wait for others that are not let in after it, and the group would wait for that pod.

Pods are looked up in the cache and not asked for again: admission lets no pod into a group that is
being deleted, and one that the cache has not seen yet loses nothing, as its living owner gets the
group again. A list for every group that goes would cost a large cluster more than that.
"""

from collections.abc import Iterator

from api.constants import ANNOTATION_MANAGED_GROUP as MANAGED_GROUP
from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, finalizer_of
from api.ownership import made_for
from controllers.objects import COMPOSITES, POD_GROUPS, Group, Owner, Pod
from controllers.runtime import Controller, Writer
from controllers.world import World
from kube.cache import Cache
from kube.clock import Clock
from kube.errors import Invalid, NotFound
from kube.meta import Key, ObjectMeta, Partial
from kube.patch import PatchBuilder, pointer

Slot = tuple[str, Key]
"""The kind and key of a group."""

_RESOURCES = {POD_GROUP.kind: POD_GROUPS, COMPOSITE_POD_GROUP.kind: COMPOSITES}


class Protection:
    """The protection controller; its keys are the groups that are being deleted."""

    def __init__(self, world: World, writer: Writer, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[Slot] = Controller("protection", self.reconcile, clock)
        self._world = world
        self._writer = writer
        world.pod_groups.subscribe(lambda old, new: self._on_group(POD_GROUP.kind, old, new))
        world.composites.subscribe(
            lambda old, new: self._on_group(COMPOSITE_POD_GROUP.kind, old, new)
        )
        world.pods.subscribe(self._on_pod)
        world.jobs.subscribe(self._on_job)
        world.namespaces.subscribe(self._on_namespace)

    def resync(self) -> None:
        """Queue every group that is being deleted."""
        for kind, group in self._all():
            self._queue(kind, group)

    async def reconcile(self, slot: Slot) -> None:
        """Take the finalizer off one group if nothing holds it any more. Raises kube errors."""
        kind, (namespace, name) = slot
        group = self._world.groups(kind).get(namespace, name)
        if group is None or not _is_protected(kind, group.metadata) or self._is_held(kind, group):
            return
        try:
            await self._writer.patch(_RESOURCES[kind], name, _release(kind, group), namespace)
        except NotFound:
            return
        except Invalid as error:
            if not error.patch_failed:
                raise
            # The finalizers are not as they were: the event that says so brings the key back.

    def _is_held(self, kind: str, group: Group) -> bool:
        namespace, name = group.metadata.key
        if self._world.is_terminating(namespace):
            return False
        if kind == POD_GROUP.kind:
            maker = made_for(group.metadata)
            comes_again = maker is not None and self._world.lives(maker, namespace)
            return any(pod.bound or not comes_again for pod in self._world.members(group))
        going = self._deleted_line(group)
        return any(
            child.metadata.uid not in going for child in self._world.children(namespace, name)
        )

    def _deleted_line(self, group: Group) -> set[str]:
        """The UIDs of the group and its ancestors, if all are being deleted.

        A child among them closes a loop.
        """
        composites = self._world.composites
        namespace = group.metadata.namespace
        seen: dict[str, Group] = {}
        step: Group | None = group
        while step is not None and step.metadata.name not in seen:
            if step.metadata.deletion_timestamp is None:
                return set()
            seen[step.metadata.name] = step
            step = composites.get(namespace, step.parent)
        return {member.metadata.uid for member in seen.values()}

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        if new is not None:
            self._queue(kind, new)
        elif old is not None and old.parent:
            parent = self._world.composites.get(old.metadata.namespace, old.parent)
            if parent is not None:
                self._queue(COMPOSITE_POD_GROUP.kind, parent)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or not old.active or (new is not None and new.active):
            return
        for name in old.groups:
            group = self._world.pod_groups.get(old.metadata.namespace, name)
            if group is not None:
                self._queue(POD_GROUP.kind, group)

    def _on_job(self, _old: Owner | None, new: Owner | None) -> None:
        """Whose pods these are is known now: perhaps they hold their group no more."""
        if new is None:
            return
        namespace, name = new.metadata.namespace, new.metadata.annotations.get(MANAGED_GROUP, "")
        group = self._world.pod_groups.get(namespace, name)
        if group is not None:
            self._queue(POD_GROUP.kind, group)

    def _on_namespace(self, _old: Partial | None, new: Partial | None) -> None:
        if new is None or new.metadata.deletion_timestamp is None:
            return
        for kind, group in self._all():
            if group.metadata.namespace == new.metadata.name:
                self._queue(kind, group)

    def _queue(self, kind: str, group: Group) -> None:
        if _is_protected(kind, group.metadata):
            self.controller.queue.add((kind, group.metadata.key))

    def _all(self) -> Iterator[tuple[str, Group]]:
        caches: list[tuple[str, Cache[Group]]] = [
            (kind, self._world.groups(kind)) for kind in _RESOURCES
        ]
        for kind, cache in caches:
            for group in cache.values():
                yield kind, group


def _is_protected(kind: str, meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and finalizer_of(kind) in meta.finalizers


def _release(kind: str, group: Group) -> PatchBuilder:
    """Removes exactly this finalizer of exactly this object, or nothing."""
    finalizer = finalizer_of(kind)
    meta = group.metadata
    assert finalizer is not None
    path = pointer("metadata", "finalizers", meta.finalizers.index(finalizer))
    return PatchBuilder().of_uid(meta.uid).test(path, finalizer).remove(path)
