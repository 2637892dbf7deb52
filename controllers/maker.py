"""Makes the objects of one Job or JobSet: the Workload, then groups from the root to the leaves.

An object of the wanted name that is not the owner's is never adopted or changed. If it is on its
way out (being deleted, or left by an owner of the same name that is gone) it is waited for;
otherwise a Workload takes its hashed name, and a group, which pods name already, stays unmade.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Final

import msgspec
import structlog

from api import names
from api.constants import (
    ANNOTATION_FLOOR_BASIS,
    COMPOSITE_POD_GROUP,
    EVENT_NAME_TAKEN,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    WORKLOAD,
)
from controllers.objects import COMPOSITES, OWNERS, POD_GROUPS, WORKLOADS, Group, Owner
from controllers.runtime import NotYetError, Writer, bounded
from controllers.world import BY_OWNER, World
from kube.clock import Clock
from kube.errors import AlreadyExists, NotFound
from kube.events import ObjectReference, Recorder
from kube.meta import Json, Key, ObjectMeta, Partial, decode_partial
from kube.patch import PatchBuilder, pointer
from kube.resources import Resource

_CREATES_AT_ONCE: Final = 16
# How long a created object may take to show up in the cache before it is asked for again.
_SEEN_WITHIN: Final = 5.0
# The event that an object is gone brings its owner back; this is only in case it is lost.
_GONE_WITHIN: Final = 10.0

Formula = Callable[[str | None], list[Json]]
"""The wanted objects, Workload first, for a Workload of the given name (None: the usual one)."""

Slot = tuple[str, Key]
"""The kind and key of an object."""

_log = structlog.get_logger()


class _Standing(Enum):
    """Whose an object of a wanted name is."""

    OURS = auto()
    PASSING = auto()
    FOREIGN = auto()


class Maker:
    """Creates and corrects generated objects, and remembers whose names are taken."""

    def __init__(self, world: World, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        """`recorder` tells owners of names that are taken."""
        self._world = world
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._made: dict[Slot, tuple[float, ObjectMeta]] = {}
        self._blocked: dict[Slot, set[tuple[str, Key]]] = {}

    async def ensure(self, owner: Owner, formula: Formula) -> None:
        """Make what is missing, correct floors. Raises NotYetError, kube errors."""
        workload = await self._workload(owner, formula)
        if workload is None:
            return
        reference = _owner_reference(workload)
        leaves = []
        wanted = formula(workload.name)
        for obj in wanted[1:]:
            obj["metadata"]["ownerReferences"].append(reference)
            if obj["kind"] == COMPOSITE_POD_GROUP.kind:
                await self._group(COMPOSITES, owner, obj)
            else:
                leaves.append(obj)
        await bounded(
            [partial(self._group, POD_GROUPS, owner, it) for it in leaves], _CREATES_AT_ONCE
        )
        if any((obj["kind"], _key(obj)) in self._made for obj in wanted):
            # Deleted before it was ever seen, an object would be missed by nobody.
            raise NotYetError("created objects are not seen yet", _SEEN_WITHIN)

    async def remove_groups(self, owner: Owner) -> None:
        """Delete the owner's groups, leaves first, if no active pod names one of them."""
        namespace = owner.metadata.namespace
        leaves = self._world.pod_groups.by_index(BY_OWNER, owner.metadata.uid)
        if any(self._world.has_pods(namespace, leaf.metadata.name) for leaf in leaves):
            return
        composites = self._world.composites.by_index(BY_OWNER, owner.metadata.uid)
        for resource, groups in ((POD_GROUPS, leaves), (COMPOSITES, composites)):
            await bounded(
                [
                    partial(self._delete, resource, group.metadata)
                    for group in groups
                    if group.metadata.deletion_timestamp is None
                ],
                _CREATES_AT_ONCE,
            )

    def seen(self, slot: Slot) -> None:
        """A created object is in the cache: what is remembered of it may go."""
        self._made.pop(slot, None)

    def gone(self, slot: Slot, kind: str) -> list[Key]:
        """An object is gone and may be made again; the owners of `kind` that its name blocked."""
        self._made.pop(slot, None)
        waiting = self._blocked.get(slot, set())
        freed = {owner for owner in waiting if owner[0] == kind}
        waiting -= freed
        if not waiting:
            self._blocked.pop(slot, None)
        return sorted(key for _, key in freed)

    async def _workload(self, owner: Owner, formula: Formula) -> ObjectMeta | None:
        """The owner's Workload, None where both of its names are taken."""
        for mine in self._world.workloads.by_index(BY_OWNER, owner.metadata.uid):
            if mine.metadata.deletion_timestamp is not None:
                raise NotYetError(f"Workload {mine.metadata.name} is being deleted", _GONE_WITHIN)
            return mine.metadata
        wanted = formula(None)[0]
        made = await self._create(WORKLOADS, owner, wanted)
        if made is None:
            usual = wanted["metadata"]["name"]
            other = names.hashed(usual, WORKLOAD.kind, owner.metadata.namespace)
            made = await self._create(WORKLOADS, owner, formula(other)[0])
            if made is None:
                self._taken(owner, WORKLOADS, other)
        return made

    async def _group(self, resource: Resource, owner: Owner, wanted: Json) -> None:
        namespace, name = _key(wanted)
        found = self._world.groups(resource.kind).get(namespace, name)
        if found is None:
            if await self._create(resource, owner, wanted) is None:
                self._taken(owner, resource, name)
            return
        if self._stands(owner, found.metadata) is _Standing.FOREIGN:
            self._taken(owner, resource, name)
            return
        ops = _corrections(found, wanted)
        if ops:
            await self._writer.patch(resource, name, ops.of_uid(found.metadata.uid), namespace)

    async def _create(self, resource: Resource, owner: Owner, wanted: Json) -> ObjectMeta | None:
        """The owner's object, just created or there already; None if the name is another's."""
        namespace, name = _key(wanted)
        slot = (resource.kind, (namespace, name))
        made = self._made.get(slot)
        if made is not None and self._is_fresh(made, owner):
            return made[1]
        try:
            live = await self._writer.create(resource, wanted)
        except AlreadyExists:
            live = await self._there(resource, name, namespace)
        meta = decode_partial(msgspec.json.encode(live)).metadata
        if self._stands(owner, meta) is _Standing.FOREIGN:
            return None
        if self._cached(resource, meta.key) is None:
            self._made[slot] = (self._clock.monotonic(), meta)
        return meta

    async def _there(self, resource: Resource, name: str, namespace: str) -> Json:
        try:
            return await self._writer.get(resource, name, namespace)
        except NotFound as gone:
            raise NotYetError(f"{resource.kind} {name} was just deleted", 0.1) from gone

    def _cached(self, resource: Resource, key: Key) -> Group | Partial | None:
        if resource == WORKLOADS:
            return self._world.workloads.get(*key)
        return self._world.groups(resource.kind).get(*key)

    async def _delete(self, resource: Resource, meta: ObjectMeta) -> None:
        try:
            await self._writer.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return

    def _is_fresh(self, made: tuple[float, ObjectMeta], owner: Owner) -> bool:
        at, meta = made
        controller = meta.controller
        mine = controller is not None and controller.uid == owner.metadata.uid
        return mine and self._clock.monotonic() - at < _SEEN_WITHIN

    def _stands(self, owner: Owner, meta: ObjectMeta) -> _Standing:
        """OURS or FOREIGN. Raises NotYetError for an object that is on its way out."""
        standing = _standing(owner, meta)
        if standing is _Standing.PASSING:
            raise NotYetError(f"{meta.name} is left from before and goes first", _GONE_WITHIN)
        return standing

    def _taken(self, owner: Owner, resource: Resource, name: str) -> None:
        """Tell the owner once; its pods stay held until the name is free."""
        key = owner.metadata.key
        slot = (resource.kind, (owner.metadata.namespace, name))
        waiting = self._blocked.setdefault(slot, set())
        if (owner.kind, key) in waiting:
            return
        waiting.add((owner.kind, key))
        _log.warning("name taken", kind=resource.kind, namespace=key[0], name=name, owner=key[1])
        self._recorder.event(
            ObjectReference.of(OWNERS[owner.kind], owner.metadata),
            "Warning",
            EVENT_NAME_TAKEN,
            f"{resource.kind} {name} exists and is not this {owner.kind}'s: its pods wait until "
            "that object is deleted",
        )


