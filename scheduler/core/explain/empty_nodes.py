"""What a refused root would lack even if nothing else ran: proofs that waiting does not help.

All capacities here are upper bounds. So an `Excess` is certain, and None proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduler.core.groups.forest import Group, topology_keys_around
from scheduler.core.nodes.node_table import Floats, Ints
from scheduler.core.pods.shapes import Shape, demands_of
from scheduler.core.search.attempt import Demand
from scheduler.core.search.needs import least
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State
from scheduler.core.topology.topology import Domains

_MOST_PODS: Final = 4_096
"""Waiting pods of a root beyond which its groups are not compared together: it takes long."""

_ROUNDING: Final = 1 + 1e-12
"""Factor by which a sum of floats may be too low."""

_MOST_SHAPES: Final = 4
"""Shapes of a group beyond which they are not compared with the nodes one by one."""

_MOST_CHILDREN: Final = 8
"""Other children that are checked if a root can do without the one that does not fit."""


EACH: Final = "*"
"""Each domain lacks one of the resources, but not the same one."""


@dataclass(frozen=True, slots=True)
class Excess:
    """`pods` pods that do not fit on the empty nodes, which have capacity for `most` of a shape.

    With a `resource`, the pods request `needed` of it together, and the nodes have `most`; or EACH.
    `tree` is True if they are the pods of the root, and not only of the group that was refused.
    `domain` is the largest domain of a topology `key` if they have to be in one.
    """

    pods: int
    needed: int
    most: int
    resource: str = ""
    key: str = ""
    domain: str = ""
    tree: bool = False


def excess(state: State, short: Shortage, shape: Shape) -> Excess | None:
    """Return what even the empty cluster lacks for the root; None if nothing is proved."""
    group = state.forest.groups.get(short.at)
    domains = None if short.best is None else domains_of(state, group, short.best.key)
    found = _of_shape(state, shape, short.needed, domains)
    # With more pods than minCount, the smaller ones may be enough.
    if found is None and group is not None and short.minimum:
        # The slices of a group may be in several of these domains.
        found = _together(state, least(group), None if short.part else domains)
    if group is None or group.parent is None or group.top.pending_total > _MOST_PODS:
        return found
    if found is not None:
        return found if _needed(state, group) else None
    return next(_of_ancestors(state, group), None) if short.minimum else None


def domains_of(state: State, group: Group | None, key: str) -> Domains:
    """Return the domains of a topology key as a constraint around the group divides the nodes."""
    return state.topologies.of_groups(key, topology_keys_around(group, key))


def _of_shape(state: State, shape: Shape, pods: int, domains: Domains | None) -> Excess | None:
    """Return the excess if no domain, or not the cluster, has capacity for so many pods."""
    framework = state.framework
    most = framework.most(shape, framework.empty_capacity(shape), domains)
    if (most >= pods).any():
        return None
    return Excess(pods, pods, int(most.max(initial=0)), "", *_largest(most, domains))


def _together(state: State, demand: Demand, domains: Domains | None) -> Excess | None:
    """Return the excess if no domain has all resources that these pods request together.

    Pods of different shapes may fit one by one and never together: 3 and 2 cpu on nodes of 4.
    """
    stages = {it: it.requirements.stage for it in demand}
    numbers = dict.fromkeys(stage.number for stage in stages.values() if stage is not None)
    if len(numbers) <= 1:
        return _at_once(state, demand, domains)
    # Pods that exist run together, and each expected pod at least with those of its own stage.
    parts = [{it for it, stage in stages.items() if stage is None or stage.exists}]
    parts += [
        {it for it, stage in stages.items() if stage is None or stage.number == number}
        for number in numbers
    ]
    found = (_at_once(state, {it: demand[it] for it in part}, domains) for part in parts)
    return next(filter(None, found), None)


def _at_once(state: State, demand: Demand, domains: Domains | None) -> Excess | None:
    nodes, pods = state.nodes, sum(demand.values())
    possible = np.ones(1 if domains is None else len(domains.values), np.bool_)
    for resource, amount in demands_of(demand).items():
        # As floats: what devices provide is a huge number on each node, and integers overflow.
        allocatable = nodes.allocatable[resource, : nodes.size].astype(np.float64)
        total = np.array([allocatable.sum()])
        if domains is not None:
            total = domains.sums(allocatable, None).astype(np.float64)
        fits = total * _ROUNDING >= amount
        if not fits.any():
            name, most = nodes.resources.names[resource], int(total.max(initial=0))
            return Excess(pods, amount, most, name, *_largest(total, domains))
        possible &= fits
    return (
        None if possible.any() else Excess(pods, 0, 0, EACH, "" if domains is None else domains.key)
    )


def _largest(amounts: Ints | Floats, domains: Domains | None) -> tuple[str, str]:
    """Return the key, and the domain of the largest amount; empty without domains."""
    if domains is None or not len(amounts):
        return "", ""
    return domains.key, domains.paths[int(amounts.argmax())]


def _of_ancestors(state: State, group: Group) -> Iterator[Excess]:
    """Yield what the groups around this one lack for all pods that their minimums need."""
    while (parent := group.parent) is not None:
        group = parent
        found = _of_minimums(state, group)
        if found is not None and _needed(state, group):
            yield replace(found, tree=True)


def _of_minimums(state: State, group: Group) -> Excess | None:
    """Return the excess if the group's own domains, or the cluster, lack what it needs."""
    demand, topology = least(group), group.topology
    required = topology is not None and not topology.preferred
    domains = domains_of(state, group, topology.key) if topology and required else None
    found = _together(state, demand, domains)
    # Each shape needs a pass over all nodes. Of many shapes, one seldom decides alone.
    if found is None and len(demand) <= _MOST_SHAPES:
        each = (_of_shape(state, shape, pods, domains) for shape, pods in demand.items())
        found = next(filter(None, each), None)
    return found


def _needed(state: State, group: Group) -> bool:
    """Return True if the root cannot start without the group, which does not fit."""
    while (parent := group.parent) is not None:
        waiting = [it for it in parent.children.values() if it.quorate and not it.standing]
        spare = len(waiting) - (parent.minimum or 0) + parent.standing_children
        others = [it for it in waiting if it is not group]
        if spare > _MOST_CHILDREN:
            return False
        # As many as are spare have to be hopeless, too.
        if spare and _hopeless(state, others[:_MOST_CHILDREN]) < spare:
            return False
        group = parent
    return True


def _hopeless(state: State, groups: Sequence[Group]) -> int:
    """Return how many of the groups do not fit on empty nodes."""
    return sum(_of_minimums(state, group) is not None for group in groups)
