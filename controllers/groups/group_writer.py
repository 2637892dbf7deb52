"""The writer of the objects of one owner: the Workload, then groups from the root to the leaves.

The writer respects a Workload that a user created for the owner. Groups then come from its
templates, and are still deleted with their owner.

The writer never adopts or changes an object that is not the owner's. If such an object has a wanted
name and is going to be deleted (it has a deletion timestamp, or a deleted owner of the same name
left it behind), the controller waits. Otherwise a Workload gets a hashed name. A group does, too,
if its pods state their owner's UID: pods name the group already, so it stands for the name that
they give (admission avoids names that are taken at that time). Groups of other owners are not
created.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from api import features, names
from api.constants import (
    ANNOTATION_MIN_COUNT_BASIS,
    COMPOSITE_POD_GROUP,
    EVENT_FEATURE_OFF,
    EVENT_NAME_TAKEN,
    EVENT_TEMPLATE_NOT_FOUND,
    EVENT_WORKLOAD_CONFLICT,
    GROUP,
    WORKLOAD,
)
from api.features import Feature, FeatureGates
from api.integration.common.holding import hold_notes
from api.integration.common.minimum import GroupPodCounts, remaining, with_minimum
from api.integration.common.templates import TemplateNotFoundError, adapt
from api.integration.common.trees import tree_of
from api.ownership import Ownership, created_for, ownership
from api.rules.feature_use import uses_of
from api.wording import count
from controllers.cache.informers import BY_OWNER, Caches
from controllers.cache.objects import (
    COMPOSITES,
    JOBS,
    JOBSETS,
    NATIVE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Owner,
    Workload,
)
from controllers.groups.corrections import correct_minimums, corrections
from controllers.groups.group_api import MUSTER, GroupApi
from controllers.groups.releases import release_expected_pods, release_minimum
from controllers.groups.wanted_groups import below, expecting, pods_name_of, substitute_group
from controllers.runtime.controller import (
    BlockedError,
    InTheWayError,
    RequeueError,
    Writer,
    bounded,
    refusals,
)
from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, NotFound
from kube.client.meta import Json, Key, ObjectMeta, decode_partial
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource

# The client's connections are shared by all controllers, so one large JobSet must not occupy all of
# them.
_CREATES_AT_ONCE: Final = 16
"""Groups of one owner that are created at a time."""

_KNOWN_TO_PODS: Final = (JOBS, JOBSETS)
"""Owners whose UID their pods carry, so that pods find their group under another name."""
# After this time the writer requests the object again: it may have been deleted before the cache
# had it.
_CACHE_LAG_SECONDS: Final = 5.0
"""Seconds for which the cache may lack a created object, and until the next attempt."""

# The deletion event of the object queues its owner. This wait covers a lost event.
_DELETION_SECONDS: Final = 10.0
"""Seconds until the next attempt if an object of the name is being deleted."""

NO_POD_COUNTS: Final[Mapping[str, GroupPodCounts]] = {}
"""The standings of an owner whose groups keep the minCount of their templates."""

NOTHING_EXPECTED: Final[Mapping[str, list[Json]]] = {}
"""The expected pods of an owner that creates all of its pods at once."""

Slot = tuple[Resource, Key]
"""Kind and key of an object."""

_RESOURCES: Final = {
    (it.api_version, it.kind): it for it in (WORKLOADS, POD_GROUPS, COMPOSITES, NATIVE_POD_GROUPS)
}

WantedObjects = Callable[[str | None], list[Json]]
"""A function from the name of a Workload (None: the usual one) to the wanted objects, it first."""


class GroupWriter:
    """The writer of generated objects, which remembers the owners that wait for a taken name."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        clock: Clock,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Read from `caches`, whose subscribers call `seen` and `gone`.

        The writer creates nothing that uses a feature which `gates` turns off. `expects` is True if
        groups may get expected pods.
        """
        self._gates = gates
        self.expects = Feature.EXPECTED_PODS in gates
        self._caches = caches
        self._writer = writer
        self._clock = clock
        self._created: dict[Slot, tuple[float, ObjectMeta]] = {}
        self._deleted_at: dict[str, float] = {}  # by UID, until they are gone
        self._blocked: dict[tuple[Slot, Resource], set[Key]] = {}

    async def ensure(
        self,
        owner: Owner,
        wanted_objects: WantedObjects,
        pod_counts: Mapping[str, GroupPodCounts] = NO_POD_COUNTS,
        expected: Mapping[str, list[Json]] = NOTHING_EXPECTED,
        api: GroupApi = MUSTER,
    ) -> None:
        """Create missing objects; correct minCount, minGroupCount and expectedPods.

        `pod_counts` are those of the owner's PodGroups by name, and `expected` their expected pods.
        `api` is that of the groups. Raises RequeueError, BlockedError, kube errors.
        """
        if not api.has_workloads:
            groups = api.groups(remaining(wanted_objects(None)[1:], pod_counts))
            expected = expected if api.expects else NOTHING_EXPECTED
            await self.ensure_groups(owner, groups, pod_counts, expected)
            await self._delete_unwanted(owner, groups)
            return
        found = self._user_workload(owner)
        if found is not None:
            groups = remaining(_from_templates(wanted_objects, found), pod_counts)
            await self.ensure_groups(owner, groups, pod_counts, expected)
            await self._delete_unwanted(owner, groups)
            return
        # Before the Workload is created: nothing of the owner is created if one group is rejected.
        self._check_served(wanted_objects(None)[1:])
        workload = await self._ensure_workload(owner, wanted_objects)
        wanted = wanted_objects(workload.name)
        await self._correct_templates(workload, wanted[0])
        for group in wanted[1:]:
            group["metadata"]["ownerReferences"].append(_owner_reference(workload))
        groups = remaining(wanted[1:], pod_counts)
        await self.ensure_groups(owner, groups, pod_counts, expected)
        await self._delete_unwanted(owner, groups)
        self._check_all_cached(wanted[:1])

    async def ensure_groups(
        self,
        owner: Owner,
        wanted: list[Json],
        pod_counts: Mapping[str, GroupPodCounts] = NO_POD_COUNTS,
        expected: Mapping[str, list[Json]] = NOTHING_EXPECTED,
    ) -> None:
        """Create missing groups, root first, and correct what changes with their owner.

        Raises the same errors as `ensure`.
        """
        self._check_served(wanted)
        notes = hold_notes(owner.metadata.annotations)
        wanted = [self._named(owner, obj) for obj in wanted]
        wanted = [expecting(self._of_now(obj, pod_counts), expected, notes) for obj in wanted]
        taken: list[str] = []
        leaves = []
        for obj in below(wanted):
            # Parents one by one, as a child must not exist before its parent. Leaves are
            # independent.
            if obj["kind"] == COMPOSITE_POD_GROUP.kind:
                await self._ensure_group(owner, obj, taken)
            else:
                leaves.append(obj)
        await bounded(
            [partial(self._ensure_group, owner, it, taken) for it in leaves], _CREATES_AT_ONCE
        )
        # Only after all groups: the others of the owner are created even if one name is taken.
        if taken:
            raise BlockedError(EVENT_NAME_TAKEN, min(taken))
        self._check_all_cached(wanted)

    async def ensure_only(self, owner: Owner, wanted: Json, api: GroupApi = MUSTER) -> None:
        """Create or correct the owner's one group, and delete its earlier groups without pods.

        Raises the same errors as `ensure`.
        """
        groups = api.groups([wanted])
        await self.ensure_groups(owner, groups)
        await self._delete_unwanted(owner, groups)

    async def release_expected_pods(self, owner: Owner) -> None:
        """Remove the expected pods of the owner's groups: it creates none now.

        Raises kube errors.
        """
        for group in self._caches.pod_groups.by_index(BY_OWNER, owner.as_index):
            await release_expected_pods(self._writer, group)

    async def release_minimum(self, owner: Owner) -> None:
        """Set minCount of the owner's groups to 1, for late pods that run alone.

        Raises kube errors.
        """
        for group in self._caches.leaves(owner.as_index):
            await release_minimum(self._writer, group)

    async def delete_groups(self, owner: Owner) -> None:
        """Delete the owner's groups, leaves first, if no active pod names one of them.

        Otherwise remove their expected pods.
        """
        leaves = self._caches.leaves(owner.as_index)
        if any(self._caches.is_in_use(POD_GROUPS.kind, leaf) for leaf in leaves):
            await self.release_expected_pods(owner)
        else:
            await self._delete_unwanted(owner, [])

    async def _delete_unwanted(self, owner: Owner, wanted: list[Json]) -> None:
        """Delete the owner's groups that are neither wanted nor in use, leaves first."""
        # Groups in use are kept, because a deletion cannot be undone: an owner that is scaled down
        # and up again at once would find its pods in a group that is being deleted.
        names_wanted = {(_resource(obj), obj["metadata"]["name"]) for obj in wanted}
        for resource, cache in self._caches.generated_groups.items():
            # Those that remain are deleted once they are served again.
            if resource == NATIVE_POD_GROUPS and not self._caches.native:
                continue
            await bounded(
                [
                    partial(self._remove, resource, group)
                    for group in cache.by_index(BY_OWNER, owner.as_index)
                    if (resource, group.pods_name) not in names_wanted
                    and group.metadata.deletion_timestamp is None
                ],
                _CREATES_AT_ONCE,
            )

    async def _remove(self, resource: Resource, group: Group) -> None:
        """Delete a group, or remove the expected pods of one that is in use."""
        if self._caches.is_in_use(resource.kind, group):
            await release_expected_pods(self._writer, group)
        else:
            await self._delete(resource, group.metadata)

    def seen(self, slot: Slot) -> None:
        """Forget a created object that is in the cache now."""
        self._created.pop(slot, None)

    def on_object_deleted(self, kind: Resource, meta: ObjectMeta, owners: Resource) -> list[Key]:
        """Forget a deleted object, and return the owners of a kind that its name blocked."""
        self._deleted_at.pop(meta.uid, None)
        slot = (kind, meta.key)
        return sorted(self._blocked.pop((slot, owners), ()))

    def ignored_workloads(self, owner: Owner) -> str:
        """Return the warning about Workloads that a user created too late; empty without any."""
        found = self._user_workloads(owner)
        if found and tree_of(owner.metadata.annotations):
            return f"Workload {_listed(found)} has no effect: a tree has a Workload of its own"
        mine = self._caches.workloads.by_index(BY_OWNER, owner.as_index)
        native = self._caches.native_groups.by_index(BY_OWNER, owner.as_index)
        if not found or not (mine or native):
            return ""
        earlier = "the Workload" if mine else "the native groups"
        return (
            f"Workload {_listed(found)} has no effect: it was created after {earlier} that "
            f"Muster created for this {owner.kind}. Delete it, or recreate the {owner.kind} while "
            "it exists"
        )

    def _user_workload(self, owner: Owner) -> Workload | None:
        """Return the one Workload that a user created for the owner, unless ours exists already."""
        # Groups come from our Workload already. A user's Workload that is created later has no
        # effect.
        if self._caches.workloads.by_index(BY_OWNER, owner.as_index):
            return None
        found = self._user_workloads(owner)
        if len(found) > 1:
            raise BlockedError(
                EVENT_WORKLOAD_CONFLICT,
                f"Workloads {_listed(found)} both name this {owner.kind} in spec.controllerRef: "
                "its pods wait until all but one are deleted",
            )
        return found[0] if found else None

    def _user_workloads(self, owner: Owner) -> list[Workload]:
        """Return the Workloads that users created for the owner."""
        namespace, name = owner.metadata.key
        found = self._caches.workloads_for(namespace, owner.resource.group, owner.kind, name)
        return [it for it in found if created_for(it.metadata) is None]

    async def _ensure_workload(self, owner: Owner, wanted_objects: WantedObjects) -> ObjectMeta:
        """Return the metadata of the owner's own Workload, which is created if it is missing."""
        for mine in self._caches.workloads.by_index(BY_OWNER, owner.as_index):
            if mine.metadata.deletion_timestamp is not None:
                raise RequeueError(
                    f"Workload {mine.metadata.name} is being deleted", _DELETION_SECONDS
                )
            return mine.metadata
        wanted = wanted_objects(None)[0]
        made = await self._create(WORKLOADS, owner, wanted)
        if made is not None:
            return made
        # No pod names a Workload, so another name does no harm.
        other = names.hashed(wanted["metadata"]["name"], WORKLOAD.kind, owner.metadata.namespace)
        made = await self._create(WORKLOADS, owner, wanted_objects(other)[0])
        if made is None:
            raise BlockedError(EVENT_NAME_TAKEN, self._note_taken(owner, WORKLOADS, other))
        return made

    async def _correct_templates(self, workload: ObjectMeta, wanted: Json) -> None:
        """Update minCount and minGroupCount in the templates of our Workload."""
        found = self._caches.workloads.get(*workload.key)
        # It was just created from the wanted templates and is not in the cache yet.
        if found is None:
            return
        ops = PatchBuilder()
        correct_minimums(ops, ("spec",), found.as_object()["spec"], wanted["spec"])
        if ops:
            await self._patch(WORKLOADS, workload, ops)

    async def _ensure_group(self, owner: Owner, wanted: Json, taken: list[str]) -> None:
        resource, (_, name) = _resource(wanted), _key(wanted)
        found = self._found(wanted)
        if found is None:
            if await self._create(resource, owner, wanted) is not None:
                return
            # Another owner has taken the name since `_named` checked it. The next attempt sees its
            # group in the cache and uses another name (`_named`).
            if owner.resource in _KNOWN_TO_PODS and pods_name_of(wanted) == name:
                raise RequeueError("another owner took the name", _CACHE_LAG_SECONDS)
            taken.append(self._note_taken(owner, resource, name))
            return
        if not self._is_ours(owner, resource, found.metadata):
            taken.append(self._note_taken(owner, resource, name))
            return
        ops = corrections(found, wanted)
        if ops:
            await self._patch(resource, found.metadata, ops)

    async def _patch(self, resource: Resource, meta: ObjectMeta, ops: PatchBuilder) -> None:
        with refusals(f"failed to change {resource.kind} {meta.name}"):
            await self._writer.patch(resource, meta.name, ops.of_uid(meta.uid), meta.namespace)

    def _check_served(self, wanted: list[Json]) -> None:
        """Reject wanted groups that use a feature which is off. Raises BlockedError.

        Existing groups are still kept up to date.
        """
        # Check all groups before any is created: the others would start without the rejected ones.
        for obj in wanted:
            off = (it.feature for it in uses_of(GROUP, obj["kind"], obj))
            first = next((feature for feature in off if feature not in self._gates), None)
            if first is None or self._found(obj) is not None:
                continue
            raise BlockedError(
                EVENT_FEATURE_OFF,
                f"{self._gates.off_text(first)}, which {obj['kind']} {_key(obj)[1]} needs: its "
                "pods wait until the gate is on",
            )

    def _of_now(self, wanted: Json, pod_counts: Mapping[str, GroupPodCounts]) -> Json:
        """Return a wanted group with its current minCount."""
        named = pods_name_of(wanted)
        if named not in pod_counts or wanted["kind"] != POD_GROUPS.kind:
            return wanted
        found = self._found(wanted)
        if found is None:
            return with_minimum(wanted, pod_counts[named])
        # The annotation shows if a user has changed minCount on the group, which is then kept.
        note = found.metadata.annotations.get(ANNOTATION_MIN_COUNT_BASIS, "")
        return with_minimum(wanted, pod_counts[named], found.min_count, note)

    def _named(self, owner: Owner, wanted: Json) -> Json:
        """Return a wanted group under its usual name, or under another if that name is taken."""
        # The names of native groups are unique.
        if _resource(wanted) == NATIVE_POD_GROUPS:
            return wanted
        if owner.resource not in _KNOWN_TO_PODS:
            return self._under_earlier_name(owner, wanted)
        groups = self._caches.groups(wanted["kind"])
        stand_in = substitute_group(wanted, owner.metadata.uid)
        found = groups.get(*_key(wanted))
        anothers = found is not None and ownership(found.metadata, owner.owner_id)
        # A group that exists under the other name is kept, even if the usual name is free by now:
        # its pods would otherwise have two groups.
        there = groups.get(*_key(stand_in)) is not None
        return stand_in if there or anothers is Ownership.FOREIGN else wanted

    def _under_earlier_name(self, owner: Owner, wanted: Json) -> Json:
        """Return a wanted group under the name that an earlier version gave it, if it exists."""
        found = self._caches.pod_group(*_key(wanted))
        if wanted["kind"] != POD_GROUPS.kind or found is None or not found.has_earlier_name:
            return wanted
        if ownership(found.metadata, owner.owner_id) is Ownership.FOREIGN:
            return wanted
        return wanted | {"metadata": wanted["metadata"] | {"name": found.metadata.name}}

    def _check_all_cached(self, objects: list[Json]) -> None:
        if any((_resource(obj), _key(obj)) in self._created for obj in objects):
            # If an object is deleted before the cache has it, no event reports it.
            raise RequeueError("created objects are not in the cache yet", _CACHE_LAG_SECONDS)

    async def _create(self, resource: Resource, owner: Owner, wanted: Json) -> ObjectMeta | None:
        """Return the owner's object, created or existing; None if another owner has the name."""
        namespace, name = _key(wanted)
        slot = (resource, (namespace, name))
        created = self._created.get(slot)
        # The cache may not have the object yet. A second create request would only fail.
        if created is not None and self._is_fresh(created, owner):
            return created[1]
        try:
            with refusals(f"failed to create {resource.kind} {name}"):
                live = await self._writer.create(resource, wanted)
        # It may be the owner's: from an earlier leader, or from a create request whose response was
        # lost.
        except AlreadyExists:
            live = await self._writer.get(resource, name, namespace)
        meta = decode_partial(msgspec.json.encode(live)).metadata
        if not self._is_ours(owner, resource, meta):
            return None
        if self._cached(resource, meta.key) is None:
            self._created[slot] = (self._clock.monotonic(), meta)
        return meta

    def _cached(self, resource: Resource, key: Key) -> Group | Workload | None:
        if resource == WORKLOADS:
            return self._caches.workloads.get(*key)
        return self._caches.generated_groups[resource].get(*key)

    def _found(self, wanted: Json) -> Group | None:
        """Return the existing group of a wanted one."""
        return self._caches.generated_groups[_resource(wanted)].get(*_key(wanted))

    async def _delete(self, resource: Resource, meta: ObjectMeta) -> None:
        self._deleted_at[meta.uid] = self._clock.monotonic()
        try:
            await self._writer.delete(resource, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            self._deleted_at.pop(meta.uid, None)

    def _is_fresh(self, made: tuple[float, ObjectMeta], owner: Owner) -> bool:
        at, meta = made
        return (
            created_for(meta) == owner.owner_id
            and self._clock.monotonic() - at < _CACHE_LAG_SECONDS
        )

    def _is_ours(self, owner: Owner, resource: Resource, meta: ObjectMeta) -> bool:
        """Return True if the object is the owner's.

        Raises InTheWayError if it is going to be deleted.
        """
        found = ownership(meta, owner.owner_id)
        if found is Ownership.LEAVING or self._is_being_deleted(meta):
            raise InTheWayError(self._what_keeps(owner, resource, meta), _DELETION_SECONDS)
        return found is Ownership.OURS

    def _is_being_deleted(self, meta: ObjectMeta) -> bool:
        """Return True if this writer has just deleted the object, even if it is still cached."""
        # A child created below a deleted group would keep it, and it would let no other child in.
        at = self._deleted_at.get(meta.uid)
        return at is not None and self._clock.monotonic() - at < _CACHE_LAG_SECONDS

    def _what_keeps(self, owner: Owner, resource: Resource, meta: ObjectMeta) -> str:
        """Return the text that the owner's user sees while an object blocks its name."""
        what = f"{resource.kind} {meta.name}"
        maker = created_for(meta)
        groups = self._caches.leaves((meta.namespace, maker))
        pods = sum(1 for group in groups for _ in self._caches.members(group))
        if maker is None or maker == owner.owner_id or not pods:
            return f"{what} is being deleted, and then Muster recreates it"
        some = f"{count(pods, 'pod')} of an earlier {maker.kind} {maker.name}"
        return f"{some} must end before Muster can recreate {what}"

    def _note_taken(self, owner: Owner, resource: Resource, name: str) -> str:
        """Record that the owner waits for the name, and return the message for the owner."""
        key = owner.metadata.key
        slot = (resource, (owner.metadata.namespace, name))
        self._blocked.setdefault((slot, owner.resource), set()).add(key)
        return (
            f"{resource.kind} {name} exists and was not created for this {owner.kind}, whose pods "
            "wait until it is deleted"
        )


def _from_templates(wanted_objects: WantedObjects, workload: Workload) -> list[Json]:
    try:
        return adapt(wanted_objects(workload.metadata.name)[1:], workload.as_object())
    except TemplateNotFoundError as error:
        raise BlockedError(EVENT_TEMPLATE_NOT_FOUND, str(error)) from error


def _listed(workloads: list[Workload]) -> str:
    return " and ".join(sorted(it.metadata.name for it in workloads))


def _resource(obj: Json) -> Resource:
    return _RESOURCES[obj["apiVersion"], obj["kind"]]


def _key(obj: Json) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _owner_reference(workload: ObjectMeta) -> Json:
    """Return the plain reference to the Workload, next to the controlling one to the owner."""
    # Only for a Workload that Muster created for the owner. A user's Workload may outlive the
    # owner, and the reference would then keep the group.
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "name": workload.name,
        "uid": workload.uid,
    }
