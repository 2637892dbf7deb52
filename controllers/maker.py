"""Makes the objects of one Job or JobSet: the Workload, then groups from the root to the leaves.

A Workload that a user made for the owner is respected: groups come from its templates. An object
of the wanted name that is not the owner's is never adopted or changed. If it is on its way out
(being deleted, or left by an owner of the same name that is gone) it is waited for; otherwise a
Workload takes its hashed name, and a group, which pods name already, stays unmade (admission avoids
the names that are taken then).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from api import names
from api.constants import (
    ANNOTATION_FLOOR_BASIS,
    ANNOTATION_SCHEDULE_TIMEOUT,
    COMPOSITE_POD_GROUP,
    EVENT_NAME_TAKEN,
    EVENT_TEMPLATE_NOT_FOUND,
    EVENT_WORKLOAD_CONFLICT,
    WORKLOAD,
)
from api.integration.templates import TemplateNotFoundError, adapt
from api.ownership import Standing, made_for, standing
from controllers.objects import COMPOSITES, POD_GROUPS, WORKLOADS, Group, Owner, Workload
from controllers.runtime import HeldError, NotYetError, Writer, bounded
from controllers.world import BY_OWNER, World
from kube.clock import Clock
from kube.errors import AlreadyExists, NotFound
from kube.meta import Json, Key, ObjectMeta, decode_partial
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


class Maker:
    """Creates and corrects generated objects, and remembers whose names are taken."""

    def __init__(self, world: World, writer: Writer, clock: Clock) -> None:
        """`world` is read, and the same world's subscribers tell it what is seen and gone."""
        self._world = world
        self._writer = writer
        self._clock = clock
        self._made: dict[Slot, tuple[float, ObjectMeta]] = {}
        self._blocked: dict[tuple[Slot, Resource], set[Key]] = {}

    async def ensure(self, owner: Owner, formula: Formula) -> None:
        """Make what is missing, correct floors. Raises NotYetError, HeldError, kube errors."""
        theirs = self._users_workload(owner)
        if theirs is not None:
            groups = _from_templates(formula, theirs)
            await self.ensure_groups(owner, groups, theirs.metadata)
            await self._remove_surplus(owner, groups)
            return
        workload = await self._workload(owner, formula)
        wanted = formula(workload.name)
        await self._correct_templates(workload, wanted[0])
        await self.ensure_groups(owner, wanted[1:], workload)
        await self._remove_surplus(owner, wanted[1:])
        self._all_seen(wanted[:1])

    async def ensure_groups(
        self, owner: Owner, wanted: list[Json], workload: ObjectMeta | None = None
    ) -> None:
        """Make groups that are missing, root first, and correct their floors.

        Each gets a plain reference to `workload`. Raises as `ensure` does.
        """
        taken: list[str] = []
        leaves = []
        for obj in wanted:
            if workload is not None:
                obj["metadata"]["ownerReferences"].append(_owner_reference(workload))
            if obj["kind"] == COMPOSITE_POD_GROUP.kind:
                await self._group(COMPOSITES, owner, obj, taken)
            else:
                leaves.append(obj)
        await bounded(
            [partial(self._group, POD_GROUPS, owner, it, taken) for it in leaves],
            _CREATES_AT_ONCE,
        )
        if taken:
            raise HeldError(EVENT_NAME_TAKEN, min(taken))
        self._all_seen(wanted)

    async def remove_groups(self, owner: Owner) -> None:
        """Delete the owner's groups, leaves first, if no active pod names one of them."""
        leaves = self._world.pod_groups.by_index(BY_OWNER, owner.metadata.uid)
        if not any(self._world.is_held(POD_GROUPS.kind, leaf) for leaf in leaves):
            await self._remove_surplus(owner, [])

    async def _remove_surplus(self, owner: Owner, wanted: list[Json]) -> None:
        """Delete the owner's groups that are not wanted and that nobody uses, leaves first.

        A deletion cannot be taken back: an owner that grows again soon keeps what pods use.
        """
        names_wanted = {(obj["kind"], obj["metadata"]["name"]) for obj in wanted}
        for resource in (POD_GROUPS, COMPOSITES):
            groups = self._world.groups(resource.kind).by_index(BY_OWNER, owner.metadata.uid)
            await bounded(
                [
                    partial(self._delete, resource, group.metadata)
                    for group in groups
                    if (resource.kind, group.metadata.name) not in names_wanted
                    and group.metadata.deletion_timestamp is None
                    and not self._world.is_held(resource.kind, group)
                ],
                _CREATES_AT_ONCE,
            )

    def seen(self, slot: Slot) -> None:
        """A created object is in the cache: what is remembered of it may go."""
        self._made.pop(slot, None)

    def gone(self, slot: Slot, resource: Resource) -> list[Key]:
        """An object is gone and may be made again; the owners of a kind that its name blocked."""
        return sorted(self._blocked.pop((slot, resource), ()))

    def ignored(self, owner: Owner) -> str:
        """What to tell of Workloads that users made after the owner's own; empty for none."""
        theirs = self._theirs(owner)
        if not theirs or not self._world.workloads.by_index(BY_OWNER, owner.metadata.uid):
            return ""
        return (
            f"Workload {_listed(theirs)} has no effect: it came after the one that Muster made for "
            f"this {owner.kind}. Delete it, or make the {owner.kind} again while it is there"
        )

    def _users_workload(self, owner: Owner) -> Workload | None:
        """The one Workload that a user made for the owner, unless one of ours is there already."""
        if self._world.workloads.by_index(BY_OWNER, owner.metadata.uid):
            return None
        found = self._theirs(owner)
        if len(found) > 1:
            raise HeldError(
                EVENT_WORKLOAD_CONFLICT,
                f"Workloads {_listed(found)} both name this {owner.kind} in spec.controllerRef: "
                "its pods wait until all but one are deleted",
            )
        return found[0] if found else None

    def _theirs(self, owner: Owner) -> list[Workload]:
        """The Workloads that users made for the owner."""
        namespace, name = owner.metadata.key
        found = self._world.workloads_for(namespace, owner.resource.group, owner.kind, name)
        return [it for it in found if made_for(it.metadata) is None]

    async def _workload(self, owner: Owner, formula: Formula) -> ObjectMeta:
        """The owner's own Workload, made if need be."""
        for mine in self._world.workloads.by_index(BY_OWNER, owner.metadata.uid):
            if mine.metadata.deletion_timestamp is not None:
                raise NotYetError(f"Workload {mine.metadata.name} is being deleted", _GONE_WITHIN)
            return mine.metadata
        wanted = formula(None)[0]
        made = await self._create(WORKLOADS, owner, wanted)
        if made is not None:
            return made
        other = names.hashed(wanted["metadata"]["name"], WORKLOAD.kind, owner.metadata.namespace)
        made = await self._create(WORKLOADS, owner, formula(other)[0])
        if made is None:
            raise HeldError(EVENT_NAME_TAKEN, self._taken(owner, WORKLOADS, other))
        return made

    async def _correct_templates(self, workload: ObjectMeta, wanted: Json) -> None:
        """Let the floors of our own Workload's templates follow what its owner says now."""
        there = self._world.workloads.get(*workload.key)
        if there is None:
            return
        ops = PatchBuilder()
        _correct_floors(ops, ("spec",), there.as_object()["spec"], wanted["spec"])
        if ops:
            await self._writer.patch(
                WORKLOADS, workload.name, ops.of_uid(workload.uid), workload.namespace
            )

    async def _group(
        self, resource: Resource, owner: Owner, wanted: Json, taken: list[str]
    ) -> None:
        namespace, name = _key(wanted)
        found = self._world.groups(resource.kind).get(namespace, name)
        if found is None:
            if await self._create(resource, owner, wanted) is None:
                taken.append(self._taken(owner, resource, name))
            return
        if not self._is_ours(owner, found.metadata):
            taken.append(self._taken(owner, resource, name))
            return
        ops = _corrections(found, wanted)
        if ops:
            await self._writer.patch(resource, name, ops.of_uid(found.metadata.uid), namespace)

    def _all_seen(self, objects: list[Json]) -> None:
        if any((obj["kind"], _key(obj)) in self._made for obj in objects):
            # Deleted before it was ever seen, an object would be missed by nobody.
            raise NotYetError("created objects are not seen yet", _SEEN_WITHIN)

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
            live = await self._writer.get(resource, name, namespace)
        meta = decode_partial(msgspec.json.encode(live)).metadata
        if not self._is_ours(owner, meta):
            return None
        if self._cached(resource, meta.key) is None:
            self._made[slot] = (self._clock.monotonic(), meta)
        return meta

    def _cached(self, resource: Resource, key: Key) -> Group | Workload | None:
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
        return made_for(meta) == owner.maker and self._clock.monotonic() - at < _SEEN_WITHIN

    def _is_ours(self, owner: Owner, meta: ObjectMeta) -> bool:
        """Whether it is the owner's. Raises NotYetError for an object that is on its way out."""
        found = standing(meta, owner.maker)
        if found is Standing.PASSING:
            raise NotYetError(f"{meta.name} is left from before and goes first", _GONE_WITHIN)
        return found is Standing.OURS

    def _taken(self, owner: Owner, resource: Resource, name: str) -> str:
        """Remember who waits for a name; what is to be told the owner."""
        key = owner.metadata.key
        slot = (resource.kind, (owner.metadata.namespace, name))
        self._blocked.setdefault((slot, owner.resource), set()).add(key)
        return (
            f"{resource.kind} {name} exists and is not this {owner.kind}'s: its pods wait until "
            "that object is deleted"
        )


