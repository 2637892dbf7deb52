"""Deletion of generated objects whose owner no longer exists (`api.ownership`).

Kubernetes' garbage collector deletes most of them by their owner references, and gets time for it.
Muster deletes the rest:
- Objects without a reference to their owner, as after a deletion with `orphan`, or with a reference
  to another owner that exists. The garbage collector never deletes these, so Muster does not wait.
- Objects that block a later owner of the name. The garbage collector can be half a minute late, and
  pods that know their owner only by name could join the old groups in the meantime.
- Objects that the garbage collector forgot. It drops kinds that discovery omits for a moment, as
  right after the start of an API server, and never learns of owners deleted in that moment.
  Dependents would remain forever and keep their names taken.

All objects of one owner are deleted together. They are kept as long as pods, or a Job that is not
finished, use one of its PodGroups.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from api.ownership import OwnerId, created_for, lost_owner
from controllers.cache.informers import BY_OWNER, BY_OWNER_NAME, Caches
from controllers.cache.informers import OWNERS as OF_USERS
from controllers.cache.objects import (
    CLAIMS,
    COMPOSITES,
    NATIVE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Pod,
    Workload,
)
from controllers.groups.releases import release_expected_pods
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

GENERATED = (WORKLOADS, COMPOSITES, POD_GROUPS, NATIVE_POD_GROUPS, CLAIMS)
"""The generated kinds. A kind that others refer to comes first."""
OWNERS = (WORKLOADS, POD_GROUPS, COMPOSITES, *OF_USERS)
"""The kinds that own generated objects.

Owners of other kinds are not watched and count as alive.
"""

_KINDS: Final = {(it.group, it.kind): it for it in OWNERS}
_DELETES_AT_ONCE: Final = 16
"""Orphans of one owner that are deleted at a time."""

# No event reports that an API server serves a kind again, so the key comes back by itself.
_UNSERVED_SECONDS: Final = 60.0
"""Seconds until the next attempt if the API server does not serve the owner's kind."""

COLLECTOR_SECONDS: Final = 20.0
"""Seconds that the garbage collector has for an object. Usually it needs less than one."""

_log = structlog.get_logger()


class DeletedOwner(NamedTuple):
    """An owner that left objects behind; `late` if the garbage collector has had its time."""

    namespace: str
    owner_id: OwnerId
    late: bool


class OrphanIndex:
    """Generated objects and their owners, read from the caches only."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self.generated: dict[Resource, Cache[Any]] = {it: caches.sources[it][0] for it in GENERATED}
        self.owners: dict[Resource, Cache[Any]] = {it: caches.sources[it][0] for it in OWNERS}

    def lost_owner(self, meta: ObjectMeta) -> OwnerId | None:
        """Return the owner that a generated object has outlived, according to the caches."""
        return lost_owner(meta, lambda it: self._caches.exists(it, meta.namespace))

    def objects_of(self, namespace: str, owner_id: OwnerId) -> Iterator[tuple[Resource, Generated]]:
        """Yield the objects of an owner; an object that others refer to comes first."""
        for resource, cache in self.generated.items():
            for obj in cache.by_index(BY_OWNER, (namespace, owner_id)):
                yield resource, obj

    def lost_owners(self, namespace: str, resource: Resource, name: str) -> set[OwnerId]:
        """Return the former owners of this kind and name that left objects behind."""
        key = (namespace, resource.group, resource.kind, name)
        found = (it for cache in self.generated.values() for it in cache.each(BY_OWNER_NAME, key))
        return {lost for it in found if (lost := self.lost_owner(it.metadata)) is not None}

    def is_in_use(self, namespace: str, owner_id: OwnerId) -> bool:
        """Return True if pods or unfinished Jobs use one of the owner's PodGroups."""
        groups = self._caches.leaves((namespace, owner_id))
        return any(self._caches.has_job(it) or any(self._caches.members(it)) for it in groups)

    def is_collected(self, obj: HasMeta) -> bool:
        """Return True if the garbage collector will delete the object.

        This is so if each of its owners is deleted, or will be deleted together with the object.
        """
        meta: Any = obj.metadata
        # A later owner needs the name now. Waiting for the garbage collector would delay its gang.
        if self._caches.is_replaced(meta):
            return False
        owner_id = created_for(meta)
        # The garbage collector never deletes an object without references.
        return bool(meta.owner_references) and all(
            self._is_deleted_with(meta.namespace, it, owner_id) for it in meta.owner_references
        )

    def _is_deleted_with(
        self, namespace: str, reference: OwnerReference, owner_id: OwnerId | None
    ) -> bool:
        group = reference.api_version.rpartition("/")[0]
        resource = _KINDS.get((group, reference.kind))
        if resource is None:
            # Owners of other kinds are not watched. They may exist, and then keep the object.
            return False
        owner = self.owners[resource].get(namespace, reference.name)
        if owner is None or owner.metadata.uid != reference.uid:
            return True
        # A Workload of the same owner is deleted in the same pass, so it does not keep its groups.
        return created_for(owner.metadata) == owner_id


