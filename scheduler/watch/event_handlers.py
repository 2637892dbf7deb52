"""Event handlers of each watched resource: they bring the state up to date between two cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from api.priority import PriorityClass
from kube.meta import Key, RawObject
from kube.quantity import QuantityError
from scheduler.core.model import GroupKey
from scheduler.core.state import State
from scheduler.metrics import UNUSABLE_OBJECTS
from scheduler.watch import decode
from scheduler.watch.objects import GroupObject, Namespace, Node, Pod, PodDisruptionBudget

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PendingPod:
    """What a status patch of a waiting pod needs."""

    resource_version: str
    conditions: tuple[str, ...]


class NodeHandler:
    """Handles events of nodes."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._state = state
        self._on_change = on_change

    def upsert(self, obj: Node) -> None:
        """A node with a quantity that cannot be read takes no pods: it is left out and logged."""
        try:
            info = decode.node_info(obj)
        except QuantityError as error:
            skip_unreadable("nodes", obj.metadata.name, error)
            self._state.remove_node(obj.metadata.name)
        else:
            self._state.set_node(info)
        self._on_change()

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
        self._state.set_namespace(key[1], {})
        self._on_change()


class PodHandler:
    """Handles events of all pods. `pending` has what status patches of our waiting pods need."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self.pending: dict[str, PendingPod] = {}
        self._state = state
        self._on_change = on_change
        self._uids: dict[Key, str] = {}

    def upsert(self, obj: Pod) -> None:
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        before = self._uids.get(key)
        if before is not None and before != meta.uid:
            self._forget(before)  # another pod of this name: the deletion was missed
        self._uids[key] = meta.uid
        try:
            known = self._state.pods.get(meta.uid)
            info = decode.pod_info(obj, known.info if known is not None else None)
        except QuantityError as error:
            skip_unreadable("pods", f"{meta.namespace}/{meta.name}", error)
            return
        if info.ours and not info.node:
            conditions = tuple(condition.type for condition in obj.status.conditions)
            self.pending[meta.uid] = PendingPod(meta.resource_version, conditions)
        else:
            self.pending.pop(meta.uid, None)
        self._state.set_pod(info)
        self._on_change()

    def delete(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._forget(uid)
            self._on_change()

    def _forget(self, uid: str) -> None:
        self.pending.pop(uid, None)
        self._state.remove_pod(uid)


class PriorityClassHandler:
    """Handles events of PriorityClasses; only snapshots need them, no decision does."""

    def __init__(self) -> None:
        self._by_name: dict[str, PriorityClass] = {}

    def all(self) -> list[PriorityClass]:
        """By name."""
        return sorted(self._by_name.values(), key=lambda each: each.name)

    def upsert(self, obj: RawObject) -> None:
        self._by_name[obj.metadata.name] = PriorityClass.of(obj.raw)

    def delete(self, key: Key) -> None:
        self._by_name.pop(key[1], None)


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
    ) -> None:
        self._kind = kind
        self._state = state
        self._on_change = on_change
        self._observed = observed

    def upsert(self, obj: GroupObject) -> None:
        spec = decode.group_spec(self._kind, obj)
        self._observed[spec.key] = obj
        self._state.set_group(spec)
        self._on_change()

    def delete(self, key: Key) -> None:
        group: GroupKey = (self._kind, *key)
        self._observed.pop(group, None)
        self._state.remove_group(group)
        self._on_change()


def skip_unreadable(resource: str, name: str, error: QuantityError) -> None:
    """Count and log an object that is left out because of a quantity that cannot be read."""
    UNUSABLE_OBJECTS.labels(resource).inc()
    _log.error("object left out", resource=resource, name=name, problem=str(error))
