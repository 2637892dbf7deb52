"""The proof that a root does not fit: `place` may miss a placement, this search checks all.

It is for small trees on few nodes, where only resources, node filters and topology decide. It
proves nothing about other roots, nor after its steps are used up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.groups.forest import Group, outer_topology_keys
from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.search.exhaustive_packing import MOST_NODES, MOST_PODS
from scheduler.core.search.place import SearchBudget, group_of
from scheduler.core.state.state import State

_MOST_GROUPS: Final = 64
"""Groups of a tree up to which the exact model checks victims. Others use the search."""

Nodes = int
"""A set of nodes, one bit each."""

Free = tuple[tuple[int, ...], ...]
"""The free amount of each resource, per node."""


class _Children(NamedTuple):
    """The task to place `needed` of these groups, in a part of these nodes."""

    groups: tuple[int, ...]
    needed: int
    inside: Nodes


class _PodsTask(NamedTuple):
    """The task to place `needed` of these pods, those of the first shape from node `start` on.

    `pods` are (shape, number of pods).
    """

    pods: tuple[tuple[int, int], ...]
    needed: int
    inside: Nodes
    start: int


_Task = _Children | _PodsTask
_Tasks = tuple[_Task, ...]


class _OutOfStepsError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _UnmetGroups:
    """The groups of a tree that have not met their minimum; the first is the root.

    `domains` (N,) are codes of the nodes, -1 for none; None where no domain is required.
    """

    children: list[tuple[int, ...]]
    needed: list[int]
    pods: list[tuple[tuple[int, int], ...]]
    domains: list[Ints | None]


class ExactFit:
    """The proofs for one root, which share `steps`."""

    def __init__(self, dry_run: DryRun, steps: int) -> None:
        root = dry_run.root
        group = root if isinstance(root, Group) else group_of([root], minimum=1)
        self._dry_run = dry_run
        self.steps = steps
        self._shapes = sorted(
            {shape for leaf in group.leaves() for shape in leaf.pending}, key=lambda s: s.index
        )
        state = dry_run.state
        self._tree = _tree(state, group, self._shapes) if self._applies(group) else None

    def impossible(self, units: Ints) -> bool:
        """Return True if it was shown that the root does not fit without these units."""
        if self._tree is None or self.steps <= 0:
            return False
        with self._dry_run.without(units):
            nodes = _nodes(self._dry_run.state, self._shapes)
        if nodes is None:
            return False
        search = _ExactFitSearch(self._tree, nodes, self.steps, self._dry_run.budget)
        try:
            return not search.fits()
        except _OutOfStepsError:
            return False
        finally:
            self.steps = max(0, search.steps)

    def _applies(self, group: Group) -> bool:
        """Return True if only resources, node filters and topology decide where the root fits."""
        if self._dry_run.extras is not None or group.pending_total > MOST_PODS:
            return False
        if sum(1 for _ in group.walk()) > _MOST_GROUPS:
            return False
        if any(below.running_total for below in group.walk() if _requires_domain(below)):
            return False  # running pods decide the domain
        return all(map(self._plain, self._shapes))

    def _plain(self, shape: Shape) -> bool:
        wants = shape.requirements
        special = wants.needs_devices or wants.claims or wants.unsupported or wants.stage
        others = shape.uses or not self._dry_run.state.framework.independent(shape)
        return not (special or others)


def _requires_domain(group: Group) -> bool:
    return group.topology is not None and not group.topology.preferred


def _tree(state: State, root: Group, shapes: list[Shape]) -> _UnmetGroups:
    number = {shape: at for at, shape in enumerate(shapes)}
    groups = [each for each in root.walk() if each is root or not each.standing]
    at = {group: index for index, group in enumerate(groups)}
    tree = _UnmetGroups([], [], [], [])
    for group in groups:
        stand = group.standing_children if group.composite else group.running
        children = group.children_in_order() if group.composite else ()
        tree.children.append(tuple(at[c] for c in children if c in at and c.quorate))
        tree.needed.append(max(0, (group.minimum or 0) - stand))
        pods = ((number[shape], len(waiting)) for shape, waiting in group.pending.items())
        tree.pods.append(tuple(sorted(pods)))
        tree.domains.append(_domains(state, group))
    return tree


def _domains(state: State, group: Group) -> Ints | None:
    topology = group.topology
    if topology is None or topology.preferred:
        return None
    key = topology.key
    return state.topologies.of_groups(key, outer_topology_keys(group, key)).codes


@dataclass(frozen=True, slots=True)
class _FittingNodes:
    """Nodes that fit a pod: `allowed` by shape, and how much of each resource a pod `takes`."""

    rows: Ints
    free: Free
    allowed: list[Nodes]
    takes: list[tuple[int, ...]]


def _nodes(state: State, shapes: list[Shape]) -> _FittingNodes | None:
    """Return the nodes of the open trial; None if there are too many."""
    slots = np.array([state.framework.slots(shape) for shape in shapes])
    rows = np.flatnonzero(slots.any(axis=0))
    if len(rows) > MOST_NODES:
        return None
    used = sorted({resource for shape in shapes for resource, _ in shape.request.demands})
    demands = [dict(shape.request.demands) for shape in shapes]
    takes = [tuple(each.get(resource, 0) for resource in used) for each in demands]
    free = tuple(map(tuple, state.nodes.free[used][:, rows].T.tolist()))
    return _FittingNodes(rows, free, [_bits(line > 0) for line in slots[:, rows]], takes)


def _bits(chosen: Bools) -> Nodes:
    return reduce(lambda bits, at: bits | 1 << int(at), np.flatnonzero(chosen).tolist(), 0)


class _ExactFitSearch:
    """A depth-first search over children, domains and nodes; `dead` are tasks that failed.

    Of nodes that are equal in all respects only the first is tried.
    """

    def __init__(
        self, tree: _UnmetGroups, nodes: _FittingNodes, steps: int, budget: SearchBudget
    ) -> None:
        self.steps = steps
        self._tree = tree
        self._takes = nodes.takes
        self._allowed = nodes.allowed
        self._free = nodes.free
        self._budget = budget
        self._all = (1 << len(nodes.rows)) - 1
        self._parts = [self._parts_of(codes, nodes.rows) for codes in tree.domains]
        self._alike = [self._likeness(node) for node in range(len(nodes.rows))]
        self._dead: set[tuple[_Tasks, Free]] = set()

    def _parts_of(self, codes: Ints | None, rows: Ints) -> list[Nodes]:
        """Return the domains that a group may be placed in."""
        if codes is None:
            return [self._all]
        here = codes[rows]
        return [_bits(here == code) for code in np.unique(here[here >= 0]).tolist()]

    def fits(self) -> bool:
        """Return True if the root fits. Raises _OutOfStepsError."""
        return self._all_of((_Children((0,), 1, self._all),), self._free)

    def _likeness(self, node: int) -> tuple[int, ...]:
        # Equal free resources are not enough: domains and admitted shapes may differ.
        sets = [*self._allowed, *(part for parts in self._parts for part in parts)]
        return tuple(bits >> node & 1 for bits in sets)

    def _all_of(self, tasks: _Tasks, free: Free) -> bool:
        """Return True if all of these tasks can be placed."""
        if not tasks:
            return True
        # Different choices often lead to equal tasks on equal free resources.
        if (tasks, free) in self._dead:
            return False
        self.steps -= 1
        if self.steps < 0 or self._budget.expired():
            raise _OutOfStepsError
        self._budget.pause()
        task, rest = tasks[0], tasks[1:]
        if isinstance(task, _PodsTask):
            placed = self._with_pods(task, rest, free)
        else:
            placed = self._with_children(task, rest, free)
        if not placed:
            self._dead.add((tasks, free))
        return placed

    def _with_children(self, task: _Children, rest: _Tasks, free: Free) -> bool:
        if not task.needed:
            return self._all_of(rest, free)
        if len(task.groups) < task.needed:
            return False
        first, *others = task.groups
        left = _Children(tuple(others), task.needed - 1, task.inside)
        for part in self._parts[first]:
            inside = part & task.inside
            if inside and self._all_of((self._inner(first, inside), left, *rest), free):
                return True
        return self._all_of((left._replace(needed=task.needed), *rest), free)

    def _inner(self, group: int, inside: Nodes) -> _Task:
        tree = self._tree
        if tree.pods[group]:
            return _PodsTask(tree.pods[group], tree.needed[group], inside, 0)
        return _Children(tree.children[group], tree.needed[group], inside)

    def _with_pods(self, task: _PodsTask, rest: _Tasks, free: Free) -> bool:
        """Try the next pod of the first shape on each node, then no more of that shape."""
        if not task.needed:
            return self._all_of(rest, free)
        # An upper bound: it ends hopeless branches before pods are tried one by one.
        if sum(self._capacity(shape, many, task, free) for shape, many in task.pods) < task.needed:
            return False
        (shape, left), *others = task.pods
        tried = set[object]()
        for node in self._nodes(shape, task.inside, task.start, free) if left else ():
            alike = (free[node], self._alike[node])
            if alike in tried:
                continue
            tried.add(alike)
            after = _PodsTask(((shape, left - 1), *others), task.needed - 1, task.inside, node)
            if self._all_of((after, *rest), self._taken(shape, node, free)):
                return True
        if not others:
            return False
        return self._all_of((task._replace(pods=tuple(others), start=0), *rest), free)

    def _nodes(self, shape: int, inside: Nodes, start: int, free: Free) -> Iterator[int]:
        """Yield the nodes from `start` on that fit a pod."""
        permitted, takes = self._allowed[shape] & inside, self._takes[shape]
        for node in range(start, len(free)):
            if permitted >> node & 1 and all(map(int.__ge__, free[node], takes)):
                yield node

    def _capacity(self, shape: int, most: int, task: _PodsTask, free: Free) -> int:
        """Return how many of these pods fit, as if they were alone."""
        permitted, takes = self._allowed[shape] & task.inside, self._takes[shape]
        capacity = 0
        for node, left in enumerate(free):
            if permitted >> node & 1:
                pairs = zip(left, takes, strict=True)
                capacity += max(0, min((has // each for has, each in pairs if each), default=most))
        return min(capacity, most)

    def _taken(self, shape: int, node: int, free: Free) -> Free:
        left = tuple(map(int.__sub__, free[node], self._takes[shape]))
        return (*free[:node], left, *free[node + 1 :])
