"""Units of preemption: pods that can only be evicted together (KEP-4671), as a table of pods.

A unit is all running pods under the highest ancestor of disruption mode `all`, or else one pod. The
table is updated pod by pod, so a decision reads arrays and walks no trees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.core.forest import Forest, Group, Pod
from scheduler.core.framework import Framework
from scheduler.core.model import GroupKey
from scheduler.core.node_table import Bools, Floats, Ints
from scheduler.core.shapes import Shape

_FIRST: Final = 64


@dataclass(slots=True, eq=False)
class Unit:
    """Pods that are evicted together; `group` is None if the unit is a single pod.

    `priority` is that of its root group, or the pod's own without a group.
    """

    key: GroupKey
    index: int
    group: Group | None
    priority: int
    pods: dict[str, Pod] = field(default_factory=dict)
    slots: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        kind, namespace, name = self.key
        return f"{kind} {namespace}/{name}"


def unit_owner(pod: Pod, forest: Forest) -> tuple[Group | None, int]:
    """The group with which the pod must be evicted, None for the pod alone, and the priority.

    If an ancestor is missing or in a cycle, the pod is a unit of its own with its group's priority.
    """
    own = pod.group
    if own is None or own.spec is None:
        return (None, pod.info.priority)
    highest, group = None, own
    while True:
        if group.spec is None or forest.cyclic(group):
            return (None, _resolved(own, pod))
        if group.spec.disruption == "all":
            highest = group
        if group.spec.parent is None:
            return (highest, _resolved(group, pod))
        if group.parent is None:
            return (None, _resolved(own, pod))
        group = group.parent


def _resolved(group: Group, pod: Pod) -> int:
    """The group's priority, or the pod's own if the group's is not resolved."""
    priority = group.spec.priority if group.spec is not None else None
    return pod.info.priority if priority is None else priority


