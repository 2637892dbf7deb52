"""Groups that pods request by annotations, whatever created the pods (`api.integration`).

The controller creates such a group with its first pod, from the annotations of its pods. The owner
reference points to the common owner of the pods and follows them. The group is deleted with that
owner, or else with its last pod. A PodGroup of another owner with that name is used as it is.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from api.constants import (
    ANNOTATION_MIN_COUNT_BASIS,
    ANNOTATION_PODS_DIFFER,
    EVENT_GROUP_NOT_MADE,
    EVENT_PODS_DIFFER,
    POD_GROUP,
)
from api.integration.pods.groups_from_pods import (
    GroupDescription,
    ask_in,
    chosen,
    differences,
    group_object,
    is_from_pods,
)
from controllers.cache.informers import BY_GROUP, Caches
from controllers.cache.objects import POD_GROUPS, Group, Pod
from controllers.cache.pod_annotations import DescribingPods
from controllers.groups.idle_groups import (
    IDLE_ALONE_SECONDS,
    IDLE_SECONDS,
    NOTED_SECONDS,
    IdleGroups,
    has_pods,
)
from controllers.groups.owner_chain import OwnerChains
from controllers.runtime.controller import Controller, RequeueError, Writer, queue_all
from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from kube.client.meta import Json, Key, OwnerReference
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import PODS
from kube.events.events import ObjectReference, Recorder

_CHANGES_SECONDS: Final = 0.5
"""Seconds in which changes of a group's pods are handled together, because they come in bursts."""

_WORKERS: Final = 24
"""Keys handled at a time. Each creates one group, and pods come faster than Jobs of JobSets."""

_CACHE_LAG_SECONDS: Final = 5.0
"""Seconds for which a created group may be absent from the cache and counts as created."""

_REFUSED_SECONDS: Final = 60.0
"""Seconds until the next attempt after a rejection, whose cause may be resolved by then."""

_UNCERTAIN_SECONDS: Final = 30.0
"""Seconds until the next attempt if an owner of the pods could not be read."""

_log = structlog.get_logger()


