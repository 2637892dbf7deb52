"""Event handlers of each watched resource: they bring the state up to date between two cycles.

What a handler raises is about the object that it was given, which is then set aside. `set_aside`
keeps what must not be overlooked of such an object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sys import intern

from api import features
from api.constants import CONDITION_POD_SCHEDULED, POD_GROUP
from api.features import FeatureGates
from api.priority import PriorityClass
from api.scheduler_names import USUAL, SchedulerNames
from kube.base.clock import Clock, SystemClock
from kube.client.meta import Key, Partial, RawObject
from scheduler.core.state.state import State
from scheduler.core.values.extended_devices import ContainerDevices
from scheduler.core.values.model import ClaimKey, GroupKey, PodInfo
from scheduler.decoding import decode
from scheduler.decoding.objects import (
    ConditionType,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
)
from scheduler.decoding.pod_claims import PodClaims
from scheduler.decoding.undecodable_pods import decode_held_pod, held_pod_info
from scheduler.expected.claims import CLAIM, RESOURCE, Thing
from scheduler.expected.pods import Changes, ExpectedPods, Left
from scheduler.watch.departures import Departures
from scheduler.watch.growth import Growth
from scheduler.watch.membership import Membership


@dataclass(frozen=True, slots=True)
class PendingPod:
    """What a status patch of a waiting pod needs; `scheduled` is its condition PodScheduled."""

    resource_version: str
    conditions: tuple[str, ...]
    scheduled: ConditionType | None = None

    @classmethod
    def of(cls, obj: Pod) -> PendingPod:
        conditions = obj.status.conditions
        types = tuple(condition.type for condition in conditions)
        scheduled = next((it for it in conditions if it.type == CONDITION_POD_SCHEDULED), None)
        if scheduled is not None:
            scheduled.message = intern(scheduled.message)  # all pods of a group say the same
        return cls(obj.metadata.resource_version, types, scheduled)


class NodeHandler:
    """Handles events of nodes."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._state = state
        self._on_change = on_change

    def upsert(self, obj: Node) -> None:
        self._state.set_node(decode.node_info(obj))
        self._on_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """A node that cannot be taken in takes no pods."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._state.remove_node(key[1])
        self._on_change()


class NamespaceHandler:
    """Handles events of namespaces, whose labels namespace selectors look at."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._state = state
        self._on_change = on_change

    def upsert(self, obj: Namespace) -> None:
        self._state.set_namespace(obj.metadata.name, obj.metadata.labels)
        self._on_change()

    def delete(self, key: Key) -> None:
        self._state.remove_namespace(key[1])
        self._on_change()


