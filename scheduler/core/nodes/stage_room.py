"""The room that the stages of one tree have in common, as they never run at the same time.

On each node a tree's expected pods take what its largest stage needs there, not the sum of all: for
each resource the most of (what is held for the stage, less what pods of the other stages have that
exist). Pods that exist are counted in full, whatever their owner says of their stage, so nobody can
have more than a node offers.

With B the pods that exist, D the expected ones and t, s stages, a tree takes sum(B) + max over t of
max(0, D[t] - sum of B but B[t]). So one more pod of stage s needs no more than what is free and the
`spare` of that stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.core.nodes.resource_table import LARGEST, PODS, Ints, Request, ResourceTable
from scheduler.core.values.model import GroupKey, Stage

_Amounts = dict[str, int]

_MOST: Final = LARGEST + 1
"""The most of one resource that is held: more than any node has."""


class _Place:
    """One tree on one node: amounts by (stage, whether the pods exist), and what is held of it."""

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
        """What is to be held: for each resource the most of all stages."""
        most: _Amounts = {}
        for (number, exists), amounts in self.used.items():
            for name in () if exists else amounts:
                amount = min(self.lacking(number, name), _MOST)
                if amount > most.get(name, 0):
                    most[name] = amount
        return most

    def lacking(self, number: int, name: str) -> int:
        """What expected pods of a stage need beyond the pods of others; negative if they need less.

        Those of other stages will have ended when the pods come.
        """
        others = sum(
            amounts.get(name, 0)
            for (stage, exists), amounts in self.used.items()
            if exists and stage != number
        )
        return self.used.get((number, False), {}).get(name, 0) - others

    def spare(self, stage: Stage, name: str) -> int:
        """What one more pod of the stage may use of a resource beside what is free."""
        lacking = self.lacking(stage.number, name)
        return self.held.get(name, 0) - (max(0, lacking) if stage.exists else lacking)


class StageRoom:
    """The places of pods with a stage, by tree and node row. It takes and frees their resources."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._places: dict[GroupKey | None, dict[int, _Place]] = {}

    def take(self, row: int, count: int, request: Request, stage: Stage) -> None:
        """Put `count` pods of a stage on the node; a negative count takes them off."""
        if stage.exists:
            self._resources.take_one(row, count, request)
        places = self._places.setdefault(stage.tree, {})
        place = places.setdefault(row, _Place())
        place.add(stage, count, request)
        held = place.most()
        if held != place.held:
            self._take(row, place.held, -1)
            self._take(row, held, 1)
            place.held = held
        if not place.used:
            del places[row]
            if not places:
                del self._places[stage.tree]

    def clear(self, row: int) -> None:
        """Forget all that is on a node, of which all resources are free again."""
        for tree, places in list(self._places.items()):
            if places.pop(row, None) is not None and not places:
                del self._places[tree]

    def rows(self, tree: GroupKey | None) -> Ints:
        """The rows of the nodes on which pods of the tree with a stage are, in any order."""
        return np.array([*self._places.get(tree, ())], np.int64)

    def held(self) -> Iterator[tuple[int, Mapping[str, int]]]:
        """Row, and what is held there for the stages of one tree, by resource name."""
        for places in self._places.values():
            for row, place in places.items():
                if place.held:
                    yield row, place.held

    def spare(self, row: int, stage: Stage | None, resource: int) -> int:
        """What pods of the stage may use of a resource, by index, beside what is free."""
        place = self._places.get(stage.tree, {}).get(row) if stage is not None else None
        if place is None or stage is None:
            return 0
        return place.spare(stage, self._resources.names[resource])

    def slots(self, row: int, request: Request, stage: Stage) -> int:
        """How many more pods of the stage the node has resources for."""
        free, indices = self._resources.free, self._resources.indices
        place = self._places[stage.tree][row]
        return min(
            (int(free[indices[name], row]) + place.spare(stage, name)) // amount
            for name, amount in request.amounts
            if name in indices
        )

    def shared_slots(self, row: int, request: Request, stage: Stage) -> int:
        """How many of these need nothing that is free: other stages hold what they need."""
        place = self._places[stage.tree][row]
        return min(place.spare(stage, name) // amount for name, amount in request.amounts)

    def _take(self, row: int, amounts: Mapping[str, int], count: int) -> None:
        if amounts:
            others = [each for each in amounts.items() if each[0] != PODS]
            request = self._resources.request(others, pods=amounts.get(PODS, 0))
            self._resources.take_one(row, count, request)
