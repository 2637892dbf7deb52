"""The common part of all owner controllers.

It decides when to create groups, when to delete them, and what to report in between.
"""

from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from api.constants import (
    ANNOTATION_MIN_COUNT_BASIS,
    ANNOTATION_TREE,
    EVENT_FAILED_SCHEDULING,
    EVENT_GROUP_NOT_MADE,
    EVENT_NOT_NATIVE,
    EVENT_WORKLOAD_IGNORED,
)
from api.integration.common.native import TREE_TEXT as TREE_NATIVE
from api.integration.common.trees import TREE_TEXT as TREE_FORM
from api.integration.common.trees import tree_of
from api.ownership import created_for
from controllers.cache.informers import Caches
from controllers.cache.objects import POD_GROUPS, WORKLOADS, Group, Owner, Pod, Workload
from controllers.groups.group_api import MUSTER, GroupApi, GroupApis
from controllers.groups.group_writer import GroupWriter
from controllers.groups.trees import Trees
from controllers.owners.owner_status import OwnerStatusWriter
from controllers.owners.start_timeouts import StartTimeouts
from controllers.runtime.controller import (
    BlockedError,
    Controller,
    InTheWayError,
    RejectedError,
    RequeueError,
    Writer,
    queue_all,
)
from kube.base.clock import Clock
from kube.base.errors import ServerError
from kube.client.meta import Key, ObjectMeta
from kube.client.resources import Resource
from kube.informers.cache import Cache

_STATUS_DELAY_SECONDS: Final = 0.5
"""Seconds in which groups of an owner that start or stop waiting cause one update of its status."""

LOSSES_DELAY_SECONDS: Final = 0.5
"""Seconds in which ended pods and Jobs of an owner cause one change of minCount together."""


class Tools(NamedTuple):
    """The parts of a term that all owner controllers share."""

    caches: Caches
    writer: Writer
    clock: Clock
    group_writer: GroupWriter
    owner_status: OwnerStatusWriter
    apis: GroupApis
    trees: Trees
    start_timeouts: StartTimeouts


