"""Generated objects whose owner is gone (`api.ownership`): which they are, and their deletion.

Kubernetes' garbage collector deletes most of them, by their owner references, and gets time for it.
What is left to Muster:
- What names its owner no more, as after a deletion with `orphan`, or where another owner of it
  lives: the garbage collector never deletes that, and Muster does at once.
- What holds up a later owner of the name. The garbage collector may be behind by half a minute,
  and pods that know their owner by its name could come into the old groups meanwhile.
- What the garbage collector forgot. It drops the kinds that discovery leaves out for a moment, as
  right after an API server started: it never learns of what is deleted in that moment, and the
  dependents would stay for ever and keep their names taken.

What was made for one owner goes together, and is kept as long as one of its PodGroups is used: by
pods, or by a Job that is not over.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from api.ownership import OwnerId, lost_owner, made_for
from controllers.cache.informers import BY_OWNER, BY_OWNER_NAME, Caches
from controllers.cache.informers import OWNERS as OF_USERS
from controllers.cache.objects import (
    CLAIMS,
    COMPOSITES,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Pod,
    Workload,
)
from controllers.groups.expected_pods import expect_nothing
from controllers.runtime.controller import (
    Controller,
    NotServedError,
    RequeueError,
    Writer,
    bounded,
    queue_all,
)
from kube.base.clock import Clock
from kube.base.errors import Conflict, NotFound
from kube.client.meta import HasMeta, ObjectMeta, OwnerReference, Partial
from kube.client.resources import Resource
from kube.informers.cache import Cache

Generated = Workload | Group | Partial

GENERATED = (WORKLOADS, COMPOSITES, POD_GROUPS, CLAIMS)
"""The generated kinds; those that others refer to come first."""
OWNERS = (WORKLOADS, POD_GROUPS, *OF_USERS)
"""The kinds they are made for. Owners of other kinds are not watched and count as alive."""

_KINDS: Final = {(it.group, it.kind): it for it in OWNERS}
_DELETES_AT_ONCE: Final = 16
"""Orphans that are deleted at a time."""

_UNSERVED_SECONDS: Final = 60.0
"""Seconds until the next attempt where the owner's kind is not served."""

COLLECTOR_SECONDS: Final = 20.0
"""How long the garbage collector has for an object; usually it needs less than one second."""

_log = structlog.get_logger()


class Left(NamedTuple):
    """What was made for an owner that is gone; `late`: the garbage collector has had its time."""

    namespace: str
    owner_id: OwnerId
    late: bool


class OrphanIndex:
    """Generated objects and their owners, read from the caches alone."""

    def __init__(self, caches: Caches) -> None:
        """Reads indexes that the caches have."""
        self._caches = caches
        self.generated: dict[Resource, Cache[Any]] = {it: caches.sources[it][0] for it in GENERATED}
        self.owners: dict[Resource, Cache[Any]] = {it: caches.sources[it][0] for it in OWNERS}

    def lost_owner(self, meta: ObjectMeta) -> OwnerId | None:
        """The owner that a generated object has outlived, as far as the caches know."""
        return lost_owner(meta, lambda it: self._caches.exists(it, meta.namespace))

    def made_for(self, namespace: str, owner_id: OwnerId) -> Iterator[tuple[Resource, Generated]]:
        """What was made for an owner; what others refer to comes first."""
        for resource, cache in self.generated.items():
            for obj in cache.by_index(BY_OWNER, (namespace, owner_id)):
                yield resource, obj

    def lost_owners(self, namespace: str, resource: Resource, name: str) -> set[OwnerId]:
        """The former owners of this kind and name that have left something."""
        key = (namespace, resource.group, resource.kind, name)
        found = (it for cache in self.generated.values() for it in cache.each(BY_OWNER_NAME, key))
        return {lost for it in found if (lost := self.lost_owner(it.metadata)) is not None}

    def is_in_use(self, namespace: str, owner_id: OwnerId) -> bool:
        """Whether pods, or Jobs that are not over, use one of the PodGroups made for the owner."""
        groups = self._caches.pod_groups.each(BY_OWNER, (namespace, owner_id))
        return any(self._caches.has_job(it) or any(self._caches.members(it)) for it in groups)

    def is_collected(self, obj: HasMeta) -> bool:
        """Whether the garbage collector deletes it: no owner lives but one that goes with it.

        It has no time where a later owner needs the name.
        """
        meta: Any = obj.metadata
        if self._caches.is_replaced(meta):
            return False
        owner_id = made_for(meta)
        return bool(meta.owner_references) and all(
            self._goes_along(meta.namespace, it, owner_id) for it in meta.owner_references
        )

    def _goes_along(
        self, namespace: str, reference: OwnerReference, owner_id: OwnerId | None
    ) -> bool:
        group = reference.api_version.rpartition("/")[0]
        resource = _KINDS.get((group, reference.kind))
        if resource is None:
            return False
        owner = self.owners[resource].get(namespace, reference.name)
        if owner is None or owner.metadata.uid != reference.uid:
            return True
        return made_for(owner.metadata) == owner_id


