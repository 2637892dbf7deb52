"""Trees of several owners: the controller of their roots, and the place of each owner below one.

A root lists its owners as owner references, so the garbage collector deletes it after the last of
them, whatever the order. The list is also the only record of who is in the tree: an owner reads it
and creates its groups below the root once it is listed, and asks to be listed otherwise. This
controller alone changes the list. It handles all owners that ask in one write, so no two of them
decide at the same time about the last free entry.

The first owners define what all of a tree share (`Shared`). One that differs is refused, as the
priority and the minimum of a tree are those of its root. It tries again when the root is deleted.

The root exists with its first owner. The scheduler starts nothing below it before as many owners
as its minGroupCount can start.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
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
from api.integration.common.objects import priority_of
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
from api.wording import count
from controllers.cache.informers import BY_OWNER, Caches
from controllers.cache.objects import COMPOSITES, WORKLOADS, Group, Owner, Workload
from controllers.groups.group_api import GroupApi, below_root
from controllers.runtime.controller import (
    BlockedError,
    Controller,
    InTheWayError,
    RejectedError,
    RequeueError,
    Writer,
    queue_all,
    refusals,
)
from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, NotFound
from kube.client.meta import Json, Key, OwnerReference
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import Resource

_ASKED_SECONDS: Final = 5.0
"""Seconds until an owner asks again, if no event has reported its place in the tree."""

_DELETION_SECONDS: Final = 10.0
"""Seconds until the next attempt while the root is being deleted, whose event usually comes first.
"""

_LAG_SECONDS: Final = 5.0
"""Seconds for which the cache may lack the latest list of owners, in which no root is deleted."""

_LISTED: Final = ("metadata", "ownerReferences")

Asking = tuple[Resource, Key]
"""Kind and key of an owner."""

Candidate = tuple[Owner, Shared]
"""An owner that asks for a place in a tree, and what it would share with the others."""

_KINDS: Final = {(it.kind.group, it.kind.kind): it.kind for it in OWNER_KINDS.values()}


class Trees:
    """The controller of roots; its keys are theirs."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock, gates: FeatureGates) -> None:
        self.controller: Controller[Key] = Controller("trees", self.reconcile, clock)
        self._caches = caches
        self._writer = writer
        self._clock = clock
        self._gates = gates
        self._queues: dict[Resource, Callable[[Key], None]] = {}
        # Ordered sets of owners, by the key of their root.
        self._asking: dict[Key, dict[Asking, None]] = {}
        self._refused: dict[Key, dict[Asking, None]] = {}
        self._surplus: dict[Key, dict[Asking, None]] = {}
        self._problems: dict[Asking, RejectedError] = {}
        self._listed_at: dict[Key, float] = {}
        caches.composites.subscribe(self._on_composite)
        caches.pod_groups.subscribe(self._on_child)
        caches.workloads.subscribe(self._on_workload)
        for resource in _KINDS.values():
            caches.owners(resource).subscribe(partial(self._on_owner, resource))

    def notify(self, resource: Resource, queue: Callable[[Key], None]) -> None:
        """Call `queue` with the key of each owner of a kind whose place in its tree changed."""
        self._queues[resource] = queue

    async def resync(self) -> None:
        """Queue all roots. Owners that are not listed ask by themselves."""
        await queue_all(self._caches.composites.values(), self._queue_root)

    def api_of(self, owner: Owner, tree: Tree) -> GroupApi:
        """Return the API of an owner whose groups are below the root of its tree.

        Raises BlockedError if the owner cannot be in the tree, InTheWayError while the root is
        being deleted, and RequeueError until the root lists the owner.
        """
        namespace, asking = owner.metadata.namespace, _asking(owner)
        key = (namespace, names.tree_root(namespace, tree.name))
        root = self._caches.composites.get(*key)
        if root is not None and _lists(root, owner):
            self._problems.pop(asking, None)
            self._check_stays(root, owner)
            return below_root(key[1])
        self._check_gate(key[1])
        if reason := self._refusal(key, root, owner, tree):
            self._refused.setdefault(key, {})[asking] = None
            raise BlockedError(*reason)
        if root is not None and self._is_full(root):
            self._surplus.setdefault(key, {})[asking] = None
            raise BlockedError(EVENT_TREE_FULL, _full(tree, owner))
        if problem := self._problems.pop(asking, None):
            raise RejectedError(problem.what, problem.error)
        if root is not None and root.metadata.deletion_timestamp is not None:
            self._refused.setdefault(key, {})[asking] = None
            raise _being_deleted(root)
        self._asking.setdefault(key, {})[asking] = None
        self.controller.queue.add(key)
        raise RequeueError("its tree does not list it yet", _ASKED_SECONDS)

    def waits_for(self, owner: Owner) -> str:
        """Return the message for an owner whose tree has too few owners; else empty."""
        tree, namespace = tree_of(owner.metadata.annotations), owner.metadata.namespace
        root = None
        if tree is not None:
            root = self._caches.composites.get(namespace, names.tree_root(namespace, tree.name))
        if tree is None or root is None or root.scheduled or not _lists(root, owner):
            return ""
        there = len(root.metadata.owner_references)
        missing = _minimum(root, tree) - there
        if missing <= 0:
            return ""
        return (
            f"waits for {count(missing, 'more owner')} of tree {tree.name}: {there} of at least "
            f"{there + missing} exist"
        )

    async def reconcile(self, key: Key) -> None:
        """Create or delete one root and its Workload, and keep its list. Raises kube errors."""
        asking = self._asking.pop(key, {})
        try:
            await self._follow(key, self._owners(asking))
        except RejectedError as fault:
            for it in asking:
                self._problems[it] = fault
                self._wake(it)
            if not asking:
                raise fault.error from fault
        except Exception:
            self._asking.setdefault(key, {}).update(asking)
            raise

    async def _follow(self, key: Key, asking: Sequence[Candidate]) -> None:
        root = self._caches.composites.get(*key)
        if root is None:
            if asking:
                await self._create(key, asking)
            return
        shared = shared_below(root.metadata)
        if shared is None or root.metadata.deletion_timestamp is not None:
            return
        leaving = [it for it in root.metadata.owner_references if not self._stays(root, it)]
        stay = len(root.metadata.owner_references) - len(leaving)
        coming = [it for it, wants in asking if wants == shared and not _lists(root, it)]
        coming = coming[: MAX_TREE_OWNERS - stay]
        if not (stay or coming or self._caches.children(*key)):
            await self._delete(root, leaving)
            return
        await self._list(root, leaving, coming)
        # The event of the root wakes those that are listed now.
        listed = {it.metadata.uid for it in coming}
        self._wake_all(_asking(it) for it, _ in asking if it.metadata.uid not in listed)
        await self._ensure_workload(key, root.metadata.uid, shared)

    def _check_stays(self, root: Group, owner: Owner) -> None:
        # A user may have deleted the root. Existing groups keep it, and follow their owner.
        has_groups = any(
            self._caches.generated_groups[it].by_index(BY_OWNER, owner.as_index)
            for it in self._caches.generated_groups
        )
        if root.metadata.deletion_timestamp is not None and not has_groups:
            raise _being_deleted(root)

    def _check_gate(self, root: str) -> None:
        if Feature.COMPOSITE_POD_GROUP not in self._gates:
            raise BlockedError(
                EVENT_FEATURE_OFF,
                f"{self._gates.off_text(Feature.COMPOSITE_POD_GROUP)}, which CompositePodGroup "
                f"{root} needs: its pods wait until the gate is on",
            )

    def _refusal(
        self, key: Key, root: Group | None, owner: Owner, tree: Tree
    ) -> tuple[str, str] | None:
        """Return reason and message of the event if the owner cannot be in the tree."""
        taken = self._taken(key, root, tree)
        if taken:
            return EVENT_NAME_TAKEN, (
                f"{taken} {key[1]} exists and is not that of tree {tree.name}, so the pods of this "
                f"{owner.kind} wait until it is deleted"
            )
        has = shared_below(root.metadata) if root is not None else None
        if root is None or has is None:
            return None
        wants = _shared(owner, tree)
        return None if has == wants else (EVENT_TREE_DIFFERS, _difference(root, has, owner, wants))

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
        members = [it for it, wants in asking if wants == shared][:MAX_TREE_OWNERS]
        wanted = root_object(key[0], shared, [_reference(it) for it in members])
        try:
            with refusals(f"failed to create {COMPOSITES.kind} {key[1]}"):
                made = await self._writer.create(COMPOSITES, wanted)
        except AlreadyExists:
            # The cache is behind. Its event queues the key again.
            self._ask_again(key, (it for it, _ in asking))
            return
        # The event of the root wakes its owners, and the others are decided then.
        listed = {it.metadata.uid for it in members}
        self._ask_again(key, (it for it, _ in asking if it.metadata.uid not in listed))
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

    def _ask_again(self, key: Key, owners: Iterable[Owner]) -> None:
        self._asking.setdefault(key, {}).update((_asking(it), None) for it in owners)

    async def _list(self, root: Group, leaving: list[OwnerReference], coming: list[Owner]) -> None:
        """Write the changed list of owners."""
        listed, ops = root.metadata.owner_references, PatchBuilder().of_uid(root.metadata.uid)
        # From the end: an index must not change before it is used.
        for at in reversed(range(len(listed))):
            if listed[at] in leaving:
                path = pointer(*_LISTED, at)
                ops.test(f"{path}/uid", listed[at].uid).remove(path)
        references = [_reference(it) for it in coming]
        if listed:
            for it in references:
                ops.add(pointer(*_LISTED, "-"), it)
        elif references:
            # The patch creates the list. Fail if another client has created it in the meantime.
            ops.at_version(root.metadata.resource_version).add(pointer(*_LISTED), references)
        if coming:
            self._listed_at[root.metadata.key] = self._clock.monotonic()
        if leaving or coming:
            name, namespace = root.metadata.name, root.metadata.namespace
            with refusals(f"failed to change {COMPOSITES.kind} {name}"):
                await self._writer.patch(COMPOSITES, name, ops, namespace)

    async def _delete(self, root: Group, listed: list[OwnerReference]) -> None:
        """Delete a root without owners and groups. Raises RequeueError if the cache is behind."""
        namespace = root.metadata.namespace
        listed_at = self._listed_at.get(root.metadata.key)
        if listed_at is not None and self._clock.monotonic() - listed_at < _LAG_SECONDS:
            raise RequeueError("the cache may lack an owner that was just listed", _LAG_SECONDS)
        for reference in listed:
            if await self._exists(namespace, reference):
                raise RequeueError("an owner is not in the cache yet", _ASKED_SECONDS)
        try:
            await self._writer.delete(
                COMPOSITES, root.metadata.name, namespace, uid=root.metadata.uid
            )
        except NotFound:
            return

    async def _exists(self, namespace: str, reference: OwnerReference) -> bool:
        """Return True if the API server has an owner that the cache does not have."""
        resource = _resource(reference)
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
        resource, shared = _resource(reference), shared_below(root.metadata)
        if resource is None or not self._caches.is_complete(resource):
            return True
        owner = self._caches.owners(resource).get(root.metadata.namespace, reference.name)
        if owner is None or owner.metadata.uid != reference.uid or shared is None:
            return False
        return tree_of(owner.metadata.annotations) == shared.tree

    def _owners(self, asking: Iterable[Asking]) -> list[Candidate]:
        """Return those that are still in a tree, with what they would share."""
        found = []
        for resource, key in asking:
            owner = self._caches.owners(resource).get(*key)
            tree = None if owner is None else tree_of(owner.metadata.annotations)
            if owner is not None and owner.spec and tree is not None:
                found.append((owner, _shared(owner, tree)))
        return found

    def _on_composite(self, old: Group | None, new: Group | None) -> None:
        """Queue a changed root, and owners whose place in the tree may have changed."""
        there = new or old
        if there is None:
            return
        key, before, now = there.metadata.key, _listed(old), _listed(new)
        if key in self._asking:
            self.controller.queue.add(key)
        if new is None:
            self._listed_at.pop(key, None)
            self._wake_all([*before.values(), *self._no_longer_refused(key)])
        elif old is None or before.keys() != now.keys():
            self._queue_root(new)
            # The number of owners is in the report of each as long as it is too small.
            told = {uid: it for uid, it in now.items() if uid not in before or not new.scheduled}
            self._wake_all(told.values())
            self._wake_surplus(key, MAX_TREE_OWNERS - len(now))
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
        key = old.metadata.key
        self._wake_all(self._no_longer_refused(key))
        owner_id = created_for(old.metadata)
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
        namespace, asking = old.metadata.namespace, (resource, old.metadata.key)
        key = (namespace, names.tree_root(namespace, tree.name))
        self._problems.pop(asking, None)
        for waiting in (self._asking, self._refused, self._surplus):
            waiting.get(key, {}).pop(asking, None)
            if not waiting.get(key, {asking}):
                del waiting[key]
        self.controller.queue.add(key)

    def _queue_root(self, group: Group) -> None:
        if shared_below(group.metadata) is not None:
            self.controller.queue.add(group.metadata.key)

    def _no_longer_refused(self, key: Key) -> list[Asking]:
        return [*self._refused.pop(key, ()), *self._surplus.pop(key, ())]

    def _wake_surplus(self, key: Key, free: int) -> None:
        """Queue as many owners of a full tree as it has places now."""
        surplus = self._surplus.get(key, {})
        # Not all of them: a user may have created thousands.
        for it in list(islice(surplus, max(0, free))):
            del surplus[it]
            self._wake(it)

    def _wake_all(self, owners: Iterable[Asking]) -> None:
        for it in owners:
            self._wake(it)

    def _wake(self, asking: Asking) -> None:
        resource, key = asking
        # The controller of the kind does not run if its feature gate is off.
        if resource in self._queues:
            self._queues[resource](key)


