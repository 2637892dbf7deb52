"""What nodes offer and have free, in all and by topology domain, for those who watch the cluster.

Cordoned nodes do not count, and a node that has less than nothing free has nothing free. Devices
that stand for a resource are not counted. The answer is bounded whatever nodes are called, and
however many resources they offer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.nodes.resource_table import BY_DEVICES, PODS
from scheduler.core.topology.topology import Topologies

MOST_RESOURCES: Final = 8
"""CPU, memory and pods first, then devices by name."""

MOST_DOMAINS: Final = 50
"""Of a key with more domains only the number and the largest are told."""

_FIRST: Final = ("cpu", "memory", PODS)
_UNITS: Final = {"cpu": 1000}


@dataclass(frozen=True, slots=True)
class Room:
    """Of one resource: cores of CPU, bytes of memory, numbers of all others.

    `held` is what is not free as it is held for pods that do not exist yet.
    """

    resource: str
    free: float
    allocatable: float
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """The domains of one key: `free` by domain, and `largest` of them all, by resource.

    `free` is empty if there are more than MOST_DOMAINS.
    """

    key: str
    count: int
    free: dict[str, dict[str, float]]
    largest: dict[str, float]


def room(nodes: NodeTable, held: Ints | None = None) -> list[Room]:
    """What all nodes have free, resource by resource. Costs O(nodes).

    `held` (R, N) is what is held of each resource on each node; None: nothing is.
    """
    found = []
    for resource, index in _resources(nodes):
        unit, offering = _UNITS.get(resource, 1), _offering(nodes, index)
        offered = nodes.allocatable[index, : nodes.size] * offering
        # Amounts may be as large as 2**53 on each node.
        amounts = [_free(nodes, index), offered]
        amounts += [held[index] * offering] if held is not None else []
        totals = [float(amount.sum(dtype=float)) / unit for amount in amounts]
        found.append(Room(resource, *totals))
    return found


def rooms_of_domains(
    nodes: NodeTable, topologies: Topologies, keys: Sequence[str]
) -> list[DomainRoom]:
    """What the domains of each key have free. Costs O(nodes) for each key and resource."""
    found = []
    for key in keys:
        domains = topologies.of_groups(key)
        named = len(domains.paths) <= MOST_DOMAINS
        free: dict[str, dict[str, float]] = {}
        largest: dict[str, float] = {}
        for resource, index in _resources(nodes) if domains.paths else ():
            sums = domains.sums(_free(nodes, index), None) / _UNITS.get(resource, 1)
            largest[resource] = float(sums.max())
            if named:
                free[resource] = dict(zip(domains.paths, sums.tolist(), strict=True))
        found.append(DomainRoom(key, len(domains.paths), free, largest))
    return found


def _resources(nodes: NodeTable) -> list[tuple[str, int]]:
    indices = nodes.resources.indices
    devices = sorted(indices.keys() - set(_FIRST), key=lambda name: ("/" not in name, name))
    names = [*(name for name in _FIRST if name in indices), *devices]
    return [(name, indices[name]) for name in names[:MOST_RESOURCES]]


def _usable(nodes: NodeTable) -> Ints:
    """Per node (N,) 1, or 0 for one that is cordoned."""
    return nodes.by_class(lambda each: not each.unschedulable).astype("int64")


def _offering(nodes: NodeTable, index: int) -> Ints:
    """The same, and 0 where devices stand for the resource."""
    itself: Ints = _usable(nodes) * (nodes.allocatable[index, : nodes.size] != BY_DEVICES)
    return itself


def _free(nodes: NodeTable, index: int) -> Ints:
    free: Ints = nodes.free[index, : nodes.size].clip(min=0) * _offering(nodes, index)
    return free