def _standing(owner: Owner, meta: ObjectMeta) -> _Standing:
    controller = meta.controller
    mine = controller is not None and controller.uid == owner.metadata.uid
    if meta.deletion_timestamp is not None:
        return _Standing.PASSING
    if mine:
        return _Standing.OURS
    if controller is None or meta.labels.get(LABEL_MANAGED_BY) != MANAGED_BY:
        return _Standing.FOREIGN
    # Made for a namesake that is gone: the garbage collector is about to take it.
    namesake = (controller.kind, controller.name) == (owner.kind, owner.metadata.name)
    return _Standing.PASSING if namesake else _Standing.FOREIGN


def _corrections(found: Group, wanted: Json) -> PatchBuilder:
    """What may change on a live group: its floor, with the note of what it was computed from."""
    ops = PatchBuilder()
    basis = wanted["metadata"].get("annotations", {}).get(ANNOTATION_FLOOR_BASIS)
    if basis is not None and found.metadata.annotations.get(ANNOTATION_FLOOR_BASIS) == basis:
        return ops
    for floor, value in _floor(wanted["spec"]["schedulingPolicy"]):
        gang = found.policy.get("gang")
        if isinstance(gang, dict) and gang.get(floor) != value:
            ops.add(pointer("spec", "schedulingPolicy", "gang", floor), value)
    if basis is not None:
        _note(ops, found.metadata, basis)
    return ops


def _note(ops: PatchBuilder, meta: ObjectMeta, basis: str) -> None:
    if meta.annotations:
        ops.add(pointer("metadata", "annotations", ANNOTATION_FLOOR_BASIS), basis)
    else:
        ops.add("/metadata/annotations", {ANNOTATION_FLOOR_BASIS: basis})


def _floor(policy: Json) -> Iterator[tuple[str, int]]:
    yield from policy.get("gang", {}).items()


def _key(obj: Json) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _owner_reference(workload: ObjectMeta) -> Json:
    """The plain reference to the Workload, beside the controlling one to the Job or JobSet."""
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "name": workload.name,
        "uid": workload.uid,
    }