def _asking(owner: Owner) -> Asking:
    return owner.resource, owner.metadata.key


def _age(candidate: Candidate) -> tuple[float, str, str]:
    owner, _ = candidate
    created = owner.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, owner.kind, owner.metadata.name


def _shared(owner: Owner, tree: Tree) -> Shared:
    found = OWNER_KINDS[owner.kind].pod_specs(owner.as_object())
    named = priority_of(*(spec for _, spec in found)).get("priorityClassName", "")
    return Shared(tree, named)


def _lists(root: Group, owner: Owner) -> bool:
    uid = owner.metadata.uid
    listed = any(it.uid == uid for it in root.metadata.owner_references)
    return listed and shared_below(root.metadata) is not None


def _listed(root: Group | None) -> dict[str, Asking]:
    """Return the owners of a root by UID; none for another group."""
    if root is None or shared_below(root.metadata) is None:
        return {}
    meta = root.metadata
    found = ((it, _resource(it)) for it in meta.owner_references)
    return {it.uid: (kind, (meta.namespace, it.name)) for it, kind in found if kind is not None}


def _resource(reference: OwnerReference) -> Resource | None:
    return _KINDS.get((reference.api_version.rpartition("/")[0], reference.kind))


def _reference(owner: Owner) -> Json:
    """Return the entry of an owner in the list. No owner controls the root, nor waits for it."""
    meta, resource = owner.metadata, owner.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
    }


def _minimum(root: Group, tree: Tree) -> int:
    """Return minGroupCount, which a user may have changed on the root."""
    gang = root.policy.get("gang")
    return (gang.get("minGroupCount") if isinstance(gang, dict) else None) or tree.minimum


def _being_deleted(root: Group) -> InTheWayError:
    what = f"{COMPOSITES.kind} {root.metadata.name}"
    return InTheWayError(
        f"{what} is being deleted, and then Muster recreates it", _DELETION_SECONDS
    )


def _full(tree: Tree, owner: Owner) -> str:
    return (
        f"tree {tree.name} has {MAX_TREE_OWNERS} owners, and cannot have more: delete another one, "
        f"or recreate this {owner.kind} with another name for its tree"
    )


def _difference(root: Group, has: Shared, owner: Owner, wants: Shared) -> str:
    first = next(iter(root.metadata.owner_references), None)
    whose = f"{first.kind} {first.name}" if first is not None else f"the root {root.metadata.name}"
    return (
        f"{whose} has {has}, and this {owner.kind} {wants}: use the same for all owners of tree "
        f"{has.tree.name}, or recreate this {owner.kind} with another name for its tree"
    )