class OwnerController(ABC):
    """A controller of the owners of one kind; `create_objects` differs between kinds."""

    def __init__(self, resource: Resource, tools: Tools) -> None:
        caches = tools.caches
        name = resource.kind.lower()
        self.controller: Controller[Key] = Controller(name, self.reconcile, tools.clock)
        self._resource = resource
        self._caches = caches
        self._group_writer = tools.group_writer
        self._owner_status = tools.owner_status
        self._apis = tools.apis
        self._trees = tools.trees
        self._start_timeouts = tools.start_timeouts
        tools.trees.notify(resource, self.controller.queue.add)
        self._owners: Cache[Owner] = caches.owners(resource)
        self._owners.subscribe(self._on_owner)
        caches.workloads.subscribe(self._on_workload)
        for kind, groups in caches.generated_groups.items():
            groups.subscribe(partial(self._on_group, kind))
        caches.pods.subscribe(self._on_pod)

    async def resync(self) -> None:
        """Queue all owners, whatever happened before the term."""
        await queue_all(self._owners.values(), partial(self._on_owner, None))

    async def reconcile(self, key: Key) -> None:
        """Create and correct one owner's objects. Raises RequeueError, kube errors."""
        owner = self._owners.get(*key)
        # The caches keep the spec only for owners that have groups.
        if owner is None or not owner.spec:
            return
        if owner.metadata.deletion_timestamp is not None:
            await self.let_end(owner)
            return
        try:
            await self._ensure(owner)
        except RejectedError as fault:
            # Each create request in a namespace that is being deleted is rejected, which is no news
            # to users.
            if not self._caches.is_terminating(key[0]):
                with suppress(RequeueError):
                    await self._owner_status.blocked(owner, fault)
            raise fault.error from fault
        except ServerError as error:
            # A webhook of another project may be down. `report` writes nothing about a short
            # outage.
            await self._owner_status.report(owner, f"failed to write its groups: {error.message}")
            raise
        except BlockedError as fault:
            await self._owner_status.blocked(owner, fault)
        except InTheWayError as wait:
            later = await self._owner_status.report(owner, str(wait))
            raise RequeueError(str(wait), min(later or wait.seconds, wait.seconds)) from wait
        else:
            self._owner_status.warn(
                owner, EVENT_WORKLOAD_IGNORED, self._group_writer.ignored_workloads(owner)
            )
            later = await self.report(owner)
            if later:
                raise RequeueError("the groups are still waiting", later)

    @abstractmethod
    async def create_objects(self, owner: Owner) -> None:
        """Create and correct one owner's objects.

        Raises RequeueError, BlockedError, kube errors.
        """

    def api_of(self, owner: Owner, *, native: bool) -> GroupApi:
        """Return the API of the owner's groups, and report a choice that is not the wanted one.

        `native` is True if its pods name a native group. Groups of an owner in a tree are below the
        root of it. Raises RequeueError, BlockedError.
        """
        api = self._apis.of(owner, native=native)
        if ANNOTATION_TREE in owner.metadata.annotations:
            api = self._below_root(owner, api)
        note = self._apis.note(owner, native=native)
        # Its groups are as good: no user has to act.
        self._owner_status.warn(owner, EVENT_NOT_NATIVE, note, severity="Normal")
        return api

    def _below_root(self, owner: Owner, api: GroupApi) -> GroupApi:
        tree = tree_of(owner.metadata.annotations)
        # Admission rejects both. Without the tree, the owner would start alone.
        if tree is None:
            raise BlockedError(EVENT_GROUP_NOT_MADE, f"annotation {ANNOTATION_TREE}: {TREE_FORM}")
        if api is not MUSTER:
            raise BlockedError(EVENT_NOT_NATIVE, f"{TREE_NATIVE}: recreate the {owner.kind}")
        return self._trees.api_of(owner, tree)

    async def let_end(self, owner: Owner) -> None:
        """Release expected pods of an owner that is being deleted.

        Its groups are deleted by their owner references, after their pods.
        """
        await self._group_writer.release_expected_pods(owner)

    async def report(self, owner: Owner) -> float:
        """Write the owner's status; return the seconds until the next check (0: none)."""
        waits_for = self._trees.waits_for(owner)
        return await self._owner_status.report(owner, waits_for, EVENT_FAILED_SCHEDULING)

    async def _ensure(self, owner: Owner) -> None:
        # A finished or suspended owner creates no pods, but pods that still run keep its groups.
        if owner.finished:
            await self._group_writer.release_expected_pods(owner)
        elif owner.suspended:
            await self._group_writer.delete_groups(owner)
        else:
            await self.create_objects(owner)
            await self._start_timeouts.enforce(owner)

    def _on_owner(self, old: Owner | None, new: Owner | None) -> None:
        if (
            new is not None
            and new.spec
            and (old is None or _significant_fields(old) != _significant_fields(new))
        ):
            self.controller.queue.add(new.metadata.key)
        elif new is not None and new.spec and old is not None and old.progress != new.progress:
            # Progress changes with each pod that ends, so it is handled in bursts.
            self.controller.queue.add_after(new.metadata.key, LOSSES_DELAY_SECONDS)
        # A recreated owner must get its own events and annotation.
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._owner_status.forget(old.metadata.uid)
            self._start_timeouts.forget(old.metadata.uid)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        self._on_generated(WORKLOADS, _meta(old), _meta(new), changed=False)
        for workload in (old, new):
            ref = workload.controller_ref if workload else None
            # A user's Workload names the owner without being generated for it.
            if workload and ref and ref[:2] == (self._resource.group, self._resource.kind):
                self.controller.queue.add((workload.metadata.namespace, ref[2]))

    def _on_group(self, kind: Resource, old: Group | None, new: Group | None) -> None:
        changed = old is not None and new is not None and _minimum(old) != _minimum(new)
        self._on_generated(kind, _meta(old), _meta(new), changed=changed)
        if old is not None and new is not None and old.waiting != new.waiting:
            self._queue_owner(new.metadata, after=_STATUS_DELAY_SECONDS)

    def _on_generated(
        self, kind: Resource, old: ObjectMeta | None, new: ObjectMeta | None, *, changed: bool
    ) -> None:
        """Queue the owner of an object that was deleted or changed, but not of a new one."""
        if new is None and old is not None:
            self._on_deleted(kind, old)
        # The owner's own controller created it, so there is nothing to reconcile.
        elif new is not None and old is None:
            self._group_writer.seen((kind, new.key))
        elif changed and new is not None:
            self._queue_owner(new)

    def _on_deleted(self, kind: Resource, meta: ObjectMeta) -> None:
        self._queue_owner(meta)
        for key in self._group_writer.on_object_deleted(kind, meta, self._resource):
            self.controller.queue.add(key)

    def _queue_owner(self, meta: ObjectMeta, after: float = 0.0) -> None:
        name = self._owner_name(meta)
        if name:
            self.controller.queue.add_after((meta.namespace, name), after)

    def _owner_name(self, meta: ObjectMeta) -> str:
        """Return the name of the object's owner, if it is of this kind; else an empty string."""
        owner_id = created_for(meta)
        kind = (self._resource.group, self._resource.kind)
        return owner_id.name if owner_id is not None and owner_id[:2] == kind else ""

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the owner of a pod that ended or is being deleted.

        Its group may need fewer pods then, or is not needed at all.
        """
        if old is None or (
            new is not None and (new.active, new.counts) == (old.active, old.counts)
        ):
            return
        for group in self._caches.groups_of(old):
            if not self._owner_name(group.metadata):
                continue
            if old.active and (new is None or not new.active):
                self._queue_unused(group)
            # The pods that are missing may never come, so minCount has to follow the owner's
            # progress.
            if (
                old.counts
                and (new is None or not new.counts)
                and self._caches.is_below_minimum(group)
            ):
                self._queue_loser(group)

    def _queue_loser(self, group: Group) -> None:
        """Queue the owner of a group that has fewer pods than its minCount."""
        owner = self._owners.get(group.metadata.namespace, self._owner_name(group.metadata))
        if owner is not None and owner.spec and not owner.suspended:
            self._queue_owner(group.metadata, after=LOSSES_DELAY_SECONDS)

    def _queue_unused(self, group: Group) -> None:
        if not self._caches.is_in_use(POD_GROUPS.kind, group):
            self._queue_owner(group.metadata)


def _significant_fields(owner: Owner) -> tuple[object, ...]:
    """Return the fields that decide about the owner's groups, and those that are reported."""
    meta = owner.metadata
    return (
        (meta.uid, meta.deletion_timestamp, meta.labels, meta.annotations, meta.owner_references),
        (owner.spec, owner.suspended, owner.finished, owner.restarts, owner.status),
        owner.rollout,
    )


def _minimum(group: Group) -> tuple[object, ...]:
    notes = group.metadata.annotations
    return group.policy, notes.get(ANNOTATION_MIN_COUNT_BASIS), group.expected


def _meta(obj: Workload | Group | None) -> ObjectMeta | None:
    return None if obj is None else obj.metadata
