"""The list of owners of a tree, and the messages for an owner that cannot be in it: pure functions.

The list is the owner references of the root.
"""

from collections.abc import Iterable
from typing import Final

from api.constants import MAX_TREE_OWNERS
from api.integration.common.trees import Shared, Tree, shared_below
from api.integration.kinds import OWNER_KINDS
from api.wording import count
from controllers.cache.objects import COMPOSITES, Group, Owner
from controllers.runtime.controller import InTheWayError
from kube.client.meta import Json, Key, OwnerReference
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import Resource

_DELETION_SECONDS: Final = 10.0
"""Seconds until the next attempt while the root is being deleted, whose event usually comes first.
"""

KINDS: Final = {(it.kind.group, it.kind.kind): it.kind for it in OWNER_KINDS.values()}
"""The kinds that can be in a tree, by API group and name."""

OwnerKey = tuple[Resource, Key]
"""Kind and key of an owner."""

_LIST: Final = ("metadata", "ownerReferences")


def owner_key(owner: Owner) -> OwnerKey:
    """Return kind and key of an owner."""
    return owner.resource, owner.metadata.key


def lists(root: Group | None, owner: Owner) -> bool:
    """Return True if the group is the root of a tree with this owner."""
    if root is None or shared_below(root.metadata) is None:
        return False
    return any(it.uid == owner.metadata.uid for it in root.metadata.owner_references)


def listed(root: Group | None) -> dict[str, OwnerKey]:
    """Return the owners of a root by UID; none for another group."""
    if root is None or shared_below(root.metadata) is None:
        return {}
    meta = root.metadata
    found = ((it, resource_of(it)) for it in meta.owner_references)
    return {it.uid: (kind, (meta.namespace, it.name)) for it, kind in found if kind is not None}


def resource_of(reference: OwnerReference) -> Resource | None:
    """Return the kind of a listed owner; None for one that no controller handles."""
    return KINDS.get((reference.api_version.rpartition("/")[0], reference.kind))


def reference_to(owner: Owner) -> Json:
    """Return the entry of an owner. It does not control the root, nor does its deletion wait."""
    meta, resource = owner.metadata, owner.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
    }


def changed_list(
    root: Group, leaving: Iterable[OwnerReference], coming: Iterable[Owner]
) -> PatchBuilder:
    """Return the patch that removes and adds owners; empty without a change."""
    uids, there = {it.uid for it in leaving}, root.metadata.owner_references
    ops, new = PatchBuilder(), [reference_to(it) for it in coming]
    # From the end: an index must not change before it is used.
    for at in reversed(range(len(there))):
        if there[at].uid in uids:
            path = pointer(*_LIST, at)
            ops.test(f"{path}/uid", there[at].uid).remove(path)
    if there:
        for it in new:
            ops.add(pointer(*_LIST, "-"), it)
    elif new:
        # The patch creates the list. Fail if another client has created it in the meantime.
        ops.at_version(root.metadata.resource_version).add(pointer(*_LIST), new)
    return PatchBuilder([*PatchBuilder().of_uid(root.metadata.uid), *ops]) if ops else ops


def missing_owners(root: Group | None, owner: Owner, tree: Tree) -> str:
    """Return the message for an owner whose tree has too few owners to start; else empty."""
    if root is None or root.scheduled or not lists(root, owner):
        return ""
    there = len(root.metadata.owner_references)
    missing = _minimum(root, tree) - there
    if missing <= 0:
        return ""
    return (
        f"waits for {count(missing, 'more owner')} of tree {tree.name}: {there} of at least "
        f"{there + missing} exist"
    )


def being_deleted(root: Group) -> InTheWayError:
    """Return the error for an owner that needs the root while it is being deleted."""
    what = f"{COMPOSITES.kind} {root.metadata.name}"
    return InTheWayError(
        f"{what} is being deleted, and then Muster recreates it", _DELETION_SECONDS
    )


def taken(kind: str, name: str, owner: Owner, tree: Tree) -> str:
    """Return the message for an owner while an object of a user has the name of the root."""
    return (
        f"{kind} {name} exists and is not that of tree {tree.name}, so the pods of this "
        f"{owner.kind} wait until it is deleted"
    )


def full(owner: Owner, tree: Tree) -> str:
    """Return the message for an owner of a tree that has all the owners that it can have."""
    return (
        f"tree {tree.name} has {MAX_TREE_OWNERS} owners, and cannot have more: delete another one, "
        f"or recreate this {owner.kind} with another name for its tree"
    )


def difference(root: Group, has: Shared, owner: Owner, wants: Shared) -> str:
    """Return the message for an owner that differs from the others of its tree."""
    first = next(iter(root.metadata.owner_references), None)
    whose = f"{first.kind} {first.name}" if first is not None else f"the root {root.metadata.name}"
    return (
        f"{whose} has {has}, and this {owner.kind} {wants}: use the same for all owners of tree "
        f"{has.tree.name}, or recreate this {owner.kind} with another name for its tree"
    )


def _minimum(root: Group, tree: Tree) -> int:
    """Return minGroupCount, which a user may have changed on the root."""
    gang = root.policy.get("gang")
    return (gang.get("minGroupCount") if isinstance(gang, dict) else None) or tree.minimum