class OrphanCollector:
    """The controller that deletes orphans; its keys are deleted owners."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock) -> None:
        self.controller: Controller[DeletedOwner] = Controller("orphans", self.reconcile, clock)
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
        """Queue all generated objects whose owners are in no cache."""
        for cache in self._index.generated.values():
            await queue_all(cache.values(), partial(self._on_generated, None))

    async def reconcile(self, left: DeletedOwner) -> None:
        """Delete the objects of one deleted owner. Raises RequeueError, kube errors."""
        namespace, owner_id, late = left
        # Before the check for pods: slots of expected pods must be released even while pods still
        # run.
        await self._expect_nothing(namespace, owner_id)
        found = [
            (resource, obj.metadata)
            for resource, obj in self._index.objects_of(namespace, owner_id)
            if self._index.lost_owner(obj.metadata) and (late or not self._index.is_collected(obj))
        ]
        if not found:
            return
        if self._index.is_in_use(namespace, owner_id):
            raise RequeueError("pods still use it", COLLECTOR_SECONDS)
        # The cache may be behind. A deletion cannot be undone, so the API server has the last word.
        if await self._exists(namespace, owner_id):
            return
        await bounded([partial(self._delete, *it, late=late) for it in found], _DELETES_AT_ONCE)

    async def _expect_nothing(self, namespace: str, owner_id: OwnerId) -> None:
        """Remove `expectedPods` from the owner's groups: no controller creates these pods."""
        groups = self._caches.pod_groups.each(BY_OWNER, (namespace, owner_id))
        expecting = [group for group in groups if group.expected]
        if not expecting or await self._exists(namespace, owner_id):
            return
        for group in expecting:
            try:
                await release_expected_pods(self._writer, group)
            except NotFound:
                continue

    async def _delete(self, resource: Resource, meta: ObjectMeta, *, late: bool) -> None:
        namespace, name = meta.key
        try:
            await self._writer.delete(resource, name, namespace, uid=meta.uid)
        except (NotFound, Conflict):
            # The UID in the request protects an object of the same name that was created meanwhile.
            return
        # A late deletion means that the garbage collector failed, so operators should see it.
        log = _log.warning if late else _log.info
        log("orphan deleted", kind=resource.kind, namespace=namespace, name=name, forgotten=late)

    def _on_owner(self, resource: Resource, old: HasMeta | None, new: HasMeta | None) -> None:
        """Queue owners of this name when one is deleted or replaced."""
        there = new or old
        if there is None or (old and new and old.metadata.uid == new.metadata.uid):
            return
        namespace, name = there.metadata.namespace, there.metadata.name
        for owner_id in self._index.lost_owners(namespace, resource, name):
            self._queue(namespace, owner_id)

    def _on_served(self, resource: Resource) -> None:
        """Check all generated objects, as it is now known which owners of the kind exist."""
        if resource in self._index.owners:
            for cache in self._index.generated.values():
                for obj in cache.values():
                    self._on_generated(None, obj)

    def _on_generated(self, old: Generated | None, new: Generated | None) -> None:
        """Queue the deleted owner of an object, also of one that was created after the deletion."""
        if old is not None and new is not None and _notes(old) == _notes(new):
            return  # its owner may have left thousands, which need no look at each change of one
        owner_id = self._index.lost_owner(new.metadata) if new is not None else None
        if new is not None and owner_id is not None:
            self._queue(new.metadata.namespace, owner_id)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Queue a group's deleted owner once the group's last pod ends.

        The next owner of the name may wait for it.
        """
        if old is None or not old.active or (new is not None and new.active):
            return
        for group in self._caches.groups_of(old):
            self._on_unused(group)

    def _on_unused(self, group: Group) -> None:
        # The deletion of a group with members would only be put off again.
        if self._index.lost_owner(group.metadata) and not any(self._caches.members(group)):
            self._on_generated(None, group)

    def _queue(self, namespace: str, owner_id: OwnerId) -> None:
        # The first key deletes what the garbage collector never does, the second the rest in time.
        self.controller.queue.add(DeletedOwner(namespace, owner_id, late=False))
        self.controller.queue.add_after(
            DeletedOwner(namespace, owner_id, late=True), COLLECTOR_SECONDS
        )

    async def _exists(self, namespace: str, owner_id: OwnerId) -> bool:
        """Return True if the API server has the owner: a cache may be behind.

        Raises RequeueError if the API server does not serve its kind now, as the owner may exist.
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
    """Return the metadata that decides whether an object is deleted, and who deletes it."""
    return created_for(obj.metadata), obj.metadata.owner_references