class Units:
    """The table of units: one slot per pod that takes resources on a known node.

    Per slot (slots,), `rows`, `owners` and `shapes` are the indices of the pod's node, unit and
    shape, and `started` is its start time. Vacant slots have row -1. `leaving` pods should be gone
    by `leaves_by` (infinity if unknown), and have owner -1: they belong to no unit. `priorities`
    and `alive` are per unit. A unit with a pod that cannot be evicted is not alive.
    """

    def __init__(self, framework: Framework, forest: Forest) -> None:
        self._framework = framework
        self._forest = forest
        self._dirty: dict[str, Pod] = {}
        self._evicting: set[str] = set()
        self._spared: set[str] = set()
        self._slots: dict[str, int] = {}
        self._pods: list[Pod | None] = []
        self._vacant: list[int] = []
        self._units: dict[GroupKey, Unit] = {}
        self._by_index: list[Unit | None] = []
        self._vacant_units: list[int] = []
        self._shapes: dict[int, Shape] = {}
        self.rows: Ints = np.full(_FIRST, -1, np.int64)
        self.owners: Ints = np.full(_FIRST, -1, np.int64)
        self.shapes: Ints = np.zeros(_FIRST, np.int64)
        self.leaving: Bools = np.zeros(_FIRST, np.bool_)
        self.leaves_by: Floats = np.zeros(_FIRST)
        self.started: Floats = np.zeros(_FIRST)
        self.priorities: Ints = np.zeros(_FIRST, np.int64)
        self.alive: Bools = np.zeros(_FIRST, np.bool_)

    def stale(self, pod: Pod) -> None:
        """Mark the pod as changed; the next `refresh` updates it."""
        self._dirty[pod.info.uid] = pod

    def gone(self, pod: Pod) -> None:
        """The pod was deleted."""
        uid = pod.info.uid
        if uid in self._slots:
            self.stale(pod)
        else:
            # Not left to `refresh`, which is never called without preemption.
            self._dirty.pop(uid, None)
            self._forget(uid)

    def stale_tree(self, group: Group) -> None:
        """Mark all pods under a group as changed."""
        for leaf in group.leaves():
            for pod in leaf.members.values():
                self.stale(pod)

    def mark_evicting(self, pods: Iterable[Pod]) -> None:
        """Count the pods as leaving from now on: they are about to be evicted."""
        for pod in pods:
            self._evicting.add(pod.info.uid)
            self.stale(pod)

    def spare(self, pods: Iterable[Pod]) -> None:
        """Stop counting the pods as leaving, and keep their units: they cannot be evicted."""
        for pod in pods:
            self._evicting.discard(pod.info.uid)
            self._spared.add(pod.info.uid)
            self.stale(pod)

    def leaves(self, pod: Pod) -> bool:
        """Whether the pod is terminating, or selected as a victim and not spared."""
        info = pod.info
        if info.terminating or info.uid in self._evicting:
            return True
        return info.targeted and info.uid not in self._spared

    @property
    def evicting(self) -> frozenset[str]:
        """UIDs of the pods that are about to be evicted."""
        return frozenset(self._evicting)

    @property
    def spared(self) -> frozenset[str]:
        """UIDs of the pods that cannot be evicted."""
        return frozenset(self._spared)

    def order(self) -> list[str]:
        """UIDs of the table's pods by unit index, which breaks ties; pods without a unit last."""
        self.refresh()
        last = len(self._by_index)
        ranked = ((int(self.owners[slot]), slot, uid) for uid, slot in self._slots.items())
        return [uid for _, _, uid in sorted((o if o >= 0 else last, s, u) for o, s, u in ranked)]

    def arrange(self, uids: Iterable[str]) -> None:
        """Let the next `refresh` start with those of these pods that changed, in this order.

        It numbers new units in the order of their pods.
        """
        first = {uid: self._dirty[uid] for uid in uids if uid in self._dirty}
        self._dirty = first | self._dirty

    def refresh(self) -> None:
        """Update the table, in time proportional to the pods that changed since the last call."""
        dirty, self._dirty = self._dirty, {}
        for uid, pod in dirty.items():
            self._remove(uid)
            if pod.row >= 0:
                self._add(uid, pod)
            else:
                self._forget(uid)

    def unit(self, index: int) -> Unit:
        """The unit with this index. Raises LookupError if there is none."""
        unit = self._by_index[index]
        if unit is None:
            raise LookupError(index)
        return unit

    def below(self, priority: int) -> Ints:
        """Indices of the units of lower priority, which a preemptor of this priority may evict."""
        lower: Ints = np.flatnonzero(self.alive & (self.priorities < priority))
        return lower

    def slots_of(self, units: Ints) -> Ints:
        """The slots of the pods of these units, in order."""
        if len(units) < _FIRST:
            few = [slot for index in units.tolist() for slot in self.unit(index).slots]
            return np.array(sorted(few), np.int64)
        chosen = np.zeros(len(self.priorities) + 1, np.bool_)
        chosen[units] = True
        slots: Ints = np.flatnonzero(chosen[self.owners])
        return slots

    def slots_besides(self, uids: Collection[str]) -> Ints:
        """The slots of all pods but these, leaving ones included; in order."""
        self.refresh()
        return np.array(sorted(s for uid, s in self._slots.items() if uid not in uids), np.int64)

    def release(self, slots: Ints, sign: int = 1) -> None:
        """Take the pods of these slots off their nodes, in the open trial; -1 puts them back."""
        rows, shapes = self.rows[slots], self.shapes[slots]
        for index in np.flatnonzero(np.bincount(shapes)).tolist():
            counts = np.bincount(rows[shapes == index])
            at = np.flatnonzero(counts)
            shape = self._shapes[index]
            self._framework.reserve(shape, at, -sign * counts[at])

    def released(self, slots: Ints, resource: int) -> Ints:
        """How much of a resource the pod of each slot requests, (len(slots),)."""
        table = np.zeros(max(self._shapes, default=0) + 1, np.int64)
        for index, shape in self._shapes.items():
            if resource < len(shape.request):
                table[index] = shape.request[resource]
        held: Ints = table[self.shapes[slots]]
        return held

    def _add(self, uid: str, pod: Pod) -> None:
        slot = self._vacant.pop() if self._vacant else self._new_slot()
        self._slots[uid] = slot
        self._pods[slot] = pod
        self._shapes[pod.shape.index] = pod.shape
        self.rows[slot] = pod.row
        self.shapes[slot] = pod.shape.index
        leaves = self.leaves(pod)
        self.leaving[slot] = leaves
        self.leaves_by[slot] = pod.info.leaves_by or np.inf
        self.started[slot] = pod.info.started
        if leaves:
            return
        unit = self._unit_of(pod)
        unit.pods[uid] = pod
        unit.slots.add(slot)
        self.owners[slot] = unit.index
        self._judge(unit)

    def _remove(self, uid: str) -> None:
        slot = self._slots.pop(uid, None)
        if slot is None:
            return
        if self.owners[slot] >= 0:
            unit = self.unit(int(self.owners[slot]))
            del unit.pods[uid]
            unit.slots.discard(slot)
            self._judge(unit)
            if not unit.pods:
                del self._units[unit.key]
                self._by_index[unit.index] = None
                self._vacant_units.append(unit.index)
        self.rows[slot] = self.owners[slot] = -1
        self.leaving[slot] = False
        self._pods[slot] = None
        self._vacant.append(slot)

    def _unit_of(self, pod: Pod) -> Unit:
        group, priority = unit_owner(pod, self._forest)
        key = pod.key if group is None else group.key
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = Unit(key, self._new_unit(), group, priority)
            self._by_index[unit.index] = unit
        # If the group's priority is not resolved, the highest of its pods counts.
        unit.priority = max(unit.priority, priority) if unit.pods else priority
        self.priorities[unit.index] = unit.priority
        return unit

    def _judge(self, unit: Unit) -> None:
        kept = any(uid in unit.pods for uid in self._spared)
        self.alive[unit.index] = bool(unit.pods) and not kept

    def _forget(self, uid: str) -> None:
        self._evicting.discard(uid)
        self._spared.discard(uid)

    def _new_slot(self) -> int:
        slot = len(self._pods)
        self._pods.append(None)
        if slot == len(self.rows):
            none = np.full(slot, -1, np.int64)
            self.rows = np.concatenate((self.rows, none))
            self.owners = np.concatenate((self.owners, none))
            self.shapes = np.concatenate((self.shapes, none))
            self.leaving = np.concatenate((self.leaving, np.zeros(slot, np.bool_)))
            self.leaves_by = np.concatenate((self.leaves_by, np.zeros(slot)))
            self.started = np.concatenate((self.started, np.zeros(slot)))
        return slot

    def _new_unit(self) -> int:
        if self._vacant_units:
            return self._vacant_units.pop()
        index = len(self._by_index)
        self._by_index.append(None)
        if index == len(self.priorities):
            self.priorities = np.concatenate((self.priorities, np.zeros(index, np.int64)))
            self.alive = np.concatenate((self.alive, np.zeros(index, np.bool_)))
        return index
