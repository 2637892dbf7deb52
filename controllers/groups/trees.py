"""Trees of several owners: the controller of their roots, and the place of each owner below one.

A root lists its owners as owner references, so the garbage collector deletes it after the last of
them, whatever the order. The list is also the only record of who is in the tree: an owner reads it
and creates its groups below the root once it is listed, and asks to be listed otherwise. This
controller alone changes the list. It handles all owners that ask in one write, so no two of them
decide at the same time about the last free entry.

The first owner defines what all of a tree share (`Shared`). One that differs is refused, as the
priority and the minimum of a tree are those of its root. It tries again when the root is deleted.

The root exists with its first owner. The scheduler starts nothing below it before as many owners
as its minGroupCount can start.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from api import names, ownership
from api.constants import (
    EVENT_FEATURE_OFF,
    EVENT_NAME_TAKEN,
    EVENT_TREE_DIFFERS,
    EVENT_TREE_FULL,
    MAX_TREE_OWNERS,
)
from api.features import Feature, FeatureGates
from api.integration.common.objects import shared_by
from api.integration.common.trees import (
    Shared,
    Tree,
    root_object,
    shared_below,
    tree_of,
    tree_workload,
)
from api.integration.kinds import OWNER_KINDS
from api.ownership import Ownership, created_for
from controllers.cache.informers import BY_OWNER, Caches
from controllers.cache.objects import COMPOSITES, WORKLOADS, Group, Owner, Workload
from controllers.groups import tree_owners
from controllers.groups.group_api import GroupApi, below_root
from controllers.groups.tree_owners import OwnerKey, listed, lists, owner_key, resource_of
from controllers.groups.tree_waiting import WaitingOwners
from controllers.runtime.controller import (
    BlockedError,
    Controller,
    RejectedError,
    RequeueError,
    Writer,
    queue_all,
    refusals,
)
from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, ApiError, NotFound
from kube.client.meta import Key, OwnerReference
from kube.client.resources import Resource

_ASKED_SECONDS: Final = 5.0
"""Seconds until an owner asks again, if no event has reported its place in the tree."""

_LAG_SECONDS: Final = 5.0
"""Seconds for which the cache may lack the latest list of owners, which then does not change."""

Candidate = tuple[Owner, Shared]
"""An owner that asks for a place in a tree, and what it would share with the others."""


class Trees:
    """The controller of roots; its keys are theirs."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock, gates: FeatureGates) -> None:
        self.controller: Controller[Key] = Controller("trees", self.reconcile, clock)
        self._caches = caches
        self._writer = writer
        self._clock = clock
        self._gates = gates
        self._waiting = WaitingOwners()
        self._listed_at: dict[Key, float] = {}
        caches.composites.subscribe(self._on_composite)
        caches.pod_groups.subscribe(self._on_child)
        caches.workloads.subscribe(self._on_workload)
        for resource in tree_owners.KINDS.values():
            caches.owners(resource).subscribe(partial(self._on_owner, resource))

    def notify(self, resource: Resource, queue: Callable[[Key], None]) -> None:
        """Call `queue` with the key of each owner of a kind whose place in its tree changed."""
        self._waiting.notify(resource, queue)

    async def resync(self) -> None:
        """Queue all roots. Owners that are not listed ask by themselves."""
        await queue_all(self._caches.composites.values(), self._queue_root)

    def api_of(self, owner: Owner, tree: Tree) -> GroupApi:
        """Return the API of an owner whose groups are below the root of its tree.

        Raises BlockedError if the owner cannot be in the tree, InTheWayError while the root is
        being deleted, and RequeueError until the root lists the owner.
        """
        key, root = self._root_of(owner, tree)
        is_leaving = root is not None and root.metadata.deletion_timestamp is not None
        # A user may have deleted the root. Existing groups keep it, and follow their owner.
        if lists(root, owner) and (not is_leaving or self._has_groups(owner)):
            return below_root(key[1])
        if root is not None and is_leaving:
            self._waiting.refuse(key, owner_key(owner))
            raise tree_owners.being_deleted(root)
        self._check_place(key, root, owner, tree)
        if problem := self._waiting.problem_of(owner_key(owner)):
            raise RejectedError(problem.what, problem.error)
        self._waiting.ask(key, [owner_key(owner)])
        self.controller.queue.add(key)
        raise RequeueError("its tree does not list it yet", _ASKED_SECONDS)

    def waits_for(self, owner: Owner) -> str:
        """Return the message for an owner whose tree has too few owners; else empty."""
        tree = tree_of(owner.metadata.annotations)
        if tree is None:
            return ""
        return tree_owners.missing_owners(self._root_of(owner, tree)[1], owner, tree)

    async def reconcile(self, key: Key) -> None:
        """Create or delete one root and its Workload, and keep its list. Raises kube errors."""
        asking = self._waiting.take(key, MAX_TREE_OWNERS)
        try:
            await self._follow(key, list(self._candidates(asking)))
        except RejectedError as fault:
            self._waiting.failed(asking, fault)
            if not asking:
                raise fault.error from fault
        except Exception:
            self._waiting.ask(key, asking)
            raise

    async def _follow(self, key: Key, asking: Sequence[Candidate]) -> None:
        root = self._caches.composites.get(*key)
        shared = None if root is None else shared_below(root.metadata)
        if root is None and asking:
            await self._create(key, asking)
        if root is None or shared is None or root.metadata.deletion_timestamp is not None:
            return
        references = root.metadata.owner_references
        leaving = [it for it in references if not self._stays(root, it)]
        free = MAX_TREE_OWNERS - len(references) + len(leaving)
        coming = [it for it, wants in asking if wants == shared and not lists(root, it)][:free]
        self._check_cached(key)
        if len(leaving) == len(references) and not (coming or self._caches.children(*key)):
            await self._delete(root)
            return
        await self._change_list(root, leaving, coming)
        # The event of the root wakes those that are listed now.
        uids = {it.metadata.uid for it in coming}
        self._waiting.wake(owner_key(it) for it, _ in asking if it.metadata.uid not in uids)
        await self._ensure_workload(key, root.metadata.uid, shared)

    def _root_of(self, owner: Owner, tree: Tree) -> tuple[Key, Group | None]:
        """Return the key of a tree's root, and what has this name."""
        namespace = owner.metadata.namespace
        key = (namespace, names.tree_root(namespace, tree.name))
        return key, self._caches.composites.get(*key)

    def _has_groups(self, owner: Owner) -> bool:
        groups = self._caches.generated_groups.values()
        return any(cache.by_index(BY_OWNER, owner.as_index) for cache in groups)

    def _check_place(self, key: Key, root: Group | None, owner: Owner, tree: Tree) -> None:
        """Raise BlockedError if the owner cannot be in the tree."""
        if Feature.COMPOSITE_POD_GROUP not in self._gates:
            raise BlockedError(
                EVENT_FEATURE_OFF,
                f"{self._gates.off_text(Feature.COMPOSITE_POD_GROUP)}, which CompositePodGroup "
                f"{key[1]} needs: its pods wait until the gate is on",
            )
        if kind := self._taken(key, root, tree):
            self._waiting.refuse(key, owner_key(owner))
            raise BlockedError(EVENT_NAME_TAKEN, tree_owners.taken(kind, key[1], owner, tree))
        has, wants = None if root is None else shared_below(root.metadata), _shared(owner, tree)
        if root is not None and has is not None and has != wants:
            self._waiting.refuse(key, owner_key(owner))
            text = tree_owners.difference(root, has, owner, wants)
            raise BlockedError(EVENT_TREE_DIFFERS, text)
        if root is not None and self._is_full(root):
            self._waiting.set_aside(key, owner_key(owner))
            raise BlockedError(EVENT_TREE_FULL, tree_owners.full(owner, tree))

    def _is_full(self, root: Group) -> bool:
        there = sum(self._stays(root, it) for it in root.metadata.owner_references)
        return there >= MAX_TREE_OWNERS

    def _taken(self, key: Key, root: Group | None, tree: Tree) -> str:
        """Return the kind of an object of somebody else that has the name; empty if none has."""
        if root is not None:
            has = shared_below(root.metadata)
            if has is None or has.tree.name != tree.name:
                return COMPOSITES.kind
        workload = self._caches.workloads.get(*key)
        uid = "" if root is None else root.metadata.uid
        of_root = ownership.Owner(COMPOSITES, *key, uid).owner_id
        if workload and ownership.ownership(workload.metadata, of_root) is Ownership.FOREIGN:
            return WORKLOADS.kind
        return ""

    async def _create(self, key: Key, asking: Sequence[Candidate]) -> None:
        _, shared = min(asking, key=_age)
        owners = [it for it, wants in asking if wants == shared]
        wanted = root_object(key[0], shared, [tree_owners.reference_to(it) for it in owners])
        # The event of the root wakes its owners, and the others are decided then.
        left = [owner_key(it) for it, wants in asking if wants != shared]
        try:
            with refusals(f"failed to create {COMPOSITES.kind} {key[1]}"):
                made = await self._writer.create(COMPOSITES, wanted)
        except AlreadyExists:
            # The cache is behind. Its event queues the key again.
            self._waiting.ask(key, (owner_key(it) for it, _ in asking))
            return
        self._waiting.ask(key, left)
        await self._ensure_workload(key, made["metadata"]["uid"], shared)

    async def _ensure_workload(self, key: Key, root_uid: str, shared: Shared) -> None:
        if self._caches.workloads.get(*key) is not None:
            return
        root = ownership.Owner(COMPOSITES, *key, root_uid)
        # The groups do not wait for it: until it exists, the scheduler has nothing to compare.
        try:
            await self._writer.create(WORKLOADS, tree_workload(root, shared))
        except AlreadyExists:
            return

    async def _change_list(
        self, root: Group, leaving: Iterable[OwnerReference], coming: Sequence[Owner]
    ) -> None:
        ops, meta = tree_owners.changed_list(root, leaving, coming), root.metadata
        if not ops:
            return
        # Before the request: its event may come before its response.
        self._listed_at[meta.key] = self._clock.monotonic()
        try:
            with refusals(f"failed to change {COMPOSITES.kind} {meta.name}"):
                await self._writer.patch(COMPOSITES, meta.name, ops, meta.namespace)
        except (ApiError, RejectedError):
            self._listed_at.pop(meta.key, None)
            raise

    def _check_cached(self, key: Key) -> None:
        """Raise RequeueError if the cache may lack the latest list.

        By an older one, a tree could get too many owners, or the root could be deleted.
        """
        since = self._clock.monotonic() - self._listed_at.get(key, float("-inf"))
        if since < _LAG_SECONDS:
            raise RequeueError("the list of owners is not in the cache yet", _LAG_SECONDS)

    async def _delete(self, root: Group) -> None:
        """Delete a root without owners and groups. Raises RequeueError if the cache is behind."""
        meta = root.metadata
        for reference in meta.owner_references:
            if await self._exists(meta.namespace, reference):
                raise RequeueError("an owner is not in the cache yet", _ASKED_SECONDS)
        try:
            await self._writer.delete(COMPOSITES, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return

    async def _exists(self, namespace: str, reference: OwnerReference) -> bool:
        """Return True if the API server has an owner that the cache does not have."""
        resource = resource_of(reference)
        if resource is None or self._caches.owners(resource).get(namespace, reference.name):
            return False
        # A deletion cannot be undone, so the API server has the last word.
        try:
            found = await self._writer.get(resource, reference.name, namespace)
        except NotFound:
            return False
        return bool(found["metadata"]["uid"] == reference.uid)

    def _stays(self, root: Group, reference: OwnerReference) -> bool:
        """Return True unless the caches prove that a listed owner is no longer in the tree."""
        resource, shared = resource_of(reference), shared_below(root.metadata)
        if resource is None or not self._caches.is_complete(resource):
            return True
        owner = self._caches.owners(resource).get(root.metadata.namespace, reference.name)
        if owner is None or owner.metadata.uid != reference.uid or shared is None:
            return False
        return tree_of(owner.metadata.annotations) == shared.tree

    def _candidates(self, asking: Iterable[OwnerKey]) -> Iterator[Candidate]:
        """Yield those that are still in a tree, with what they would share."""
        for resource, key in asking:
            owner = self._caches.owners(resource).get(*key)
            tree = None if owner is None else tree_of(owner.metadata.annotations)
            if owner is not None and owner.spec and tree is not None:
                yield owner, _shared(owner, tree)

    def _on_composite(self, old: Group | None, new: Group | None) -> None:
        """Queue a changed root, and owners whose place in the tree may have changed."""
        there = new or old
        if there is None:
            return
        key, before, now = there.metadata.key, listed(old), listed(new)
        if self._waiting.is_asked(key):
            self.controller.queue.add(key)
        if new is None:
            self._listed_at.pop(key, None)
            self._waiting.wake(before.values())
            self._waiting.wake_refused(key)
        elif old is None or before.keys() != now.keys():
            self._listed_at.pop(key, None)
            self._queue_root(new)
            # The number of owners is in the report of each as long as it is too small.
            woken = (it for uid, it in now.items() if uid not in before or not new.scheduled)
            self._waiting.wake(woken)
            self._waiting.wake_surplus(key, MAX_TREE_OWNERS - len(now))
        self._on_child(old, new)

    def _on_child(self, old: Group | None, new: Group | None) -> None:
        """Queue the root of a deleted group: it may have been the last one below it."""
        if new is None and old is not None and old.parent:
            root = self._caches.composites.get(old.metadata.namespace, old.parent)
            if root is not None:
                self._queue_root(root)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Queue the root of a deleted Workload, and owners that its name blocked."""
        if new is not None or old is None:
            return
        key, owner_id = old.metadata.key, created_for(old.metadata)
        self._waiting.wake_refused(key)
        if owner_id is not None and owner_id[:2] == (COMPOSITES.group, COMPOSITES.kind):
            self.controller.queue.add(key)

    def _on_owner(self, resource: Resource, old: Owner | None, new: Owner | None) -> None:
        """Queue the root of an owner that was deleted, replaced, or left the tree."""
        tree = None if old is None else tree_of(old.metadata.annotations)
        if old is None or tree is None:
            return
        same = new is not None and new.metadata.uid == old.metadata.uid
        if same and new is not None and tree_of(new.metadata.annotations) == tree:
            return
        key, _ = self._root_of(old, tree)
        self._waiting.forget(key, (resource, old.metadata.key))
        self.controller.queue.add(key)

    def _queue_root(self, group: Group) -> None:
        if shared_below(group.metadata) is not None:
            self.controller.queue.add(group.metadata.key)


def _shared(owner: Owner, tree: Tree) -> Shared:
    return shared_by(tree, OWNER_KINDS[owner.kind].pod_specs(owner.as_object()))


def _age(candidate: Candidate) -> tuple[float, str, str]:
    owner, _ = candidate
    created = owner.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, owner.kind, owner.metadata.name
