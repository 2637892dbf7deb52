"""Units of preemption: pods that can only be evicted together (KEP-4671), as a table of pods.

A unit is all running pods under the highest ancestor of disruption mode `all`, or else the running
pods of one slice, or else one pod. The table is updated pod by pod, so a decision reads arrays and
walks no trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.devices.sole_use import ALONE, FIRST_POSITIONS, OTHERWISE, HeldDevices
from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Forest, Group, Pod
from scheduler.core.groups.groups import slice_topology_keys
from scheduler.core.groups.slices import Slice, slices_of
from scheduler.core.nodes.node_table import Bools, Floats, Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.eviction_costs import CLOCK_SKEW, EvictionCosts
from scheduler.core.state.node_daemons import NodeDaemons
from scheduler.core.state.released_claims import ReleasedClaims
from scheduler.core.state.shape_requests import ShapeRequests
from scheduler.core.topology.topology import Topologies
from scheduler.core.values.model import GroupKey, plain_kind
from scheduler.core.values.run_protection import NO_PROTECTION
from scheduler.core.values.search_budget import nothing

_FIRST: Final = 64
"""Pods for which the arrays have space at first. They grow."""

LONGEST_GRACE: Final = 600
"""Seconds that a victim has to end, whatever grace period its owner chose.

The cluster autoscaler gives pods the same time by default. kube-scheduler has no such limit.
"""

EXTRA: Final = 1e13
"""Seconds by which pods beyond a gang's minCount count as younger, more than any difference."""

_TREES: Final = 1024
"""Changed trees that are kept before they are walked, even if no caller needs them yet."""


UnitId = GroupKey | str | tuple[GroupKey, int]
"""What a unit belongs to: a group, a pod by its UID, or a slice of a group by its number."""


@dataclass(slots=True, eq=False)
class Unit:
    """Pods that are evicted together; `group` is None if the unit is a single pod or a slice.

    `priority` is the lowest of its root group's and its pods' own: a pod of low priority cannot
    hide in a group of high priority. `priorities` counts the pods by priority. These are few,
    because each is the value of a PriorityClass. `spared` are the pods that cannot be evicted,
    `slow` those that take long to end.
    """

    key: GroupKey
    index: int
    group: Group | None
    priority: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    slots: set[int] = field(default_factory=set)
    priorities: Counter[int] = field(default_factory=Counter)
    spared: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    owner: UnitId = ""

    @property
    def name(self) -> str:
        kind, namespace, name = self.key
        return f"{plain_kind(kind)} {namespace}/{name}"


class UnitOwner(NamedTuple):
    """The unit of a pod: its group, None for the pod alone, and what counts for the pod in it.

    `priority` is the lower of the root group's and the pod's own. `root` is its root group, None
    for a pod without one. `min_run` is the time in seconds for which it may run before it is
    evicted, None if its root asks for none.
    """

    group: Group | None
    priority: int
    root: Group | None = None
    min_run: float | None = None


def unit_owner(pod: Pod, forest: Forest) -> UnitOwner:
    """Return the group with which the pod must be evicted.

    If an ancestor is missing or in a cycle, the pod is a unit of its own, and its own group's
    priority counts.
    """
    own = pod.group
    if own is None or own.spec is None:
        return UnitOwner(None, pod.info.priority, None, pod.info.preemption.min_run)
    highest, group = None, own
    while True:
        # Without its root, the disruption modes above are unknown. Evict the pod alone.
        if group.spec is None or forest.cyclic(group):
            return UnitOwner(None, _least(own, pod))
        if group.spec.disruption == "all":
            highest = group
        if group.spec.parent is None:
            return UnitOwner(highest, _least(group, pod), group, group.spec.min_run)
        if group.parent is None:
            return UnitOwner(None, _least(own, pod))
        group = group.parent


def _least(group: Group, pod: Pod) -> int:
    """Return the lower priority of the group and the pod; the pod's if Muster created the group."""
    priority = group.spec.priority if group.spec is not None else None
    # Muster created the group with the priority of its pods, which may have changed since.
    return (
        pod.info.priority
        if priority is None or group.created_by_muster
        else min(priority, pod.info.priority)
    )


def _is_slow(pod: Pod) -> bool:
    """Return True if the pod takes long to end after it is deleted."""
    return pod.info.preemption.grace > LONGEST_GRACE