class PodHandler:
    """Handles events of all pods. `pending` has what status patches of our waiting pods need."""

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
        """`claims_refused` says why pods with ResourceClaims are refused; empty if they are not.

        Without `expected` groups have no pods but those that exist, without `clock` the machine's
        counts.
        """
        self.pending: dict[str, PendingPod] = {}
        self._state = state
        self._schedulers = schedulers
        self._on_change = on_change
        self._uids: dict[Key, str] = {}
        self._members = Membership(state)
        self._growth = Growth()
        self._departures = Departures(clock or SystemClock())
        self._expected = expected
        self.unreadable_claims: dict[ClaimKey, str] = {}
        self._claims = PodClaims(state.devices, self.unreadable_claims, claims_refused)

    def serve_claims(self, *, templates: bool = False) -> None:
        """The API server serves ResourceClaims, and all that there are have been delivered.

        `templates`: those of which claims are made, too.
        """
        self._claims.serve()
        for uid in self._claims.all():
            self.reshape(uid)
        if self._expected is not None:
            self._expected.claims.serve(templates=templates)
            self.renew_expected()

    def renew_expected(self) -> None:
        """Expected pods of some groups are counted anew, where something changed that they name."""
        if self._expected is not None:
            self.apply(self._expected.renewed())

    def template_is(self, key: Key, spec: bytes | None) -> None:
        """A ResourceClaimTemplate is there with this spec, or gone (None)."""
        if self._expected is not None:
            self._expected.claims.template_is(key, spec)
            self.renew_expected()

    def _named_changed(self, thing: Thing) -> None:
        """Expected pods that name it are counted anew."""
        if self._expected is not None:
            self._expected.claims.changed(thing)
            self.renew_expected()

    def claim_is(self, key: ClaimKey) -> None:
        """A ResourceClaim changed or is gone: its waiting pods count anew, and are decided anew."""
        for uid in self._claims.naming(key):
            self.reshape(uid)
            self._state.reconsider(uid)
        self._named_changed((CLAIM, *key))

    def resource_is(self, resource: str) -> None:
        """Another device class or none stands for it: its waiting pods are decided anew."""
        for uid in self._claims.requesting(resource):
            self.reshape(uid)
            self._state.reconsider(uid)
        self._named_changed((RESOURCE, "", resource))

    def containers_of(self, uid: str) -> tuple[ContainerDevices, ...]:
        """The containers of a waiting pod that request extended resources."""
        return self._claims.containers_of(uid)

    def claim_said(self, uid: str) -> str:
        """The name that the pod's status has of the ResourceClaim for extended resources."""
        return self._claims.claim_said(uid)

    def reshape(self, uid: str) -> None:
        """Count a waiting pod with its ResourceClaims as they are now."""
        pod = self._state.pods.get(uid)
        if pod is not None and not (pod.placed or pod.info.expected):
            self._set(pod.info)

    def group_is(self, key: Key, group: GroupObject | None) -> None:
        """A PodGroup changed or is gone (None): pods that name it may have to be held now."""
        for info in self._members.group_is(key, group):
            for each in self._growth.judged_again(info):
                self._set(each)
        for info in self._growth.group_is(key, group):
            self._set(info)
        if self._claims.group_is(key, group):
            known = self._state.forest.groups.get((POD_GROUP.kind, *key))
            for uid in filter(self._claims.has, list(known.members) if known else ()):
                self.reshape(uid)
                self._state.reconsider(uid)
        if self._expected is not None:
            self.apply(self._expected.group_is(key, group))

    def upsert(self, obj: Pod) -> None:
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        before = self._uids.get(key)
        if before is not None and before != meta.uid:
            self._forget(before)  # another pod of this name: the deletion was missed
        self._uids[key] = meta.uid
        known = self._state.pods.get(meta.uid)
        before_info = known.info if known is not None else None
        info = decode.pod_info(obj, before_info, self._schedulers)
        info = self._departures.timed(info, before_info, meta.deletion_grace_period_seconds)
        self._claims.note(obj, info)
        if info.ours and not info.node:
            self.pending[meta.uid] = PendingPod.of(obj)
        else:
            self.pending.pop(meta.uid, None)
        for each in self._growth.judged(obj, self._members.judged(info)):
            self._set(each)
        self._on_change()

    def set_aside(self, key: Key, raw: bytes) -> None:
        """A bound pod keeps its place and its group; one that waits does not wait any more."""
        obj = decode_held_pod(raw)
        uid = obj.metadata.uid
        known = self._state.pods.get(uid)
        self._forget(uid)
        self._uids[key] = uid
        if obj.spec.node_name:
            row = self._state.nodes.row_of.get(obj.spec.node_name)
            node = self._state.nodes.infos[row] if row is not None else None
            before = known.info if known is not None else None
            self._set(held_pod_info(obj, before, node))
        self._on_change()

    def delete(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._forget(uid)
            self._on_change()

    def _set(self, info: PodInfo) -> None:
        known = self._state.pods.get(info.uid)
        left = Left.of(self._state, info.uid) if self._expected is not None else None
        info = self._claims.applied(info, known)
        if self._expected is not None:
            info = self._expected.staged(info)
        try:
            if known is not None and known.info.group != info.group:
                self._state.remove_pod(info.uid)  # it left another's group, or came to its own
            self._state.set_pod(info)
        except Exception:
            self._state.discard_pod(info.uid)
            raise
        if self._expected is not None:
            self.apply(self._expected.pod_is(info, left))

    def apply(self, changes: Changes) -> None:
        """Bring the expected pods of the state up to date."""
        for uid in changes.gone:
            self._state.remove_pod(uid)
        for info in changes.set:
            self._state.set_pod(info)

    def _forget(self, uid: str) -> None:
        self.pending.pop(uid, None)
        self._members.forget(uid)
        self._departures.forget(uid)
        for info in self._growth.forget(uid):
            self._set(info)
        others = self._claims.forget(uid)
        left = Left.of(self._state, uid) if self._expected is not None else None
        try:
            self._state.remove_pod(uid)
        except Exception:
            self._state.discard_pod(uid)
            raise
        if self._expected is not None:
            self.apply(self._expected.forget(uid, left))
        for each in others:
            self.reshape(each)


class PriorityClassHandler:
    """Handles events of PriorityClasses, which say whether groups may preempt."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._by_name: dict[str, PriorityClass] = {}

    def all(self) -> list[PriorityClass]:
        """By name."""
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
    """Handles events of DaemonSets, whose pods are never victims."""

    def __init__(self, state: State) -> None:
        self._daemons = state.units.daemons
        self._uids: dict[Key, str] = {}

    def upsert(self, obj: Partial) -> None:
        meta = obj.metadata
        if self._uids.get(meta.key) != meta.uid:
            self.delete(meta.key)  # another one of this name: the deletion was missed
            self._uids[meta.key] = meta.uid
            self._daemons.set((meta.namespace, meta.uid))

    def delete(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._daemons.unset((key[0], uid))


class DisruptionBudgetHandler:
    """Handles events of PodDisruptionBudgets; they have no root decided again."""

    def __init__(self, state: State) -> None:
        self._state = state

    def upsert(self, obj: PodDisruptionBudget) -> None:
        self._state.disruption_budgets.set(decode.disruption_budget(obj))

    def delete(self, key: Key) -> None:
        self._state.disruption_budgets.remove(key)


class GroupHandler:
    """Handles events of PodGroups or CompositePodGroups; keeps the objects as last delivered."""

    def __init__(
        self,
        kind: str,
        state: State,
        on_change: Callable[[], None],
        observed: dict[GroupKey, GroupObject],
        pods: PodHandler | None = None,
        *,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """`pods` hears of PodGroups: pods that name one may have to be held."""
        self._gates = gates
        self._kind = kind
        self._state = state
        self._on_change = on_change
        self._observed = observed
        self._pods = pods

    def upsert(self, obj: GroupObject) -> None:
        spec = decode.group_spec(self._kind, obj, self._gates)
        known = self._observed.get(spec.key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._state.remove_group(spec.key)  # another one of this name: the deletion was missed
        try:
            self._state.set_group(spec)
            if decode.initially_scheduled(obj):
                self._state.forest.was_scheduled(spec.key)
        except Exception:
            self.delete(key=(spec.key[1], spec.key[2]))
            raise
        self._observed[spec.key] = obj
        if self._pods is not None:
            self._pods.group_is((spec.key[1], spec.key[2]), obj)
        self._on_change()

    def delete(self, key: Key) -> None:
        group: GroupKey = (self._kind, *key)
        self._observed.pop(group, None)
        self._state.remove_group(group)
        if self._pods is not None:
            self._pods.group_is(key, None)
        self._on_change()
