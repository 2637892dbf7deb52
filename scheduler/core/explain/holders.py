"""Who holds places for pods that do not exist yet, on which nodes, and how much room they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.core.groups.groups import Group
from scheduler.core.nodes.node_table import Ints
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey


@dataclass(frozen=True, slots=True)
class Holder:
    """A PodGroup, its root with that one's priority, and how many places it holds by node."""

    group: GroupKey
    top: GroupKey
    priority: int
    places: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.places.values())


def held_on(group: Group) -> dict[str, int]:
    """How many places each node has that are held for the group and all below it, by name."""
    leaves = group.leaves() if group.expected_held else ()
    pods = (pod for leaf in leaves for pod in leaf.members.values() if pod.info.expected)
    return dict(sorted(Counter(pod.node for pod in pods if pod.assumed).items()))


def holders(state: State) -> list[Holder]:
    """All groups that hold places, by name. Costs O(groups + members of those)."""
    return [
        Holder(group.key, group.top.key, group.top.priority, held_on(group))
        for group in sorted(_holding(state), key=lambda group: group.key)
    ]


def held_room(state: State) -> Ints:
    """What held places take of each resource on each node, (R, N) in the units of the node table.

    It is not free, and nothing uses it yet.
    """
    nodes = state.nodes
    # Indices of resources that nobody names any more are used again later: there may be gaps.
    held: Ints = np.zeros((nodes.allocatable.shape[0], nodes.size), np.int64)
    for group in _holding(state):
        for pod in group.members.values():
            alone = pod.shape.requirements.stage is None
            if pod.info.expected and pod.row >= 0 and alone:
                for index, amount in pod.shape.demands:
                    held[index, pod.row] += amount
    indices = nodes.resources.indices
    for row, amounts in nodes.stages.held():
        for name, amount in amounts.items():
            if name in indices:
                held[indices[name], row] += amount
    return held


def _holding(state: State) -> Iterator[Group]:
    groups = state.forest.groups.values()
    return (group for group in groups if group.expected_held and not group.composite)
