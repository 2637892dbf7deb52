"""Free and allocatable resources of all nodes and of topology domains, for metrics.

Cordoned nodes do not count. A node with more in use than it offers has 0 free. Devices that provide
an extended resource do not count. The number of results is bounded, whatever labels and resources
the nodes have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.nodes.resource_table import BY_DEVICES, PODS
from scheduler.core.topology.topology import Topologies

MOST_RESOURCES: Final = 8
"""Limit of reported resources: cpu, memory and pods first, then extended resources by name."""

MOST_DOMAINS: Final = 50
"""Limit of reported domains. Of a key with more, only their number and the largest are reported."""

_FIRST: Final = ("cpu", "memory", PODS)
_UNITS: Final = {"cpu": 1000}


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """Amounts of one resource on all nodes: cores of cpu, bytes of memory, numbers of all others.

    `held` is the amount that is not free because it is reserved for expected pods.
    """

    resource: str
    free: float
    allocatable: float
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class DomainAmounts:
    """Free amounts in the domains of one key: `free` by domain and resource, `largest` by resource.

    `largest` is the highest amount of any domain. `free` is empty if there are more than
    MOST_DOMAINS.
    """

    key: str
    count: int
    free: dict[str, dict[str, float]]
    largest: dict[str, float]


def free_amounts(nodes: NodeTable, held: Ints | None = None) -> list[ResourceAmounts]:
    """Return the amounts of each resource on all nodes together. Costs O(nodes).

    `held` (R, N) is the amount of each resource that held places take on each node, or None.
    """
    found = []
    for resource, index in _resources(nodes):
        unit, offering = _UNITS.get(resource, 1), _offering(nodes, index)
        offered = nodes.allocatable[index, : nodes.size] * offering
        # As floats: a node may have 2**53 of a resource, and int64 sums would overflow.
        amounts = [_free(nodes, index), offered]
        amounts += [held[index] * offering] if held is not None else []
        totals = [float(amount.sum(dtype=float)) / unit for amount in amounts]
        found.append(ResourceAmounts(resource, *totals))
    return found


def amounts_of_domains(
    nodes: NodeTable, topologies: Topologies, keys: Sequence[str]
) -> list[DomainAmounts]:
    """Return the free amounts in the domains of each key. Costs O(keys * resources * nodes)."""
    found = []
    for key in keys:
        domains = topologies.of_groups(key)
        # Each domain is a time series, and a key such as the hostname has one for each node.
        named = len(domains.paths) <= MOST_DOMAINS
        free: dict[str, dict[str, float]] = {}
        largest: dict[str, float] = {}
        for resource, index in _resources(nodes) if domains.paths else ():
            sums = domains.sums(_free(nodes, index), None) / _UNITS.get(resource, 1)
            largest[resource] = float(sums.max())
            if named:
                free[resource] = dict(zip(domains.paths, sums.tolist(), strict=True))
        found.append(DomainAmounts(key, len(domains.paths), free, largest))
    return found


def _resources(nodes: NodeTable) -> list[tuple[str, int]]:
    indices = nodes.resources.indices
    # Names with a slash are extended resources; the others are hugepages and the like.
    devices = sorted(indices.keys() - set(_FIRST), key=lambda name: ("/" not in name, name))
    names = [*(name for name in _FIRST if name in indices), *devices]
    return [(name, indices[name]) for name in names[:MOST_RESOURCES]]


def _usable(nodes: NodeTable) -> Ints:
    """Return 1 for each node (N,), 0 for a cordoned one."""
    return nodes.by_class(lambda each: not each.unschedulable).astype("int64")


def _offering(nodes: NodeTable, index: int) -> Ints:
    """Return 1 for each node (N,) that counts for the resource, otherwise 0."""
    # Where devices provide the resource, the table has more of it than any pod can request.
    itself: Ints = _usable(nodes) * (nodes.allocatable[index, : nodes.size] != BY_DEVICES)
    return itself


def _free(nodes: NodeTable, index: int) -> Ints:
    # Clipped, so that an overcommitted node does not reduce the free amount of others.
    free: Ints = nodes.free[index, : nodes.size].clip(min=0) * _offering(nodes, index)
    return free
