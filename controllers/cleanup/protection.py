"""Removal of protection finalizers, so that a tree of groups is deleted from its leaves up.

A PodGroup keeps its finalizer while an active pod names it, a CompositePodGroup while it has a
child group. Nothing keeps a group in a namespace that is being deleted. CompositePodGroups that are
each other's ancestors do not keep each other if all of them are being deleted.

Pods of a later owner of the same name do not keep a PodGroup: they wait for the group that is
created for them afterwards (`api.membership`). A group of an existing owner is released at once,
because its controller recreates it. Admission rejects pods of a group that is being deleted, so a
pod lost in the meantime could otherwise not be replaced until all others have ended.

The cache decides whether pods exist, without a list request. Admission lets no pod into a group
that is being deleted. A pod that the cache lacks loses nothing, as its owner gets the group again.
A list request for each deleted group would be too expensive in a large cluster.
"""

from functools import partial

from api.constants import finalizer_of
from api.ownership import created_for
from controllers.cache.informers import Caches
from controllers.cache.objects import COMPOSITES, POD_GROUPS, Group, Pod
from controllers.runtime.controller import Controller, Writer, queue_all
from kube.base.clock import Clock
from kube.base.errors import Invalid, NotFound
from kube.client.meta import Key, ObjectMeta, Partial
from kube.client.patch import PatchBuilder, pointer

ObjectKey = tuple[str, Key]
"""Kind and key of an object."""

_RESOURCES = {it.kind: it for it in (POD_GROUPS, COMPOSITES)}


class ProtectionController:
    """The protection controller; its keys are the groups that are being deleted."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock) -> None:
        self.controller: Controller[ObjectKey] = Controller(
            "protection", self.reconcile, clock, namespace=lambda slot: slot[1][0]
        )
        self._caches = caches
        self._writer = writer
        for kind, cache in caches.group_caches():
            cache.subscribe(partial(self._on_group, kind))
        caches.pods.subscribe(self._on_pod)
        caches.namespaces.subscribe(self._on_namespace)

    async def resync(self) -> None:
        """Queue all groups that are being deleted."""
        for kind, cache in self._caches.group_caches():
            await queue_all(cache.values(), partial(self._queue, kind))

    async def reconcile(self, slot: ObjectKey) -> None:
        """Remove the finalizer of a group that is no longer in use. Raises kube errors."""
        kind, (namespace, name) = slot
        group = self._caches.groups(kind).get(namespace, name)
        if group is None or not _is_protected(kind, group.metadata) or self._is_in_use(kind, group):
            return
        try:
            await self._writer.patch(
                _RESOURCES[kind], name, _finalizer_removal(kind, group), namespace
            )
        except NotFound:
            return
        except Invalid as error:
            if not error.patch_failed:
                raise
            # Another client changed the finalizers. The event of that change queues the key again.

    def _is_in_use(self, kind: str, group: Group) -> bool:
        namespace, name = group.metadata.key
        owner_id = created_for(group.metadata)
        # The deletion of a namespace waits for all finalizers, and its pods are deleted anyway.
        if self._caches.is_terminating(namespace) or (
            owner_id is not None and self._caches.is_recreated(owner_id, namespace)
        ):
            return False
        if kind == POD_GROUPS.kind:
            return any(self._caches.members(group))
        children = self._caches.children(namespace, name)
        if any(child.metadata.deletion_timestamp is None for child in children):
            return True
        # Only now walk the chain of parents, which may be long.
        ancestry = self._deleted_ancestry(group) if children else set()
        return any(child.metadata.uid not in ancestry for child in children)

    def _deleted_ancestry(self, group: Group) -> set[str]:
        """Return the UIDs of the group and its ancestors if all are being deleted, else none.

        A child among them closes a cycle.
        """
        composites = self._caches.composites
        namespace = group.metadata.namespace
        seen: dict[str, Group] = {}
        step: Group | None = group
        # Users can write a cycle of parents, in which each group would wait for the other forever.
        while step is not None and step.metadata.name not in seen:
            if step.metadata.deletion_timestamp is None:
                return set()
            seen[step.metadata.name] = step
            step = composites.get(namespace, step.parent)
        return {member.metadata.uid for member in seen.values()}

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        if new is not None:
            self._queue(kind, new)
        # This may have been the last child of its parent, which can be deleted then.
        elif old is not None and old.parent:
            parent = self._caches.composites.get(old.metadata.namespace, old.parent)
            if parent is not None:
                self._queue(COMPOSITES.kind, parent)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or not old.active or (new is not None and new.active):
            return
        for group in self._caches.groups_of(old):
            self._queue(POD_GROUPS.kind, group)

    def _on_namespace(self, _old: Partial | None, new: Partial | None) -> None:
        if new is None or new.metadata.deletion_timestamp is None:
            return
        for kind, cache in self._caches.group_caches():
            for group in cache.values():
                if group.metadata.namespace == new.metadata.name:
                    self._queue(kind, group)

    def _queue(self, kind: str, group: Group) -> None:
        if _is_protected(kind, group.metadata):
            self.controller.queue.add((kind, group.metadata.key))


def _is_protected(kind: str, meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and finalizer_of(kind) in meta.finalizers


def _finalizer_removal(kind: str, group: Group) -> PatchBuilder:
    """Create a patch that removes exactly this finalizer of exactly this object."""
    finalizer = finalizer_of(kind)
    meta = group.metadata
    assert finalizer is not None
    # A list index may point to another finalizer by now. The test then lets the patch fail.
    path = pointer("metadata", "finalizers", meta.finalizers.index(finalizer))
    return PatchBuilder().of_uid(meta.uid).test(path, finalizer).remove(path)