def _corrections(found: Group, wanted: Json) -> PatchBuilder:
    """What may change on a live group: the floor with the note of its basis, and its time."""
    ops = PatchBuilder()
    _retime(ops, found.metadata.annotations, wanted["metadata"]["annotations"])
    basis = wanted["metadata"]["annotations"].get(ANNOTATION_FLOOR_BASIS)
    if basis is not None and found.metadata.annotations.get(ANNOTATION_FLOOR_BASIS) == basis:
        return ops
    for floor, value in _floor(wanted["spec"]["schedulingPolicy"]):
        gang = found.policy.get("gang")
        if isinstance(gang, dict) and gang.get(floor) != value:
            ops.add(pointer("spec", "schedulingPolicy", "gang", floor), value)
    if basis is not None:
        ops.add(pointer("metadata", "annotations", ANNOTATION_FLOOR_BASIS), basis)
    return ops


def _retime(ops: PatchBuilder, live: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    path = pointer("metadata", "annotations", ANNOTATION_SCHEDULE_TIMEOUT)
    said = wanted.get(ANNOTATION_SCHEDULE_TIMEOUT)
    if said == live.get(ANNOTATION_SCHEDULE_TIMEOUT):
        return
    if said is None:
        ops.remove(path)
    else:
        ops.add(path, said)


def _correct_floors(
    ops: PatchBuilder, path: tuple[str | int, ...], live: Json, wanted: Json
) -> None:
    """Add what makes the floors of live templates those wanted.

    Lists pair by position: replicatedJobs and subsets are neither renamed nor moved.
    """
    for key in ("podGroupTemplates", "compositePodGroupTemplates"):
        pairs = zip(live.get(key) or [], wanted.get(key) or [], strict=False)
        for at, (there, said) in enumerate(pairs):
            here = (*path, key, at)
            for floor, value in _floor(said["schedulingPolicy"]):
                if (there.get("schedulingPolicy") or {}).get("gang", {}).get(floor) != value:
                    ops.add(pointer(*here, "schedulingPolicy", "gang", floor), value)
            _correct_floors(ops, here, there, said)


def _from_templates(formula: Formula, workload: Workload) -> list[Json]:
    try:
        return adapt(formula(workload.metadata.name)[1:], workload.as_object())
    except TemplateNotFoundError as error:
        raise HeldError(EVENT_TEMPLATE_NOT_FOUND, str(error)) from error


def _floor(policy: Json) -> Iterator[tuple[str, int]]:
    yield from policy.get("gang", {}).items()


def _listed(workloads: list[Workload]) -> str:
    return " and ".join(sorted(it.metadata.name for it in workloads))


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
