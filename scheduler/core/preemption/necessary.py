"""Arithmetic on what a set of units must free at least: every set that suffices passes it.

Most other sets fail, so the search for the fewest victims needs few dry runs. For many sets at once
it adds up what they free on each node. Then it checks for each group in the tree that some domain
has enough capacity for the group's minimum: slots for each shape, slots for pods that are at least
as large as a shape, and the sum of each resource. Terms about other pods, devices and host ports
are left to the dry run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.groups.forest import Group, outer_topology_keys
from scheduler.core.nodes.node_table import Bools, Floats, Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.search.place import group_of

Demand = Mapping[int, float]
"""Amounts by resource index."""

_ROUNDED: Final = 1 + 1e-9
"""Factor against rounding, as amounts are floats. Errors may only add capacity.

Sums of floats cannot overflow.
"""

_NONE: Final[Ints] = np.zeros(0, np.int64)


class _Partition:
    """The D domains that a group may be placed in, as sums over nodes: (..., T) to (..., D).

    `codes` (N,) are the domains of the nodes, -1 for none. `touched` are the T rows on which
    candidates run. Sums over all other rows are the same for each set.
    """

    def __init__(self, codes: Ints, size: int, touched: Ints) -> None:
        self.codes = codes
        self.size = size
        self._here = np.zeros((len(touched), size))
        inside = np.flatnonzero(codes[touched] >= 0)
        self._here[inside, codes[touched[inside]]] = 1.0
        self._elsewhere = codes.copy()
        self._elsewhere[touched] = -1

    def fixed(self, amounts: Floats) -> Floats:
        """Return sums (D,) over the nodes without candidates; the amounts are (N,)."""
        sums = np.bincount(self._elsewhere + 1, weights=amounts, minlength=self.size + 1)
        return sums[1:].astype(np.float64)

    def sums(self, amounts: Floats) -> Floats:
        """Return sums (B, D) over the nodes with candidates; the amounts are (B, T)."""
        found: Floats = amounts @ self._here
        return found

    def inside(self, outer: _Partition) -> Floats:
        """Return which of its domains are in which outer ones, (D, D of the outer)."""
        both = np.flatnonzero((self.codes >= 0) & (outer.codes >= 0))
        found = np.zeros((self.size, outer.size))
        found[self.codes[both], outer.codes[both]] = 1.0
        return found


class FreedResources:
    """The free resources that each of B sets leaves on the T touched nodes, and sums by domain."""

    def __init__(self, nodes: _FreeNodes, free: Floats) -> None:
        self._nodes = nodes
        self._free = free
        self._slots: dict[int, Floats] = {}

    def __len__(self) -> int:
        return len(self._free)

    def resource(self, resource: int, partition: _Partition) -> Floats:
        at = self._nodes.resources.index(resource)
        # An overcommitted node offers nothing, but takes nothing from other nodes either.
        everywhere = partition.fixed(np.maximum(self._nodes.free[at], 0))
        here = np.maximum(self._free[:, at], 0)
        return (partition.sums(here) + everywhere) * _ROUNDED

    def slots(self, shape: Shape, partition: _Partition, *, permitted: bool) -> Floats:
        """Return slots by domain (B, D); on any node, unless only `permitted` ones count."""
        nodes = self._nodes
        # Several groups ask for the same shape, and the domains differ, but not the slots of nodes.
        if shape.index not in self._slots:
            self._slots[shape.index] = nodes.slots(shape, self._free)
        here = self._slots[shape.index]
        everywhere = nodes.slots(shape, nodes.free[None])[0]
        if permitted:
            most = nodes.most[shape.index]
            here, everywhere = np.minimum(here, most[nodes.touched]), np.minimum(everywhere, most)
        return partition.sums(here) + partition.fixed(everywhere)


class _FreeNodes:
    """The nodes without the pods that leave in any case: `free` is (R, N), `gain` (U, R, T).

    `most` (N,) is how many pods of a shape a node takes if all candidates are evicted.
    """

    def __init__(self, dry_run: DryRun, candidates: Ints, shapes: list[Shape], gone: Ints) -> None:
        state, units = dry_run.state, dry_run.state.units
        self.resources = sorted({it for shape in shapes for it, _ in shape.request.demands})
        with dry_run.without(gone):
            free = state.nodes.free[self.resources][:, : state.nodes.size]
            self.free: Floats = free.astype(np.float64)
        # No set frees more than all candidates, so this is an upper bound for each set.
        with dry_run.without(np.union1d(candidates, gone)):
            self.most = {s.index: state.framework.capacity(s).astype(np.float64) for s in shapes}
        slots = units.slots_of(candidates)
        self.touched: Ints = np.unique(units.rows[slots])
        owners = np.searchsorted(candidates, units.owners[slots])
        places = np.searchsorted(self.touched, units.rows[slots])
        self.gain = np.zeros((len(candidates), len(self.resources), len(self.touched)))
        for at, resource in enumerate(self.resources):
            # Not `+=`, which counts repeated indices once: a unit may have several pods on a node.
            np.add.at(self.gain[:, at], (owners, places), units.released(slots, resource))

    def slots(self, shape: Shape, free: Floats) -> Floats:
        """Return for how many pods (B, nodes) the resources suffice; `free` is (B, R, nodes)."""
        found = np.full((len(free), free.shape[2]), np.inf)
        for resource, amount in shape.request.demands:
            capacity = free[:, self.resources.index(resource)] * _ROUNDED
            np.minimum(found, np.trunc(capacity / amount), out=found)
        # Without any demand, slots would be infinite, and sums of them useless.
        slots: Floats = np.clip(found, 0, 1e9)
        return slots


class _GroupNeed:
    """The needs of one group in one of its domains, and of those below it in theirs.

    `amounts` is the least of each resource, `larger` the least number of pods that are at least as
    large as a shape; infinite if there are too few pods.
    """

    def __init__(self, group: Group, partition: _Partition, wanted: int | None = None) -> None:
        self.partition = partition
        self._pending = {shape: len(pods) for shape, pods in group.pending.items()}
        self._children: list[_GroupNeed] = []
        if wanted is not None:
            self._count = wanted
        elif group.composite:
            self._count = max(0, (group.minimum or 0) - group.standing_children)
        else:
            self._count = max(0, (group.minimum or 0) - group.running)
        self.amounts: dict[int, float] = {}
        self.larger: dict[Shape, float] = {}

    def add(self, child: _GroupNeed) -> None:
        self._children.append(child)

    def sum_up(self, shapes: list[Shape], resources: list[int], *, composite: bool) -> None:
        for resource in resources:
            each = [
                float(dict(shape.request.demands).get(resource, 0))
                for shape, count in self._pending.items()
                for _ in range(count)
            ]
            each = [child.amounts[resource] for child in self._children] if composite else each
            self.amounts[resource] = _least(each, self._count)
        for shape in shapes:
            each = [
                float(_covers(other, shape))
                for other, count in self._pending.items()
                for _ in range(count)
            ]
            each = [child.larger[shape] for child in self._children] if composite else each
            self.larger[shape] = _least(each, self._count)

    def met(self, capacity: FreedResources) -> Bools:
        """Return in which domains each of the sets leaves enough, (B, D)."""
        met = np.ones((len(capacity), self.partition.size), np.bool_)
        for resource, amount in self.amounts.items():
            if amount > 0:
                met &= capacity.resource(resource, self.partition) >= amount
        for shape, count in self.larger.items():
            if count > 0:
                met &= capacity.slots(shape, self.partition, permitted=False) >= count
        if not self._count:
            return met
        if self._pending:
            found = sum(
                np.minimum(capacity.slots(shape, self.partition, permitted=True), count)
                for shape, count in self._pending.items()
            )
        else:
            found = sum(child.met_inside(self.partition, capacity) for child in self._children)
        enough: Bools = met & (found >= self._count)
        return enough

    def met_inside(self, outer: _Partition, capacity: FreedResources) -> npt.NDArray[np.int64]:
        """Return the same by the domains of the group above, as 0 or 1."""
        met = self.met(capacity)
        if self.partition is not outer:
            met = met.astype(np.float64) @ self.partition.inside(outer) > 0
        return met.astype(np.int64)


class Necessary:
    """A test of sets of the candidates: those that fail `passes` do not suffice.

    Other units are `gone` in any case.
    """

    def __init__(self, dry_run: DryRun, candidates: Ints, gone: Ints = _NONE) -> None:
        root = dry_run.root
        group = root if isinstance(root, Group) else group_of([root], minimum=1)
        self._shapes = sorted(
            {shape for leaf in group.leaves() for shape in leaf.pending}, key=lambda s: s.index
        )
        self._dry_run = dry_run
        self._nodes = _FreeNodes(dry_run, candidates, self._shapes, gone)
        everywhere = np.zeros(dry_run.state.nodes.size, np.int64)
        whole = _Partition(everywhere, 1, self._nodes.touched)
        if dry_run.extras is None:
            self._need = self._of(group, whole)
        else:
            self._need = self._of_extras(group, whole, dry_run.extras)

    @property
    def gain(self) -> Floats:
        """The amounts that each candidate frees, (U, R, T)."""
        return self._nodes.gain

    @property
    def cells(self) -> int:
        """Number of values to compute for each set."""
        return int(self._nodes.gain[0].size) * max(1, len(self._shapes))

    def passes(self, chosen: Bools) -> Bools:
        """Return which of B sets, (B, U), may suffice, (B,)."""
        if any(shape.requirements.stage is not None for shape in self._shapes):
            # Stages share capacity, so the sum of the pods' requests is too high.
            return np.ones(len(chosen), np.bool_)
        nodes = self._nodes
        units, *sizes = nodes.gain.shape
        flat = chosen.astype(np.float64) @ nodes.gain.reshape(units, math.prod(sizes))
        free = flat.reshape(len(chosen), *sizes) + nodes.free[:, nodes.touched]
        passed: Bools = np.any(self._need.met(FreedResources(nodes, free)), axis=1)
        return passed

    @property
    def hopeless(self) -> bool:
        """True if not even all candidates suffice."""
        return not self.passes(np.ones((1, len(self._nodes.gain)), np.bool_))[0]

    def _of(self, group: Group, above: _Partition) -> _GroupNeed:
        self._dry_run.pause()
        need = _GroupNeed(group, self._partition(group, above))
        for child in group.children_in_order() if group.composite else ():
            # Children that have met their minimum need nothing.
            if not child.standing:
                need.add(self._of(child, need.partition))
        need.sum_up(self._shapes, self._nodes.resources, composite=group.composite)
        return need

    def _of_extras(self, group: Group, whole: _Partition, wanted: int) -> _GroupNeed:
        """Return the need of extras, which count together and may be in any domain."""
        leaves = list(group.leaves())
        merged = group_of(
            [pod for leaf in leaves for pods in leaf.pending.values() for pod in pods.values()],
            minimum=wanted,
        )
        merged.pending = {}
        for leaf in leaves:
            for shape, pods in leaf.pending.items():
                merged.pending[shape] = {**merged.pending.get(shape, {}), **pods}
        need = _GroupNeed(merged, whole, wanted)
        need.sum_up(self._shapes, self._nodes.resources, composite=False)
        return need

    def _partition(self, group: Group, above: _Partition) -> _Partition:
        topology = group.topology
        # A preference never excludes a placement.
        if topology is None or topology.preferred:
            return above
        key = topology.key
        topologies = self._dry_run.state.topologies
        domains = topologies.of_groups(key, outer_topology_keys(group, key))
        return _Partition(domains.codes, len(domains.values), self._nodes.touched)


def _least(amounts: list[float], count: int) -> float:
    """Return the sum of the smallest amounts; infinite if there are fewer."""
    return sum(sorted(amounts)[:count]) if count <= len(amounts) else np.inf


def _covers(shape: Shape, other: Shape) -> bool:
    """Return True if a pod of the shape takes at least as much of everything as the other."""
    amounts = dict(shape.request.demands)
    return all(amounts.get(resource, 0) >= amount for resource, amount in other.request.demands)