class OrphanCollector:
    """The controller that deletes orphans; its keys are owners that are gone."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[Left] = Controller("orphans", self.reconcile, clock)
        self._writer = writer
        self._caches = caches
        self._index = OrphanIndex(caches)
        for resource, cache in self._index.owners.items():
            cache.subscribe(partial(self._on_owner, resource))
        for cache in self._index.generated.values():
            cache.subscribe(self._on_generated)
        caches.pods.subscribe(self._on_pod)
        caches.when_served(self._on_served)

    async def resync(self) -> None:
        """Queue everything whose owners are in no cache."""
        for cache in self._index.generated.values():
            await queue_all(cache.values(), partial(self._on_generated, None))

    async def reconcile(self, left: Left) -> None:
        """Delete what one owner left. Raises RequeueError, kube errors."""
        namespace, owner_id, late = left
        await self._expect_nothing(namespace, owner_id)
        found = [
            (resource, obj.metadata)
            for resource, obj in self._index.made_for(namespace, owner_id)
            if self._index.lost_owner(obj.metadata) and (late or not self._index.is_collected(obj))
        ]
        if not found:
            return
        if self._index.is_in_use(namespace, owner_id):
            raise RequeueError("pods still use it", COLLECTOR_SECONDS)
        if await self._exists(namespace, owner_id):
            return
        await bounded([partial(self._delete, *it, late=late) for it in found], _DELETES_AT_ONCE)

    async def _expect_nothing(self, namespace: str, owner_id: OwnerId) -> None:
        """Pods that still run, or are ending, keep a group; nobody creates more of them."""
        groups = self._caches.pod_groups.each(BY_OWNER, (namespace, owner_id))
        expecting = [group for group in groups if group.expected]
        if not expecting or await self._exists(namespace, owner_id):
            return
        for group in expecting:
            try:
                await expect_nothing(self._writer, group)
            except NotFound:
                continue

    async def _delete(self, resource: Resource, meta: ObjectMeta, *, late: bool) -> None:
        namespace, name = meta.key
        try:
            await self._writer.delete(resource, name, namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return
        log = _log.warning if late else _log.info
        log("orphan deleted", kind=resource.kind, namespace=namespace, name=name, forgotten=late)

    def _on_owner(self, resource: Resource, old: HasMeta | None, new: HasMeta | None) -> None:
        """One is gone, or the next of its name is there."""
        there = new or old
        if there is None or (old and new and old.metadata.uid == new.metadata.uid):
            return
        namespace, name = there.metadata.namespace, there.metadata.name
        for owner_id in self._index.lost_owners(namespace, resource, name):
            self._queue(namespace, owner_id)

    def _on_served(self, resource: Resource) -> None:
        """Which owners of the kind exist is known now."""
        if resource in self._index.owners:
            for cache in self._index.generated.values():
                for obj in cache.values():
                    self._on_generated(None, obj)

    def _on_generated(self, old: Generated | None, new: Generated | None) -> None:
        """An object that outlived its owner, or that was created after its owner was deleted."""
        if old is not None and new is not None and _notes(old) == _notes(new):
            return  # its owner may have left thousands, which need no look at each change of one
        owner_id = self._index.lost_owner(new.metadata) if new is not None else None
        if new is not None and owner_id is not None:
            self._queue(new.metadata.namespace, owner_id)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The last pod of an orphaned group has ended: the next of its owner's name may wait."""
        if old is None or not old.active or (new is not None and new.active):
            return
        for group in self._caches.groups_of(old):
            self._on_unused(group)

    def _on_unused(self, group: Group) -> None:
        if self._index.lost_owner(group.metadata) and not any(self._caches.members(group)):
            self._on_generated(None, group)

    def _queue(self, namespace: str, owner_id: OwnerId) -> None:
        self.controller.queue.add(Left(namespace, owner_id, late=False))
        self.controller.queue.add_after(Left(namespace, owner_id, late=True), COLLECTOR_SECONDS)

    async def _exists(self, namespace: str, owner_id: OwnerId) -> bool:
        """Whether the owner lives, by the API server: a cache may be behind.

        Raises RequeueError where its kind is not served at the moment, as it may live.
        """
        resource = _KINDS[owner_id.group, owner_id.kind]
        try:
            live = await self._writer.get(resource, owner_id.name, namespace)
        except NotServedError as error:
            raise RequeueError(str(error), _UNSERVED_SECONDS) from error
        except NotFound:
            return False
        return bool(live["metadata"]["uid"] == owner_id.uid)


def _notes(obj: Generated) -> tuple[OwnerId | None, list[OwnerReference]]:
    """All that tells whether an object is deleted, and by whom."""
    return made_for(obj.metadata), obj.metadata.owner_references