class GroupsFromPods:
    """The controller of groups created from pods; its keys are the names of the groups."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        clock: Clock,
        *,
        makes: bool = True,
    ) -> None:
        """Subscribe to the caches; `controller.run` starts the work.

        Without `makes` it creates no groups. Existing ones still follow their pods and are deleted.
        """
        self._is_to_provision = makes
        self.controller: Controller[Key] = Controller(
            "groups-from-pods", self.reconcile, clock, workers=_WORKERS
        )
        self._caches = caches
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._chains = OwnerChains(writer, clock)
        self._created_at: dict[Key, float] = {}
        self._idle = IdleGroups(clock)
        self._reported: dict[Key, str] = {}
        caches.asks.subscribe(self._on_asks)
        caches.pods.subscribe(self._on_pod)
        caches.pod_groups.subscribe(self._on_group)

    async def resync(self) -> None:
        """Queue all groups that pods request, and all that were created from pods."""
        for key in self._caches.asks.keys():  # noqa: SIM118 - no mapping
            self.controller.queue.add(key)
        await queue_all(self._caches.pod_groups.values(), partial(self._on_group, None))

    async def reconcile(self, key: Key) -> None:
        """Create, correct or delete one group. Raises RequeueError, kube errors."""
        asked = self._caches.asks.get(key)
        group = self._caches.pod_groups.get(*key)
        if asked is None:
            self._reported.pop(key, None)
            self._created_at.pop(key, None)
            await self._delete_idle(key, group)
            return
        self._idle.forget(key)
        if self._caches.is_terminating(key[0]):
            return
        if group is None and self._is_to_provision:
            await self._create(key, asked)
        elif group is not None and group.metadata.deletion_timestamp is None:
            await self._follow(key, group, asked)
        # Otherwise the deletion event of the group queues it again.

    async def _create(self, key: Key, asked: DescribingPods) -> None:
        created_at = self._created_at.get(key)
        if created_at is not None and self._clock.monotonic() - created_at < _CACHE_LAG_SECONDS:
            # If the group was deleted before the cache had it, no event reports it.
            raise RequeueError("the group is not in the cache yet", _CACHE_LAG_SECONDS)
        common = await self._chains.common(key[0], asked.controllers)
        # `common` waits for requests. If the last pod went meanwhile, that queues the key again.
        if not asked.asks:
            return
        owner = None if common.owner is None else _reference(common.owner)
        wanted = group_object(*key, chosen(asked.asks), owner)
        try:
            await self._writer.create(POD_GROUPS, wanted)
        # Not an error: the cache lags, or a user has created a group of this name.
        except AlreadyExists:
            pass
        except (Forbidden, Invalid) as error:
            await self._refused(key, error)
        self._created_at[key] = self._clock.monotonic()
        raise RequeueError("the group was just created", _CACHE_LAG_SECONDS)

    async def _refused(self, key: Key, error: ApiError) -> None:
        """Report a rejection on one of the group's pods, and raise RequeueError."""
        # There is no other object yet on which the user would look.
        text = f"failed to create PodGroup {key[1]} for this pod: {error.message}"
        self._report(key, EVENT_GROUP_NOT_MADE, text, lambda _: True)
        raise RequeueError(text, _REFUSED_SECONDS) from error

    async def _follow(self, key: Key, group: Group, asked: DescribingPods) -> None:
        self._created_at.pop(key, None)
        if not is_from_pods(group.metadata, key[1]):
            self._check_foreign(key, group, asked)
            return
        live = ask_in(group.spec_object())
        # The annotation states the minCount that the pods asked for last. It counts only as long as
        # a pod still asks for that.
        noted = group.metadata.annotations.get(ANNOTATION_MIN_COUNT_BASIS, "")
        said = (ask.min_count for ask in asked.asks if str(ask.min_count) == noted)
        basis = next(said, 0) if noted else live.min_count
        minimum = chosen(asked.asks, basis).min_count
        differ = differences(asked.asks, live._replace(min_count=minimum))
        common = await self._chains.common(key[0], asked.controllers)
        ops = PatchBuilder()
        # A raised minCount is reset: the group would wait for pods that no user requested.
        if minimum != basis or live.min_count > minimum:
            ops.add(pointer("spec", "schedulingPolicy", "gang", "minCount"), minimum)
        # Otherwise a lower minCount stays: a user may lower it so that the remaining pods can
        # start. It counts until the pods ask for another one.
        if str(minimum) != noted:
            ops.add(pointer("metadata", "annotations", ANNOTATION_MIN_COUNT_BASIS), str(minimum))
        _note(ops, group, differ)
        has_pods(ops, group.metadata)
        if common.certain:
            _own(ops, group, common.owner)
        await self._patch(key, group, ops)
        self._report_difference(key, group, differ, live)
        # An owner that could not be read may exist, so the reference must not change now.
        if not common.certain:
            raise RequeueError("failed to read an owner of its pods", _UNCERTAIN_SECONDS)

    def _check_foreign(self, key: Key, group: Group, asked: DescribingPods) -> None:
        """Report pods whose annotations differ from a PodGroup of another creator."""
        minimum = group.min_count or 0
        said = {ask.min_count for ask in asked.asks} - {minimum}
        if not group.policy or not said:
            self._reported.pop(key, None)
            return
        has = f"minCount {minimum}" if minimum else "no minCount"
        text = (
            f"PodGroup {key[1]} was not created from its pods and has {has}, so their min-count "
            "annotation has no effect. Correct it, or name another group"
        )
        self._report(key, EVENT_PODS_DIFFER, text, lambda ask: ask.min_count != minimum)

    async def _patch(self, key: Key, group: Group, ops: PatchBuilder) -> None:
        if not ops:
            return
        # The test of the UID comes first, so that no operation applies to another group of the
        # name.
        of_it = PatchBuilder([*PatchBuilder().of_uid(group.metadata.uid), *ops])
        try:
            await self._writer.patch(POD_GROUPS, key[1], of_it, key[0])
        except NotFound:
            return

    async def _delete_idle(self, key: Key, group: Group | None) -> None:
        meta = group.metadata if group is not None else None
        if (
            group is None
            or meta is None
            or not is_from_pods(meta, key[1])
            or meta.deletion_timestamp is not None
        ):
            self._idle.forget(key)
        elif self._caches.is_in_use(POD_GROUP.kind, group):
            self._idle.forget(key)
            ops = PatchBuilder()
            has_pods(ops, meta)
            await self._patch(key, group, ops)
        else:
            await self._end_idle(key, group)

    async def _end_idle(self, key: Key, group: Group) -> None:
        """Annotate a group without pods, and delete it in the end.

        Raises RequeueError, kube errors.
        """
        meta = group.metadata
        idle = self._idle.seconds(key, meta)
        # Without an owner no controller recreates the pods, so the group is kept briefly.
        left = (IDLE_ALONE_SECONDS if meta.controller is None else IDLE_SECONDS) - idle
        # Short gaps between pods, as in a restart, cost no write.
        if left > 0 and idle < NOTED_SECONDS:
            raise RequeueError("a pod may name the group again", min(left, NOTED_SECONDS - idle))
        if left > 0:
            await self._note_idle(key, group, idle)
            raise RequeueError("a pod may name the group again", left)
        try:
            await self._writer.delete(POD_GROUPS, key[1], key[0], uid=meta.uid)
        except NotFound:
            return
        except ApiError:
            # The deletion failed. The annotation lets `muster gc` find the group.
            await self._note_idle(key, group, idle)
            raise

    async def _note_idle(self, key: Key, group: Group, idle: float) -> None:
        ops = PatchBuilder()
        self._idle.note(ops, idle, group.metadata)
        await self._patch(key, group, ops)

    def _report_difference(self, key: Key, group: Group, text: str, live: GroupDescription) -> None:
        if not text:
            self._reported.pop(key, None)
            return
        if self._reported.get(key) == text:
            return
        reference = ObjectReference.of(POD_GROUPS, group.metadata)
        self._recorder.event(reference, "Warning", EVENT_PODS_DIFFER, text)
        self._report(key, EVENT_PODS_DIFFER, text, lambda ask: ask != live)

    def _report(
        self, key: Key, reason: str, text: str, about: Callable[[GroupDescription], bool]
    ) -> None:
        """Record an event on one pod that the text concerns, once for each text."""
        if self._reported.get(key) == text:
            return
        self._reported[key] = text
        _log.info("the group differs from its pods", namespace=key[0], group=key[1], error=text)
        for pod in self._caches.pods.each(BY_GROUP, key):
            if pod.ask is not None and about(pod.ask):
                reference = ObjectReference.of(PODS, pod.metadata)
                self._recorder.event(reference, "Warning", reason, text)
                return

    def _on_asks(self, key: Key) -> None:
        # A new group is created at once: its pods wait for it. Changes of existing ones come in
        # bursts.
        if self._caches.pod_groups.get(*key) is None and self._caches.asks.get(key) is not None:
            self.controller.queue.add(key)
        else:
            self.controller.queue.add_after(key, _CHANGES_SECONDS)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Queue a group whose last pod ended, for pods that have no annotations of their own."""
        if old is None or not old.active or (new is not None and new.active):
            return
        for name in old.groups:
            key = (old.metadata.namespace, name)
            group = self._caches.pod_groups.get(*key)
            if group is not None and self._caches.asks.get(key) is None:
                self._on_group(None, group)

    def _on_group(self, old: Group | None, new: Group | None) -> None:
        """Queue a group that is deleted, new, or changed by another client."""
        group = new or old
        if group is None:
            return
        key = group.metadata.key
        if new is None:
            self._idle.forget(key)
        if old is not None and new is not None and _followed(old) == _followed(new):
            return
        ours = new is not None and is_from_pods(new.metadata, key[1])
        if ours or self._caches.asks.get(key) is not None:
            self.controller.queue.add(key)


def _followed(group: Group) -> tuple[object, ...]:
    """Return the fields of a group that this controller reads."""
    meta = group.metadata
    return (
        (meta.uid, meta.deletion_timestamp, meta.annotations, meta.owner_references),
        (group.policy, group.spec),
    )


def _reference(owner: OwnerReference) -> Json:
    """Return the owner reference of a group."""
    # Without blockOwnerDeletion: it would need the right to update the finalizers of every kind of
    # owner.
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def _note(ops: PatchBuilder, group: Group, text: str) -> None:
    """Set or remove the annotation with the pods' differing requests."""
    path = pointer("metadata", "annotations", ANNOTATION_PODS_DIFFER)
    live = group.metadata.annotations.get(ANNOTATION_PODS_DIFFER, "")
    if text and text != live:
        ops.add(path, text)
    elif live and not text:
        ops.remove(path)


def _own(ops: PatchBuilder, group: Group, owner: OwnerReference | None) -> None:
    """Set or remove the controlling owner reference; keep references of other clients."""
    references = group.metadata.owner_references
    at = next((index for index, it in enumerate(references) if it.controller), None)
    wanted = None if owner is None else _reference(owner)
    if at is None:
        if wanted is not None and references:
            ops.add("/metadata/ownerReferences/-", wanted)
        # The patch creates the whole list. Fail if another client has created it in the meantime.
        elif wanted is not None:
            ops.at_version(group.metadata.resource_version)
            ops.add("/metadata/ownerReferences", [wanted])
        return
    path, uid = pointer("metadata", "ownerReferences", at), references[at].uid
    # Test the UID: the list may have another order by now.
    if wanted is None:
        ops.test(f"{path}/uid", uid).remove(path)
    elif uid != wanted["uid"]:
        ops.test(f"{path}/uid", uid).replace(path, wanted)