class Units:
    """The table of units: one slot per pod that takes resources on a known node.

    Per slot (slots,), `rows`, `owners` and `shapes` are the indices of the pod's node, unit and
    shape, `started` is its start time and `ranks` the priority it counts with. Pods of roots that
    were preempted lately count as started earlier (`EvictionCosts.penalty`). `youth` orders pods
    that cost the same: by their start, but pods of a gang beyond its minCount, the newest, come
    after all others (`EXTRA` is added), as they are evicted first. Vacant slots have row -1.
    `leaving` pods should be deleted by `leaves_by` (infinity if unknown). `evicted` pods were
    chosen as victims. Evicted pods and daemons of the node have owner -1: they belong to no unit.

    `priorities`, `alive`, `slow` and `ends` are per unit. A unit with a pod that cannot be evicted
    is not alive. A unit with a pod that takes long to end is `slow`. A pod that others deleted is a
    unit of its own, which `ends` then; other units never do (infinity). `min_run` is how long units
    ask to run before they are evicted, in seconds, NaN if they do not. It counts from `since`, the
    start of the first pod that their root had since it had none; `protection` has the rules.
    `places` is the number of expected pods, which do not exist yet.
    """

    def __init__(
        self, framework: Framework, forest: Forest, devices: DeviceTable, topologies: Topologies
    ) -> None:
        self._framework = framework
        self._topologies = topologies
        self._devices = devices
        self._claims = ReleasedClaims(devices)
        self._forest = forest
        self.daemons = NodeDaemons(framework.nodes, self.stale)
        self._dirty: dict[str, Pod] = {}
        self._dirty_trees: dict[GroupKey, Group] = {}
        self._evicting: dict[str, float] = {}
        self._spared: set[str] = set()
        self.places = 0
        self._slots: dict[str, int] = {}
        self._pods: list[Pod | None] = []
        self._vacant: list[int] = []
        self._units: dict[UnitId, Unit] = {}
        self._by_index: list[Unit | None] = []
        self._in_namespace: dict[str, set[int]] = {}
        self._vacant_units: list[int] = []
        self._shapes: dict[int, Shape] = {}
        self._requests = ShapeRequests(framework.nodes.resources, self._shapes)
        self._users: dict[int, int] = {}
        self.rows: Ints = np.full(_FIRST, -1, np.int64)
        self.owners: Ints = np.full(_FIRST, -1, np.int64)
        self.shapes: Ints = np.zeros(_FIRST, np.int64)
        self.leaving: Bools = np.zeros(_FIRST, np.bool_)
        self.evicted: Bools = np.zeros(_FIRST, np.bool_)
        self.leaves_by: Floats = np.zeros(_FIRST)
        self.started: Floats = np.zeros(_FIRST)
        self.youth: Floats = np.zeros(_FIRST)
        self._changed_gangs: dict[GroupKey, Group] = {}
        self._elastic: set[GroupKey] = set()
        self.ranks: Ints = np.zeros(_FIRST, np.int64)
        self.priorities: Ints = np.zeros(_FIRST, np.int64)
        self.alive: Bools = np.zeros(_FIRST, np.bool_)
        self.ends: Floats = np.zeros(_FIRST)
        self.slow: Bools = np.zeros(_FIRST, np.bool_)
        self.min_run: Floats = np.full(_FIRST, np.nan)
        self.since: Floats = np.full(_FIRST, np.inf)
        self._first_starts: dict[GroupKey, float] = {}
        self.costs = EvictionCosts()
        self.protection = NO_PROTECTION

    def stale(self, pod: Pod) -> None:
        """Mark the pod as changed; the next `refresh` updates it."""
        self._dirty[pod.info.uid] = pod

    def on_pod_deleted(self, pod: Pod) -> bool:
        """Remove a deleted pod. Return True if it had been chosen as a victim."""
        uid = pod.info.uid
        victim = uid in self._evicting
        if uid in self._slots:
            self.stale(pod)
        else:
            # `refresh` would do this, but it is never called without preemption.
            self._dirty.pop(uid, None)
            self._forget(uid)
        return victim

    def stale_tree(self, group: Group) -> None:
        """Mark all pods under a group as changed; the next `refresh` walks the tree, once."""
        if not group.members and not group.children:
            return
        self._dirty_trees[group.key] = group
        if len(self._dirty_trees) >= _TREES:
            self._walk_dirty_trees()

    def _walk_dirty_trees(self) -> None:
        trees, self._dirty_trees = self._dirty_trees, {}
        for tree in trees.values():
            for leaf in tree.leaves():
                for pod in leaf.members.values():
                    self.stale(pod)

    def mark_evicting(self, pods: Iterable[Pod], by: float = np.inf) -> None:
        """Count the pods as leaving from now on: they are about to be evicted.

        They should be deleted at `by` (monotonic), or later if the API server reports a later time.
        """
        for pod in pods:
            self._evicting[pod.info.uid] = by
            self._spared.discard(pod.info.uid)
            self.stale(pod)

    def spare(self, pods: Iterable[Pod]) -> None:
        """Stop counting the pods as leaving, and keep their units: they cannot be evicted."""
        for pod in pods:
            self._evicting.pop(pod.info.uid, None)
            self._spared.add(pod.info.uid)
            self.stale(pod)

    def readmit(self, pods: Iterable[Pod]) -> None:
        """Let spared pods be chosen again."""
        for pod in pods:
            self._spared.discard(pod.info.uid)
            self.stale(pod)

    def forget_choices(self) -> None:
        """Forget the pods that this process chose or spared: there may have been another leader."""
        chosen = {*self._evicting, *self._spared}
        self._evicting.clear()
        self._spared.clear()
        for uid in chosen & self._slots.keys():
            pod = self._pods[self._slots[uid]]
            if pod is not None and uid not in self._dirty:
                self.stale(pod)

    def leaves(self, pod: Pod) -> bool:
        """Return True if the pod is terminating, or was selected as a victim and not spared."""
        return pod.info.terminating or self._is_evicted(pod)

    def _is_evicted(self, pod: Pod) -> bool:
        info = pod.info
        if info.uid in self._evicting:
            return True
        # A new leader knows earlier victims only by their DisruptionTarget condition.
        return info.preemption.targeted and info.uid not in self._spared

    def _leaves_by(self, pod: Pod) -> float:
        """Return when a leaving pod should be deleted (monotonic); infinity if unknown."""
        at = pod.info.preemption.leaves_by or np.inf
        if pod.info.uid not in self._evicting:
            return at
        # A shortened grace period counts from the first request: this time may be past.
        by = self._evicting[pod.info.uid]
        return max(at, by) if pod.info.preemption.leaves_by else by

    @property
    def evicting(self) -> Mapping[str, float]:
        """By UID, the time when the pods that are about to be evicted should be deleted."""
        return self._evicting

    @property
    def spared(self) -> frozenset[str]:
        """UIDs of the pods that cannot be evicted."""
        return frozenset(self._spared)

    def order(self, pause: Callable[[], None] = nothing) -> list[str]:
        """Return the UIDs of the table's pods by unit index; pods without a unit come last.

        The index of a unit breaks ties. `pause` is called as in a search.
        """
        self.refresh()
        last = len(self._by_index)

        pause()
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        owners = self.owners[slots]
        order = np.lexsort((slots, np.where(owners >= 0, owners, last)))
        pause()
        uids = list(self._slots)
        return [uids[at] for at in order.tolist()]

    def arrange(self, uids: Iterable[str]) -> None:
        """Let the next `refresh` start with those of these pods that changed, in this order.

        `refresh` numbers new units in the order of their pods. So a replayed snapshot breaks ties
        as the original state did.
        """
        self._walk_dirty_trees()
        first = {uid: self._dirty[uid] for uid in uids if uid in self._dirty}
        self._dirty = first | self._dirty

    def refresh(self) -> None:
        """Update the table, in time proportional to the pods that changed since the last call."""
        for _ in self.refresh_in_steps():
            pass

    def refresh_in_steps(self) -> Iterator[None]:
        """Update the table pod by pod, in the order of the changes. Pods may change in between."""
        for key in self.costs.expired(self.protection.now):
            root = self._forest.groups.get(key)
            if root is not None:
                self.stale_tree(root)
        self._walk_dirty_trees()
        while self._dirty:
            # Popping the first key each time would skip over all keys that were removed before it,
            # which takes quadratic time.
            for uid in list(self._dirty):
                pod = self._dirty.pop(uid, None)
                if pod is None:
                    continue  # deleted since
                # Remove and add instead of comparing: every column may differ.
                self._remove(uid)
                if pod.row >= 0:
                    self._add(uid, pod)
                else:
                    self._forget(uid)
                yield
        while self._changed_gangs:
            gang = self._changed_gangs.popitem()[1]
            yield from self._join_slices(gang)
            self._changed_gangs.pop(gang.key, None)
            self._rank_extras(gang)
            yield
        if len(self._devices.consumers):
            yield from self._refresh_held()

    def _join_slices(self, gang: Group) -> Iterator[None]:
        """Let the running pods of each slice of a gang be one unit, slice by slice."""
        for part in self._slices(gang):
            found = self._slots_alone([pod.info.uid for pod in part.running])
            for pod, slot in zip(part.running, found.tolist(), strict=True):
                owner = (gang.key, part.number)
                if slot >= 0 and self.unit(int(self.owners[slot])).owner != owner:
                    self._leave(slot, pod.info.uid)
                    self.costs.remove(pod.info.uid)
                    self._join(slot, pod, owner)
            yield

    def _slices(self, gang: Group) -> tuple[Slice, ...]:
        """Return the slices of a PodGroup; none if it has no slices."""
        slicing = gang.slicing
        if slicing is None or not gang.members:
            return ()
        keys = slice_topology_keys(gang, slicing.key)
        return slices_of(gang, self._topologies.of_groups(slicing.key, keys).codes).all

    def by_slice(self, gang: Group) -> dict[str, list[Pod]]:
        """Return by UID the running pods of the slice of each running pod of a PodGroup.

        Evicted ones are among them. Empty without slices.
        """
        parts = self._slices(gang)
        return {pod.info.uid: part.running for part in parts for pod in part.running}

    def _rank_extras(self, gang: Group) -> None:
        """Let the newest pods of a gang beyond its minCount count as the youngest.

        A gang below its minCount is not spared for its preemptions: otherwise each further one
        would break another gang.
        """
        is_gang, minimum = gang.spec is not None and gang.spec.gang, gang.minimum or 0
        elastic = (is_gang and gang.running > minimum) or gang.key in self._elastic
        # Most have none, and are not walked.
        if not elastic and not self.costs.counts(gang.top):
            return
        pods = list(gang.members.values())
        found = self._slots_alone(gang.members)
        order = np.flatnonzero(found >= 0).tolist()
        # Not by slot, which depends on the order of events.
        infos = [pod.info for pod in pods]
        order.sort(key=lambda at: (infos[at].started or np.inf, infos[at].created, infos[at].uid))
        slots = found[order]
        # Pods that have succeeded count for the minimum, too.
        needed = max(0, minimum - max(0, gang.running - len(slots)))
        if gang.slicing is not None:
            slots = self._slice_by_slice(slots)
        extras = slots[needed:] if is_gang else slots[:0]
        # A slice of which some pods are needed is needed.
        extras = extras[~np.isin(self.owners[extras], self.owners[slots[:needed]])]
        broken = is_gang and len(slots) < needed
        starts = [infos[at].started for at in order] if broken else self.started[slots]
        self.youth[slots] = starts
        self.youth[extras] += EXTRA
        (self._elastic.add if len(extras) else self._elastic.discard)(gang.key)

    def _slice_by_slice(self, slots: Ints) -> Ints:
        """Return the slots of one group so that those of a unit follow each other.

        Units whose first slot comes first are first.
        """
        _, first, unit = np.unique(self.owners[slots], return_index=True, return_inverse=True)
        return slots[np.argsort(first[unit], kind="stable")]

    def extras(self, slots: Ints) -> Bools:
        """Return which of these pods are beyond the minCount of their gang, (len(slots),)."""
        beyond: Bools = self.youth[slots] > EXTRA / 2
        return beyond

    def is_extra(self, uid: str) -> bool:
        """Return True if the pod is beyond the minCount of its gang."""
        slot = self._slots.get(uid)
        return slot is not None and bool(self.youth[slot] > EXTRA / 2)

    def _slots_alone(self, uids: Collection[str]) -> Ints:
        """Return the slot of each pod that is a unit of its own and stays if nobody evicts it.

        That of any other is -1. Huge gangs have one for each node, so slots are read together.
        """
        slots = np.fromiter((self._slots.get(uid, -1) for uid in uids), np.int64, len(uids))
        owners = np.where(slots < 0, -1, self.owners[slots])
        alone = (owners >= 0) & ~self.leaving[slots]
        units = (self.unit(owner).group is None for owner in owners[alone].tolist())
        alone[alone] = np.fromiter(units, np.bool_, int(alone.sum()))
        return np.where(alone, slots, -1)

    def slots_of_pods(self, uids: Iterable[str]) -> Ints:
        """Return the slots of those of these pods that are in the table."""
        found = [slot for uid in uids if (slot := self._slots.get(uid)) is not None]
        return np.array(found, np.int64)

    def deadlines(self) -> Iterator[tuple[int, float]]:
        """Yield slot and end of each pod with an activeDeadlineSeconds, in seconds since 1970."""
        for slot in self._slots.values():
            pod = self._pods[slot]
            if pod is not None and pod.info.preemption.deadline and pod.info.started:
                yield slot, pod.info.started + pod.info.preemption.deadline

    def unit(self, index: int) -> Unit:
        """Return the unit with this index. Raises LookupError if there is none."""
        unit = self._by_index[index]
        if unit is None:
            raise LookupError(index)
        return unit

    def below(self, priority: int, soon: float = np.inf) -> Ints:
        """Return the units of lower priority, which a preemptor of this priority may evict now.

        Pods that others deleted are among them only if they end later than `soon`. Those that have
        not run for their min-run-time are not.
        """
        stays = np.isinf(self.ends) | (self.ends > soon)
        lower: Ints = np.flatnonzero(self.alive & stays & (self.priorities < priority))
        if self.protection.holds_against(priority):
            lower = lower[self._protected_until(lower) <= self.protection.now]
        return lower

    def protected(self, priority: int) -> Floats:
        """Return the ends of the protection of each unit that only this spares from `below`."""
        if not self.protection.holds_against(priority):
            return np.zeros(0)
        lower = np.flatnonzero(self.alive & np.isinf(self.ends) & (self.priorities < priority))
        ends = self._protected_until(lower)
        return ends[ends > self.protection.now]

    def _protected_until(self, chosen: Ints) -> Floats:
        """Return when the protection of the chosen units ends, in seconds since 1970."""
        rules, asked, since = self.protection, self.min_run[chosen], self.since[chosen]
        lengths = np.minimum(np.where(np.isnan(asked), rules.usual, asked), rules.most)
        # What has not started has nothing to lose, and a start in the future is wrong.
        return np.where((lengths > 0) & (since <= rules.now + CLOCK_SKEW), since + lengths, 0.0)

    def _runs_since(self, pod: Pod, root: Group | None) -> float:
        """Return when the pod started, or an earlier pod of its root; infinity if none has."""
        started = pod.info.started or np.inf
        if root is None or not self.protection.most:
            return started
        # Not the first of those that run now: pods that take turns would be protected for ever.
        first = min(started, self._first_starts.get(root.key, np.inf))
        self._first_starts[root.key] = first
        return first

    def prompt(self, chosen: Ints) -> Ints:
        """Return the chosen units whose pods end soon after they are deleted, in their order."""
        found: Ints = chosen[~self.slow[chosen]]
        return found

    def departing(self, overdue: float, soon: float) -> Ints:
        """Return the slots of pods that count as deleted.

        Evicted pods do until they are `overdue`; pods that others deleted, only if they end `soon`.
        """
        in_time = (self.leaves_by >= overdue) & (self.evicted | (self.leaves_by <= soon))
        departing: Ints = np.flatnonzero(self.leaving & in_time)
        return departing

    def slots_of(self, units: Ints) -> Ints:
        """Return the slots of the pods of these units, in order."""
        # For few units their sets are cheaper than a pass over all slots.
        if len(units) < _FIRST:
            few = [slot for index in units.tolist() for slot in self.unit(index).slots]
            return np.array(sorted(few), np.int64)
        # One element more: owner -1 reads the last one, which stays False.
        chosen = np.zeros(len(self.priorities) + 1, np.bool_)
        chosen[units] = True
        slots: Ints = np.flatnonzero(chosen[self.owners])
        return slots

    def up_to(self, priority: int, without: Collection[str]) -> Ints:
        """Return the slots of pods of no higher priority, and of leaving pods, without these UIDs.

        Pods that belong to their node are not among them.
        """
        self.refresh()
        own = [self._slots[uid] for uid in without if uid in self._slots]
        lower = self.leaving | ((self.owners >= 0) & (self.ranks <= priority))
        lower[own] = False
        found: Ints = np.flatnonzero(lower & (self.rows >= 0))
        return found

    @property
    def depends_on_time(self) -> bool:
        """True if the choice of victims depends on the time in `protection`."""
        return bool(self.protection.most) or self.costs.any

    def release(self, slots: Ints, sign: int = 1) -> None:
        """Remove the pods of these slots from their nodes, in the open trial; -1 restores them.

        Claims that no other living pod uses release their devices.
        """
        rows, shapes = self.rows[slots], self.shapes[slots]
        # One call for each shape, not for each pod: thousands of victims have few shapes.
        for index in np.flatnonzero(np.bincount(shapes)).tolist():
            counts = np.bincount(rows[shapes == index])
            at = np.flatnonzero(counts)
            shape = self._shapes[index]
            # Devices belong to the claims, which are released below.
            self._framework.occupy(shape, at, -sign * counts[at], devices=False)
        if len(self._devices.consumers):
            self._release_claims(slots, sign)

    def _release_claims(self, slots: Ints, sign: int) -> None:
        kinds = self._held().kinds[slots]
        # Most pods are the only consumer of their claims and have devices of their own node. Those
        # are released by mask, without a look at each claim.
        self._devices.free_held(slots[kinds == ALONE], self.rows, again=sign < 0)
        others = slots[kinds == OTHERWISE]
        if len(others):
            self._claims.release(self._uids(others), sign)

    def _held(self) -> HeldDevices:
        """Return the devices that the pods of all slots keep by their claims."""
        for _ in self._refresh_held():
            pass
        return self._devices.held

    def _refresh_held(self) -> Iterator[None]:
        self._devices.refresh()
        while self._devices.held.refresh_one(self._slots, self.rows):
            yield

    def release_returning(self) -> None:
        """Let claims whose pods are deleted release their devices, in the open trial."""
        self._claims.release_returning()

    def overcommitted(self, rows: Ints, resources: Sequence[int]) -> Bools:
        """Return per row whether its pods use more than there is, devices included."""
        crowded = self._framework.nodes.overcommitted(rows, resources)
        if len(self._devices.consumers):
            crowded |= self._devices.clash(rows)
        return crowded

    def _uids(self, slots: Ints) -> list[str]:
        return [pod.info.uid for slot in slots.tolist() if (pod := self._pods[slot]) is not None]

    def released(self, slots: Ints, resource: int) -> Ints:
        """Return how much of a resource the pod of each slot requests, (len(slots),)."""
        held: Ints = self._requests.of(resource)[self.shapes[slots]]
        return held

    def within(self, namespaces: Iterable[str], chosen: Ints) -> Ints:
        """Return the chosen units that are in these namespaces, in their order."""
        there = set[int]().union(*(self._in_namespace.get(each, ()) for each in namespaces))
        found: Ints = chosen[np.isin(chosen, list(there))] if there else chosen[:0]
        return found

    def shapes_of(self, slots: Ints, *, each: bool = False) -> list[Shape]:
        """Return the shapes of the pods of these slots: of `each` in order, or all once."""
        indices = self.shapes[slots] if each else np.unique(self.shapes[slots])
        return [self._shapes[index] for index in indices.tolist()]

    def devices_held(self, slots: Ints, able: Sequence[int]) -> Ints:
        """Return how many of the `able` devices, by row, the pod of each slot keeps at most.

        A claim of several pods counts for each of them.
        """
        claims_of, use, held = self._devices.consumers.claims_of, self._devices.use, self._held()
        masks = np.array([mask & FIRST_POSITIONS for mask in able], np.uint64)
        found = held.counts(slots, masks, self.rows)
        others = np.flatnonzero(held.kinds[slots] == OTHERWISE)
        for at, uid in zip(others.tolist(), self._uids(slots[others]), strict=True):
            for key in claims_of(uid):
                place = use.place(key)
                # No single node: several nodes see these devices, so count all of them.
                if place is None:
                    found[at] += len(use.held(key))
                elif place[1]:
                    found[at] += (place[1] & able[place[0]]).bit_count()
        return found

    def seen_from(self, slots: Ints, rows: Bools) -> Ints:
        """Return the slots whose pods keep devices that several nodes see.

        One of these nodes must be among `rows` (N,).
        """
        consumers, use = self._devices.consumers, self._devices.use
        slots = slots[self._held().kinds[slots] == OTHERWISE]
        keeps = [
            any(
                use.place(key) is None and rows[list(use.rows(key))].any()
                for key in consumers.claims_of(uid)
            )
            for uid in self._uids(slots)
        ]
        found: Ints = slots[np.array(keeps, np.bool_)]
        return found

    def depart(self, uids: Iterable[str], overdue: float) -> bool:
        """Return True if one of these pods was evicted, is about to end and is not `overdue`."""
        slots = [self._slots[uid] for uid in uids if uid in self._slots]
        in_time = self.evicted[slots] & (self.leaves_by[slots] >= overdue)
        return bool(in_time.any())

    def places_only(self, chosen: Ints) -> Bools:
        """Return which units consist only of expected pods, which do not exist yet."""
        units = map(self.unit, chosen.tolist())
        only = [all(pod.info.expected for pod in unit.pods.values()) for unit in units]
        return np.array(only, np.bool_)

    def owners_of(self, chosen: Callable[[Shape], bool]) -> Ints:
        """Return the sorted units with a pod of such a shape; `chosen` is called once per shape."""
        shapes = [index for index, shape in self._shapes.items() if chosen(shape)]
        owners: Ints = np.unique(self.owners[np.isin(self.shapes, shapes)])
        return owners

    def _add(self, uid: str, pod: Pod) -> None:
        slot = self._vacant.pop() if self._vacant else self._new_slot()
        self._slots[uid] = slot
        self._pods[slot] = pod
        self.places += pod.info.expected
        # The index of a swept shape is reused, so compare the object.
        if self._shapes.get(pod.shape.index) is not pod.shape:
            self._shapes[pod.shape.index] = pod.shape
            self._requests.changed(pod.shape)
        self._users[pod.shape.index] = self._users.get(pod.shape.index, 0) + 1
        self.rows[slot] = pod.row
        self.shapes[slot] = pod.shape.index
        self._devices.held.stale(uid)
        evicted = self._is_evicted(pod)
        self.leaving[slot] = evicted or pod.info.terminating
        self.evicted[slot] = evicted
        self.leaves_by[slot] = self._leaves_by(pod)
        self.started[slot] = self.youth[slot] = pod.info.started
        if not evicted and not self.daemons.add(pod):
            self._join(slot, pod)

    def _join(self, slot: int, pod: Pod, part: UnitId = "") -> None:
        """Add the pod to its unit; a pod that others deleted is a unit of its own.

        `part` is the slice to which the pod belongs. It is known once the others are.
        """
        group, rank, root, min_run = unit_owner(pod, self._forest)
        since = self._runs_since(pod, root)
        self.costs.add(pod, root)
        penalty = self.costs.penalty(root, self.protection)
        if penalty:
            self.started[slot] = self.youth[slot] = pod.info.started - penalty
        if pod.info.terminating:
            # It leaves whatever happens to its group. Its peers need not be evicted with it.
            group, since = None, np.inf
        elif group is None and pod.group is not None:
            self._changed_gangs[pod.group.key] = pod.group
        unit, uid = self._unit_of(pod, group, part), pod.info.uid
        unit.pods[uid] = pod
        unit.slots.add(slot)
        if uid in self._spared:
            unit.spared.add(uid)
        if _is_slow(pod):
            unit.slow.add(uid)
        self.owners[slot] = unit.index
        self.ranks[slot] = rank
        self.min_run[unit.index] = np.nan if min_run is None else min_run
        self.since[unit.index] = min(since, self.since[unit.index])
        self.ends[unit.index] = pod.info.preemption.leaves_by if pod.info.terminating else np.inf
        unit.priorities[rank] += 1
        self._set_priority(unit)

    def _remove(self, uid: str) -> None:
        slot = self._slots.pop(uid, None)
        if slot is None:
            return
        known = self._pods[slot]
        self.places -= known is not None and known.info.expected
        self.daemons.remove(uid)
        self.costs.remove(uid)
        self._devices.held.forget(uid)
        if self.owners[slot] >= 0:
            self._leave(slot, uid)
        self.rows[slot] = self.owners[slot] = -1
        self.leaving[slot] = self.evicted[slot] = False
        self._pods[slot] = None
        self._release(int(self.shapes[slot]))
        self._vacant.append(slot)

    def _leave(self, slot: int, uid: str) -> None:
        """Remove the pod from its unit, which ends with its last pod."""
        unit, rank = self.unit(int(self.owners[slot])), int(self.ranks[slot])
        gang = unit.pods.pop(uid).group
        if gang is not None and unit.group is None:
            self._changed_gangs[gang.key] = gang
        if gang is not None and not gang.top.running_total:
            self._first_starts.pop(gang.top.key, None)
        unit.slots.discard(slot)
        unit.spared.discard(uid)
        unit.slow.discard(uid)
        unit.priorities[rank] -= 1
        if not unit.priorities[rank]:
            del unit.priorities[rank]
        self._set_priority(unit)
        if not unit.pods:
            del self._units[unit.owner]
            self._by_index[unit.index] = None
            there = self._in_namespace[unit.key[1]]
            there.discard(unit.index)
            if not there:
                del self._in_namespace[unit.key[1]]
            self._vacant_units.append(unit.index)

    def _unit_of(self, pod: Pod, group: Group | None, part: UnitId) -> Unit:
        # Use the UID: expected pods have no names of their own.
        owner = part or (pod.info.uid if group is None else group.key)
        unit = self._units.get(owner)
        if unit is None:
            key = pod.key if group is None else group.key
            if part and pod.group is not None:
                key = pod.group.key
            unit = self._units[owner] = Unit(key, self._new_unit(), group, owner=owner)
            self._by_index[unit.index] = unit
            self._in_namespace.setdefault(key[1], set()).add(unit.index)
        return unit

    def _set_priority(self, unit: Unit) -> None:
        """Set the unit's priority, and whether it may be evicted."""
        unit.priority = min(unit.priorities, default=0)
        self.priorities[unit.index] = unit.priority
        # Evicting the others of a gang would be useless if one pod cannot be evicted.
        self.alive[unit.index] = bool(unit.pods) and not unit.spared
        self.slow[unit.index] = bool(unit.slow)

    def _forget(self, uid: str) -> None:
        self._evicting.pop(uid, None)
        self._spared.discard(uid)

    def _release(self, shape: int) -> None:
        """Forget a shape that no pod of the table has."""
        self._users[shape] -= 1
        if not self._users[shape]:
            del self._users[shape], self._shapes[shape]

    def _new_slot(self) -> int:
        slot = len(self._pods)
        self._pods.append(None)
        if slot == len(self.rows):
            # Double the arrays, so that adding a pod costs O(1) on average.
            none = np.full(slot, -1, np.int64)
            self.rows = np.concatenate((self.rows, none))
            self.owners = np.concatenate((self.owners, none))
            self.shapes = np.concatenate((self.shapes, none))
            self.ranks = np.concatenate((self.ranks, np.zeros(slot, np.int64)))
            self.leaving = np.concatenate((self.leaving, np.zeros(slot, np.bool_)))
            self.evicted = np.concatenate((self.evicted, np.zeros(slot, np.bool_)))
            self.leaves_by = np.concatenate((self.leaves_by, np.zeros(slot)))
            self.started = np.concatenate((self.started, np.zeros(slot)))
            self.youth = np.concatenate((self.youth, np.zeros(slot)))
        return slot

    def _new_unit(self) -> int:
        if self._vacant_units:
            index = self._vacant_units.pop()
            self.since[index] = np.inf
            return index
        index = len(self._by_index)
        self._by_index.append(None)
        if index == len(self.priorities):
            self.priorities = np.concatenate((self.priorities, np.zeros(index, np.int64)))
            self.alive = np.concatenate((self.alive, np.zeros(index, np.bool_)))
            self.ends = np.concatenate((self.ends, np.zeros(index)))
            self.slow = np.concatenate((self.slow, np.zeros(index, np.bool_)))
            self.min_run = np.concatenate((self.min_run, np.full(index, np.nan)))
            self.since = np.concatenate((self.since, np.full(index, np.inf)))
        return index
