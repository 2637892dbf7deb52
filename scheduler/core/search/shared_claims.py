"""Candidates for ResourceClaims without an allocation that several pods of a subtree share.

A claim for devices of one node binds all of its pods to that node. A claim for other devices binds
them to the nodes that can reach these. So it is a choice to make first, like a required topology
domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.core.devices.results import is_local
from scheduler.core.framework.claim_quotas import named
from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape, demands_of
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimKey

MOST_CLAIMS: Final = 4
"""Claims that a subtree shares. Those beyond are allocated with their first pod."""

MOST_PLACES: Final = 64
"""Allocations that are tried for one claim."""


class SharedClaims:
    """The claims that several pods of a subtree name, and their candidate allocations."""

    def __init__(self, state: State) -> None:
        self._nodes = state.nodes
        self._framework = state.framework
        self._devices = state.devices

    def of(self, group: Group) -> list[ClaimKey]:
        """Return the unallocated claims that several waiting pods name, by most pods."""
        devices = self._framework.plugins.dynamic_resources
        found: Counter[ClaimKey] = Counter()
        for leaf in group.leaves():
            for shape, pods in leaf.pending.items():
                if shape.requirements.asks:
                    found.update(dict.fromkeys(devices.undecided(shape), len(pods)))
        return [key for key, count in found.most_common(MOST_CLAIMS) if count > 1]

    def places(
        self, key: ClaimKey, demand: Mapping[Shape, int], region: Region | None
    ) -> Iterator[tuple[int, bool]]:
        """Return rows on which to allocate the claim, each for different nodes; tightest first.

        The second value is true to use only devices that other nodes reach as well. All have
        capacity for the complete demand that names the claim.
        """
        devices, table = self._framework.plugins.dynamic_resources, self._devices
        sharers = {s: n for s, n in demand.items() if key in named(s)}
        slots = {s: self._slots(s, region) for s in sharers}
        possible = np.ones(self._nodes.size, np.bool_)
        for each in slots.values():
            possible &= each > 0
        found: list[tuple[int, int, bool]] = []
        known: set[bytes] = set()
        for allocation, rows, wide in devices.choices(key, np.flatnonzero(possible)):
            if is_local(allocation):
                found += self._single_nodes(sharers, slots, rows)
                continue
            reached = table.admitted(allocation.nodes)
            sums = {s: int(of[reached].sum()) for s, of in slots.items()}
            # Several rows may allocate the same devices. One of them is enough.
            if reached.tobytes() not in known and all(sums[s] >= n for s, n in sharers.items()):
                known.add(reached.tobytes())
                found.append((sum(sums.values()), int(rows[0]), wide))
        return iter([(row, wide) for _, row, wide in sorted(found)[:MOST_PLACES]])

    def _single_nodes(
        self, sharers: Mapping[Shape, int], slots: Mapping[Shape, Ints], rows: Ints
    ) -> list[tuple[int, int, bool]]:
        """Return the rows that fit all sharers, each with its slots; only the tightest ones."""
        fits, spare = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.int64)
        for shape, count in sharers.items():
            fits &= slots[shape][rows] >= count
            spare += slots[shape][rows]
        # Slots are computed for each shape alone; together the shapes may need more than is free.
        for resource, amount in demands_of(sharers).items():
            fits &= self._nodes.free[resource][rows] >= amount
        order = np.lexsort((rows, spare))
        best = order[fits[order]][:MOST_PLACES]
        spares = zip(spare[best].tolist(), rows[best].tolist(), strict=True)
        return [(slots, row, False) for slots, row in spares]

    def _slots(self, shape: Shape, region: Region | None) -> Ints:
        """Return slots per node (N,), 0 outside of the region."""
        slots = self._framework.slots(shape)
        if region is None:
            return slots
        inside = np.zeros_like(slots)
        inside[region] = slots[region]
        return inside
