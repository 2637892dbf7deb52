"""The capacity that the stages of one tree share, because they never run at the same time.

On each node, a tree's expected pods take what its largest stage needs there, not the sum of all
stages. For each resource that is the maximum of (the amount reserved for the stage, less the amount
of existing pods of other stages). Existing pods count in full, whatever their owner says about
their stage, so no tree can get more than a node offers.

With B the existing pods, D the expected ones and t, s stages, a tree takes sum(B) + max over t of
max(0, D[t] - sum of B but B[t]). So one more pod of stage s needs no more than what is free plus
the `spare` of that stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.core.nodes.resource_table import LARGEST, PODS, Ints, Request, ResourceTable
from scheduler.core.values.model import GroupKey, Stage

_Amounts = dict[str, int]

_MOST: Final = LARGEST + 1
"""Largest amount of one resource that is reserved: more than any node has."""


class _TreeOnNode:
    """One tree on one node: `used` by (stage, whether the pods exist), and the reserved amount."""

    __slots__ = ("held", "used")

    def __init__(self) -> None:
        self.used: dict[tuple[int, bool], _Amounts] = {}
        self.held: _Amounts = {}

    def add(self, stage: Stage, count: int, request: Request) -> None:
        key = (stage.number, stage.exists)
        used = self.used.setdefault(key, {})
        for name, amount in request.amounts:
            total = used.get(name, 0) + amount * count
            if total:
                used[name] = total
            else:
                used.pop(name, None)
        if not used:
            del self.used[key]

    def most(self) -> _Amounts:
        """Return the amounts to reserve: the maximum of all stages for each resource."""
        most: _Amounts = {}
        for (number, exists), amounts in self.used.items():
            # Existing pods have taken their resources already.
            for name in () if exists else amounts:
                amount = min(self.missing_amount(number, name), _MOST)
                if amount > most.get(name, 0):
                    most[name] = amount
        return most

    def missing_amount(self, number: int, name: str) -> int:
        """Return what expected pods of a stage need beyond the pods of others; negative if less.

        Pods of other stages will have ended when these pods are created.
        """
        others = sum(
            amounts.get(name, 0)
            for (stage, exists), amounts in self.used.items()
            if exists and stage != number
        )
        return self.used.get((number, False), {}).get(name, 0) - others

    def spare(self, stage: Stage, name: str) -> int:
        """Return how much one more pod of the stage may use of a resource besides what is free."""
        lacking = self.missing_amount(stage.number, name)
        # An expected pod may also use what existing pods of other stages will have released.
        return self.held.get(name, 0) - (max(0, lacking) if stage.exists else lacking)


class StageCapacity:
    """The pods with a stage, by tree and node row. It takes and frees their resources."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._places: dict[GroupKey | None, dict[int, _TreeOnNode]] = {}

    def take(self, row: int, count: int, request: Request, stage: Stage) -> None:
        """Put `count` pods of a stage on the node; a negative count removes them."""
        # Existing pods count in full. Only the rest of the largest stage is reserved.
        if stage.exists:
            self._resources.take_one(row, count, request)
        places = self._places.setdefault(stage.tree, {})
        place = places.setdefault(row, _TreeOnNode())
        place.add(stage, count, request)
        held = place.most()
        # Most pods stay below the maximum of their tree, so usually nothing changes.
        if held != place.held:
            self._take(row, place.held, -1)
            self._take(row, held, 1)
            place.held = held
        if not place.used:
            del places[row]
            if not places:
                del self._places[stage.tree]

    def clear(self, row: int) -> None:
        """Forget all that is on a node whose resources are all free again."""
        for tree, places in list(self._places.items()):
            if places.pop(row, None) is not None and not places:
                del self._places[tree]

    def rows(self, tree: GroupKey | None) -> Ints:
        """Return the rows of nodes on which pods of the tree with a stage are, in any order."""
        return np.array([*self._places.get(tree, ())], np.int64)

    def held(self) -> Iterator[tuple[int, Mapping[str, int]]]:
        """Yield rows, and the amounts reserved there for one tree's stages, by resource name."""
        for places in self._places.values():
            for row, place in places.items():
                if place.held:
                    yield row, place.held

    def spare(self, row: int, stage: Stage | None, resource: int) -> int:
        """Return how much of a resource the stage's pods may use besides what is free."""
        place = self._places.get(stage.tree, {}).get(row) if stage is not None else None
        if place is None or stage is None:
            return 0
        return place.spare(stage, self._resources.names[resource])

    def slots(self, row: int, request: Request, stage: Stage) -> int:
        """Return how many more pods of the stage fit the node's resources."""
        free, indices = self._resources.free, self._resources.indices
        place = self._places[stage.tree][row]
        return min(
            (int(free[indices[name], row]) + place.spare(stage, name)) // amount
            for name, amount in request.amounts
            if name in indices
        )

    def shared_slots(self, row: int, request: Request, stage: Stage) -> int:
        """Return how many of these fit into the capacity that is kept for other stages."""
        place = self._places[stage.tree][row]
        return min(place.spare(stage, name) // amount for name, amount in request.amounts)

    def _take(self, row: int, amounts: Mapping[str, int], count: int) -> None:
        if amounts:
            # `request` adds the pods itself.
            others = [each for each in amounts.items() if each[0] != PODS]
            request = self._resources.request(others, pods=amounts.get(PODS, 0))
            self._resources.take_one(row, count, request)
