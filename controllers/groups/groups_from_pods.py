"""Groups that pods ask for by annotations, whatever made the pods (`api.integration`).

Such a group is made at the first pod, and says what its pods say. The reference to its owner is to
what its pods have in common, and follows them: with the owner the group goes, or else with its last
pod. Where a PodGroup of others has the name, that one counts, and is never changed.
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
    Ask,
    ask_in,
    chosen,
    differences,
    group_object,
    is_from_pods,
)
from controllers.cache.informers import BY_GROUP, Caches
from controllers.cache.objects import POD_GROUPS, Group, Pod
from controllers.cache.pod_annotations import Asked
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
"""Pods change in bursts, for which one look at what they say is enough."""

_WORKERS: Final = 24
"""Each makes one group at a time, and pods come faster than the Jobs of JobSets."""

_CACHE_LAG_SECONDS: Final = 5.0
_REFUSED_SECONDS: Final = 60.0
"""When to ask again for a group that was refused: what is missing then may be there."""

_UNCERTAIN_SECONDS: Final = 30.0
"""Seconds until the next attempt where an owner of the pods could not be read."""

_log = structlog.get_logger()


class GroupsFromPods:
    """The controller of such groups; its keys are their names."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        clock: Clock,
        *,
        makes: bool = True,
    ) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`.

        Where it makes none, those that are there follow their pods, and go, all the same.
        """
        self._makes = makes
        self.controller: Controller[Key] = Controller(
            "groups-from-pods", self.reconcile, clock, workers=_WORKERS
        )
        self._caches = caches
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._chains = OwnerChains(writer, clock)
        self._made: dict[Key, float] = {}
        self._idle = IdleGroups(clock)
        self._said: dict[Key, str] = {}
        caches.asks.subscribe(self._on_asks)
        caches.pods.subscribe(self._on_pod)
        caches.pod_groups.subscribe(self._on_group)

    async def resync(self) -> None:
        """Queue every group that pods ask for, and every one that was made for that."""
        for key in self._caches.asks.keys():  # noqa: SIM118 - no mapping
            self.controller.queue.add(key)
        await queue_all(self._caches.pod_groups.values(), partial(self._on_group, None))

    async def reconcile(self, key: Key) -> None:
        """Make, correct or delete one group. Raises RequeueError, kube errors."""
        asked = self._caches.asks.get(key)
        group = self._caches.pod_groups.get(*key)
        if asked is None:
            self._said.pop(key, None)
            self._made.pop(key, None)
            await self._delete_idle(key, group)
            return
        self._idle.forget(key)
        if self._caches.is_terminating(key[0]):
            return
        if group is None and self._makes:
            await self._make(key, asked)
        elif group is not None and group.metadata.deletion_timestamp is None:
            await self._follow(key, group, asked)
        # Else its end queues it again.

    async def _make(self, key: Key, asked: Asked) -> None:
        made = self._made.get(key)
        if made is not None and self._clock.monotonic() - made < _CACHE_LAG_SECONDS:
            # If it was deleted before the cache had it, no event says so: look again.
            raise RequeueError("the group is not in the cache yet", _CACHE_LAG_SECONDS)
        common = await self._chains.common(key[0], asked.controllers)
        if not asked.asks:
            return  # its pods went meanwhile, which queues it again
        owner = None if common.owner is None else _reference(common.owner)
        wanted = group_object(*key, chosen(asked.asks), owner)
        try:
            await self._writer.create(POD_GROUPS, wanted)
        except AlreadyExists:
            pass  # the cache will have it
        except (Forbidden, Invalid) as error:
            await self._refused(key, error)
        self._made[key] = self._clock.monotonic()
        raise RequeueError("the group was just made", _CACHE_LAG_SECONDS)

    async def _refused(self, key: Key, error: ApiError) -> None:
        """Said on one of its pods: there is nothing else yet that belongs to its user."""
        text = f"PodGroup {key[1]} cannot be made for this pod: {error.message}"
        self._say(key, EVENT_GROUP_NOT_MADE, text, lambda _: True)
        raise RequeueError(text, _REFUSED_SECONDS) from error

    async def _follow(self, key: Key, group: Group, asked: Asked) -> None:
        self._made.pop(key, None)
        ours = is_from_pods(group.metadata, key[1])
        if not ours:
            self._check_foreign(key, group, asked)
            return
        live = ask_in(group.spec_object())
        noted = group.metadata.annotations.get(ANNOTATION_MIN_COUNT_BASIS, "")
        said = (ask.min_count for ask in asked.asks if str(ask.min_count) == noted)
        basis = next(said, 0) if noted else live.min_count
        minimum = chosen(asked.asks, basis).min_count
        differ = differences(asked.asks, live._replace(min_count=minimum))
        common = await self._chains.common(key[0], asked.controllers)
        ops = PatchBuilder()
        if minimum != basis or live.min_count > minimum:
            ops.add(pointer("spec", "schedulingPolicy", "gang", "minCount"), minimum)
        # Else a lower one is what a user wants until the pods say another.
        if str(minimum) != noted:
            ops.add(pointer("metadata", "annotations", ANNOTATION_MIN_COUNT_BASIS), str(minimum))
        _note(ops, group, differ)
        has_pods(ops, group.metadata)
        if common.certain:
            _own(ops, group, common.owner)
        await self._patch(key, group, ops)
        self._say_differ(key, group, differ, live)
        if not common.certain:
            raise RequeueError("an owner of its pods could not be read", _UNCERTAIN_SECONDS)

    def _check_foreign(self, key: Key, group: Group, asked: Asked) -> None:
        """Pods that say something else of a group that somebody made wait as that says."""
        minimum = group.min_count or 0
        said = {ask.min_count for ask in asked.asks} - {minimum}
        if not group.policy or not said:
            self._said.pop(key, None)
            return
        has = f"minCount {minimum}" if minimum else "no minCount"
        text = (
            f"PodGroup {key[1]} was not made from its pods and has {has}: that counts, and not"
            " their min-count annotation. Correct it, or name another group"
        )
        self._say(key, EVENT_PODS_DIFFER, text, lambda ask: ask.min_count != minimum)

    async def _patch(self, key: Key, group: Group, ops: PatchBuilder) -> None:
        if not ops:
            return
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
        """Note that it has no pods, and delete it in the end. Raises RequeueError, kube errors."""
        meta = group.metadata
        idle = self._idle.seconds(key, meta)
        left = (IDLE_ALONE_SECONDS if meta.controller is None else IDLE_SECONDS) - idle
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
            await self._note_idle(key, group, idle)
            raise

    async def _note_idle(self, key: Key, group: Group, idle: float) -> None:
        ops = PatchBuilder()
        self._idle.note(ops, idle, group.metadata)
        await self._patch(key, group, ops)

    def _say_differ(self, key: Key, group: Group, text: str, live: Ask) -> None:
        if not text:
            self._said.pop(key, None)
            return
        if self._said.get(key) == text:
            return
        reference = ObjectReference.of(POD_GROUPS, group.metadata)
        self._recorder.event(reference, "Warning", EVENT_PODS_DIFFER, text)
        self._say(key, EVENT_PODS_DIFFER, text, lambda ask: ask != live)

    def _say(self, key: Key, reason: str, text: str, about: Callable[[Ask], bool]) -> None:
        """An event on one pod that it is about, once for each text."""
        if self._said.get(key) == text:
            return
        self._said[key] = text
        _log.info("group differs from its pods", namespace=key[0], group=key[1], error=text)
        for pod in self._caches.pods.each(BY_GROUP, key):
            if pod.ask is not None and about(pod.ask):
                reference = ObjectReference.of(PODS, pod.metadata)
                self._recorder.event(reference, "Warning", reason, text)
                return

    def _on_asks(self, key: Key) -> None:
        if self._caches.pod_groups.get(*key) is None and self._caches.asks.get(key) is not None:
            self.controller.queue.add(key)
        else:
            self.controller.queue.add_after(key, _CHANGES_SECONDS)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The last pod of a group may be one that says nothing of it."""
        if old is None or not old.active or (new is not None and new.active):
            return
        for name in old.groups:
            key = (old.metadata.namespace, name)
            group = self._caches.pod_groups.get(*key)
            if group is not None and self._caches.asks.get(key) is None:
                self._on_group(None, group)

    def _on_group(self, old: Group | None, new: Group | None) -> None:
        """Gone, new, or changed by somebody else."""
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
    """What this controller reads of a group."""
    meta = group.metadata
    return (
        (meta.uid, meta.deletion_timestamp, meta.annotations, meta.owner_references),
        (group.policy, group.spec),
    )


def _reference(owner: OwnerReference) -> Json:
    """Without blockOwnerDeletion: that would need rights over every kind of owner."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def _note(ops: PatchBuilder, group: Group, text: str) -> None:
    """The annotation that says what its pods say and is not so."""
    path = pointer("metadata", "annotations", ANNOTATION_PODS_DIFFER)
    live = group.metadata.annotations.get(ANNOTATION_PODS_DIFFER, "")
    if text and text != live:
        ops.add(path, text)
    elif live and not text:
        ops.remove(path)


def _own(ops: PatchBuilder, group: Group, owner: OwnerReference | None) -> None:
    """The one controlling reference; those that others added stay."""
    references = group.metadata.owner_references
    at = next((index for index, it in enumerate(references) if it.controller), None)
    wanted = None if owner is None else _reference(owner)
    if at is None:
        if wanted is not None and references:
            ops.add("/metadata/ownerReferences/-", wanted)
        elif wanted is not None:
            # The whole list is created: nobody else may have created it meanwhile.
            ops.at_version(group.metadata.resource_version)
            ops.add("/metadata/ownerReferences", [wanted])
        return
    path, uid = pointer("metadata", "ownerReferences", at), references[at].uid
    if wanted is None:
        ops.test(f"{path}/uid", uid).remove(path)
    elif uid != wanted["uid"]:
        ops.test(f"{path}/uid", uid).replace(path, wanted)
