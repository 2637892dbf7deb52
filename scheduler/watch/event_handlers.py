"""Event handlers of the watched resources: they update the state between two cycles.

An exception of a handler concerns the object that it got, and the reflector skips that object.
`set_aside` keeps what must not be forgotten of a skipped object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from sys import intern

from api import features
from api.constants import CONDITION_POD_SCHEDULED, NATIVE_POD_GROUP, POD_GROUP
from api.features import FeatureGates
from api.priority import PriorityClass
from api.scheduler_names import USUAL, SchedulerNames
from kube.base.clock import Clock, SystemClock
from kube.client.meta import Key, Partial, RawObject
from kube.events.events import ObjectReference
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimKey, GroupKey, GroupSpec, PodInfo
from scheduler.decoding import decode
from scheduler.decoding.objects import (
    ConditionType,
    GroupObject,
    Pod,
)
from scheduler.decoding.pod_claims import PodClaims
from scheduler.decoding.undecodable_pods import (
    RefusedPod,
    decode_held_pod,
    decode_refused_pod,
    held_pod_info,
    refused_pod_info,
)
from scheduler.expected.claims import CLAIM, RESOURCE, Thing
from scheduler.expected.pods import ExpectedPods, LastPodState
from scheduler.watch.departures import Departures
from scheduler.watch.growth import Growth
from scheduler.watch.membership import Membership


@dataclass(frozen=True, slots=True)
class PendingPod:
    """The fields of a waiting pod that its status patch and its events need.

    `scheduled` is its PodScheduled, `controller` the object that controls it, if there is one.
    """

    resource_version: str
    conditions: tuple[str, ...]
    scheduled: ConditionType | None = None
    controller: ObjectReference | None = None

    @classmethod
    def of(cls, obj: Pod | RefusedPod) -> PendingPod:
        conditions = obj.status.conditions
        types = tuple(condition.type for condition in conditions)
        scheduled = next((it for it in conditions if it.type == CONDITION_POD_SCHEDULED), None)
        if scheduled is not None:
            # All waiting pods of a group have the same message.
            scheduled.message = intern(scheduled.message)
        meta, owner = obj.metadata, obj.metadata.controller
        controller = None
        if owner is not None:
            # All waiting pods of a controller share these texts. Users choose them, of any length,
            # so they must end with the last of the pods.
            parts = (owner.api_version, owner.kind, meta.namespace, owner.name, owner.uid)
            controller = ObjectReference(*map(intern, parts))
        return cls(meta.resource_version, types, scheduled, controller)


class PodHandler:
    """Event handler of all pods. `pending` has the fields for status patches of waiting pods.

    `native` means that Kubernetes' own PodGroups are served.
    """

    def __init__(
        self,
        state: State,
        on_change: Callable[[], None],
        schedulers: SchedulerNames = USUAL,
        *,
        claims_refused: str = "",
        expected: ExpectedPods | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Start without pods.

        `claims_refused` is the reason why pods with ResourceClaims are refused, empty if they are
        not. Without `expected`, groups have only the pods that exist. Without `clock`, the
        machine's counts.
        """
        self.pending: dict[str, PendingPod] = {}
        self.native = False
        self._state = state
        self._schedulers = schedulers
        self._on_change = on_change
        self._uids: dict[Key, str] = {}
        self._members = Membership(state)
        self._growth = Growth()
        self._departures = Departures(clock or SystemClock())
        self._expected = expected
        self.unreadable_claims: dict[ClaimKey, str] = {}
        self.claims = PodClaims(state.devices, self.unreadable_claims, claims_refused)

    def serve_claims(self, *, templates: bool = False) -> None:
        """Record that ResourceClaims are served and known, and `templates` if so."""
        self.claims.serve()
        for uid in self.claims.all():
            self.reshape(uid)
        if self._expected is not None:
            self._expected.claims.serve(templates=templates)
            self.renew_expected()

    def renew_expected(self) -> None:
        """Evaluate the expected pods of some groups again that name a changed object."""
        if self._expected is not None:
            self._expected.renewed().apply(self._state)

    def on_template_changed(self, key: Key, spec: bytes | None) -> None:
        """Record the spec of a ResourceClaimTemplate (None: deleted)."""
        if self._expected is not None:
            self._expected.claims.on_template_changed(key, spec)
            self.renew_expected()

    def _named_changed(self, thing: Thing) -> None:
        """Evaluate expected pods again that name the object."""
        if self._expected is not None:
            self._expected.claims.changed(thing)
            self.renew_expected()

    def on_claim_changed(self, key: ClaimKey) -> None:
        """Evaluate the waiting pods of a changed or deleted ResourceClaim, and requeue them."""
        for uid in self.claims.naming(key):
            self.reshape(uid)
            # A consumer that leaves frees an entry of the claim, but changes nothing of the pod.
            self._state.reconsider(uid)
        self._named_changed((CLAIM, *key))

    def on_resource_changed(self, resource: str) -> None:
        """Requeue the waiting pods of an extended resource whose device class changed."""
        for uid in self.claims.requesting(resource):
            self.reshape(uid)
            self._state.reconsider(uid)
        self._named_changed((RESOURCE, "", resource))

    def reshape(self, uid: str) -> None:
        """Evaluate a waiting pod with its current ResourceClaims."""
        pod = self._state.pods.get(uid)
        if pod is not None and not (pod.placed or pod.info.expected):
            self._set(pod.info)

    def on_group_changed(self, key: Key, group: GroupObject | None) -> None:
        """Apply a PodGroup (None: deleted), and keep back or release pods that name it."""
        # Membership first: only the pods of the group's owner count for its size.
        for info in self._members.on_group_changed(key, group):
            for each in self._growth.reevaluate(info):
                self._set(each)
        for info in self._growth.on_group_changed(key, group):
            self._set(info)
        if self.claims.on_group_changed(key, group):
            # Shared claims of the group: its status names them once they are created.
            self._reshape_members((POD_GROUP.kind, *key))
        if self._expected is not None:
            self._expected.on_group_changed(key, group).apply(self._state)

    def on_native_group_changed(self, key: Key, group: GroupObject | None) -> None:
        """Apply a native PodGroup (None: deleted), and evaluate its pods with its claims."""
        if self.claims.on_native_group_changed(key, group):
            self._reshape_members((NATIVE_POD_GROUP.full_kind, *key))

    def _reshape_members(self, group: GroupKey) -> None:
        """Evaluate the pods of a group whose claims changed."""
        known = self._state.forest.groups.get(group)
        for uid in filter(self.claims.has, list(known.members) if known else ()):
            self.reshape(uid)
            self._state.reconsider(uid)

    def upsert(self, obj: Pod) -> None:
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        before = self._uids.get(key)
        if before is not None and before != meta.uid:
            # Another pod of this name: the watch missed the deletion.
            self._forget(before)
        self._uids[key] = meta.uid
        known = self._state.pods.get(meta.uid)
        before_info = known.info if known is not None else None
        info = decode.pod_info(
            obj, before_info, self._schedulers, native=self.native, release=self._state.release
        )
        # Before anything keeps the pod: the decoded stamp is a time of day.
        info = self._departures.timed(info, before_info, meta.deletion_grace_period_seconds)
        promoted = self.claims.note(obj, info)
        if info.ours and not info.node:
            self.pending[meta.uid] = PendingPod.of(obj)
        else:
            # A bound pod's status belongs to the kubelet.
            self.pending.pop(meta.uid, None)
        # A pod that is, or no longer is, too many may change how others of its group count.
        for each in self._growth.evaluate(obj, self._members.evaluate(info)):
            self._set(each)
        self._reshape_promoted(promoted)
        self._on_change()

    def set_aside(self, key: Key, raw: bytes) -> None:
        """Keep an undecodable bound pod on its node and in its group; refuse a waiting one."""
        obj = decode_held_pod(raw)
        uid = obj.metadata.uid
        known = self._state.pods.get(uid)
        # Also another pod of this name, whose deletion the watch missed.
        for each in {self._uids.get(key, uid), uid}:
            self._forget(each)
        self._uids[key] = uid
        if obj.spec.node_name:
            row = self._state.nodes.row_of.get(obj.spec.node_name)
            node = self._state.nodes.infos[row] if row is not None else None
            # More was known than can be read now: its group, and requests of all containers.
            before = known.info if known is not None else None
            self._set(held_pod_info(obj, before, node))
        elif obj.spec.scheduler_name in self._schedulers:
            self.pending[uid] = PendingPod.of(decode_refused_pod(raw))
            self._set(refused_pod_info(obj))
        self._on_change()

    def delete(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._forget(uid)
            self._on_change()

    def _set(self, info: PodInfo) -> None:
        known = self._state.pods.get(info.uid)
        # Read before the change: an expected pod may get the place that the pod leaves.
        left = LastPodState.of(self._state, info.uid) if self._expected is not None else None
        if known is not None and known.assumed and info.group == known.info.group:
            # It is being bound, and another API by now has its group: it stays until it is bound.
            info = replace(info, group_kind=known.info.group_kind)
        # Claims first: the stage is part of the requirements that they replace.
        info = self.claims.applied(info, known)
        if self._expected is not None:
            info = self._expected.staged(info)
        try:
            if known is not None and _group_of(known.info) != _group_of(info):
                # The state assigns a group only when it adds a pod.
                self._state.remove_pod(info.uid)
            self._state.set_pod(info)
        # A change that broke off may be in some tables only. The reflector skips the object.
        except Exception:
            self._state.discard_pod(info.uid)
            raise
        if self._expected is not None:
            self._expected.on_pod_changed(info, left).apply(self._state)

    def _forget(self, uid: str) -> None:
        self.pending.pop(uid, None)
        self._members.forget(uid)
        self._departures.forget(uid)
        for info in self._growth.forget(uid):
            self._set(info)
        promoted = self.claims.forget(uid)
        left = LastPodState.of(self._state, uid) if self._expected is not None else None
        try:
            self._state.remove_pod(uid)
        except Exception:
            self._state.discard_pod(uid)
            raise
        if self._expected is not None:
            self._expected.forget(uid, left).apply(self._state)
        self._reshape_promoted(promoted)

    def _reshape_promoted(self, uids: list[str]) -> None:
        """Evaluate pods that moved up among the pods that changes of a claim concern."""
        for uid in uids:
            self.reshape(uid)


def _group_of(info: PodInfo) -> tuple[str | None, str]:
    return info.group, info.group_kind


class PriorityClassHandler:
    """Event handler of PriorityClasses, which decide if groups may preempt."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._by_name: dict[str, PriorityClass] = {}

    def all(self) -> list[PriorityClass]:
        """Return all classes, sorted by name."""
        return sorted(self._by_name.values(), key=lambda each: each.name)

    def upsert(self, obj: RawObject) -> None:
        self.delete(("", obj.metadata.name))
        found = self._by_name[obj.metadata.name] = PriorityClass.of(obj.raw)
        if found.preempts_never:
            self._state.modest_classes.add(found.name)

    def delete(self, key: Key) -> None:
        self._by_name.pop(key[1], None)
        self._state.modest_classes.discard(key[1])


class DaemonSetHandler:
    """Event handler of DaemonSets, whose pods are never victims."""

    def __init__(self, state: State) -> None:
        self._daemons = state.units.daemons
        self._uids: dict[Key, str] = {}

    def upsert(self, obj: Partial) -> None:
        meta = obj.metadata
        if self._uids.get(meta.key) != meta.uid:
            # Another DaemonSet of this name: the watch missed the deletion.
            self.delete(meta.key)
            self._uids[meta.key] = meta.uid
            self._daemons.set((meta.namespace, meta.uid))

    def delete(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._daemons.unset((key[0], uid))


class GroupHandler:
    """Event handler of PodGroups or CompositePodGroups. It keeps the last object of each."""

    def __init__(
        self,
        kind: str,
        state: State,
        on_change: Callable[[], None],
        observed: dict[GroupKey, GroupObject],
        members: Callable[[Key, GroupObject | None], None] = lambda _key, _group: None,
        *,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Start without groups. `members` gets PodGroups, which may keep back or release pods."""
        self._gates = gates
        self._kind = kind
        self._state = state
        self._on_change = on_change
        self._observed = observed
        self._members = members

    def upsert(self, obj: GroupObject) -> None:
        spec = decode.group_spec(self._kind, obj, self._gates)
        known = self._observed.get(spec.key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            # Another group of this name: the watch missed the deletion.
            self._state.remove_group(spec.key)
        try:
            self._state.set_group(spec)
            if decode.initially_scheduled(obj):
                self._state.forest.was_scheduled(spec.key)
            elif known is None or known.metadata.uid != obj.metadata.uid:
                self._adopt_wait(obj, spec)
        except Exception:
            # A group that is applied in part could be decided; without it, its pods wait.
            self.delete(key=(spec.key[1], spec.key[2]))
            raise
        self._observed[spec.key] = obj
        self._members((spec.key[1], spec.key[2]), obj)
        self._on_change()

    def _adopt_wait(self, obj: GroupObject, spec: GroupSpec) -> None:
        """Adopt the wait for the first start from the status of a group that was not known."""
        wait = decode.start_wait(obj, spec.start_within) if spec.start_within else None
        if wait is not None:
            self._state.set_start_wait(self._state.forest.groups[spec.key], wait)

    def known(self) -> list[Key]:
        """Return the keys of all groups of the kind."""
        return [(namespace, name) for kind, namespace, name in self._observed if kind == self._kind]

    def delete(self, key: Key) -> None:
        group: GroupKey = (self._kind, *key)
        self._observed.pop(group, None)
        self._state.remove_group(group)
        self._members(key, None)
        self._on_change()
