"""Held places of groups: their nodes, and the resources that they take."""

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
class HoldingGroup:
    """PodGroup with held places: `places` by node, its root `top`, and the root's `priority`."""

    group: GroupKey
    top: GroupKey
    priority: int
    places: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.places.values())


def held_on(group: Group) -> dict[str, int]:
    """Return the number of held places of the group and all groups below it, by node name."""
    # The counter spares most groups the pass over their members.
    leaves = group.leaves() if group.expected_held else ()
    pods = (pod for leaf in leaves for pod in leaf.members.values() if pod.info.expected)
    return dict(sorted(Counter(pod.node for pod in pods if pod.assumed).items()))


def holders(state: State) -> list[HoldingGroup]:
    """Return the PodGroups with held places, by key. Costs O(all groups + members of these)."""
    return [
        HoldingGroup(group.key, group.top.key, group.top.priority, held_on(group))
        for group in sorted(_holding(state), key=lambda group: group.key)
    ]


def held_capacity(state: State) -> Ints:
    """Return what held places take on each node, (R, N), in the units of the node table."""
    nodes = state.nodes
    # By the rows of the table: a resource that is no longer named leaves a gap in the indices.
    held: Ints = np.zeros((nodes.allocatable.shape[0], nodes.size), np.int64)
    for group in _holding(state):
        for pod in group.members.values():
            # Stages of a tree share capacity, so their places are not added up but counted below.
            alone = pod.shape.requirements.stage is None
            if pod.info.expected and pod.row >= 0 and alone:
                for index, amount in pod.shape.request.demands:
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
