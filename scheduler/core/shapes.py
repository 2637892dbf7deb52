"""Shapes: pods with equal requirements and matches, which are placed together, not one by one.

A shape is plain data. Plug-ins take it as an argument; `framework` runs them and caches their
answers in the shape. It corresponds to the pod signature of opportunistic batching (KEP-5598).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.core.model import Requirements
from scheduler.core.node_table import Bools, Ints
from scheduler.core.pod_selectors import PodMatches

Codes = npt.NDArray[np.int16]
"""Per node, the index into `Shape.reasons` of the reason that excludes it; 0 if none does."""

NO_NODE: Final = "no node"
"""The reason for rows without a node."""

_T = TypeVar("_T")


class Cached(Generic[_T]):
    """A value, and the key that it was computed for.

    `stamp` is the node table's stamp up to which rows are up to date, for values that are updated
    row by row; -1 if none is.
    """

    __slots__ = ("_value", "key", "stamp")

    def __init__(self) -> None:
        self._value: list[_T] = []
        self.key: object = None
        self.stamp = -1

    def get(self, key: object, compute: Callable[[], _T]) -> _T:
        """The value for this key; computed if the cached one is for another key, with stamp -1."""
        if key != self.key or not self._value:
            self.stamp = -1
            return self.set(key, compute())
        return self._value[0]

    def set(self, key: object, value: _T) -> _T:
        """Cache the value for this key and return it."""
        self.key, self._value = key, [value]
        return value


class ShapeCache:
    """The plug-ins' answers for one shape: per node (N,), `by_class` per node class."""

    __slots__ = ("by_class", "node_codes", "node_scores", "pod_codes", "room", "slots", "usage")

    def __init__(self) -> None:
        self.by_class: Cached[list[int]] = Cached()
        self.node_codes: Cached[Codes] = Cached()
        self.pod_codes: Cached[Codes] = Cached()
        self.room: Cached[Ints] = Cached()
        self.slots: Cached[Ints] = Cached()
        self.usage: Cached[tuple[Ints, Ints]] = Cached()
        self.node_scores: Cached[tuple[Ints, Ints] | None] = Cached()


class Shape:
    """Interned requirements and matches, with what can be derived from them alone.

    `request` is (R,) for the resources known when the shape was created; later ones are zero.
    `demands` has the same as (resource index, amount), without zeros; `sizes` are those that are
    not host ports; `scored_resources` are those whose use is scored. Filters read the match counts
    `filter_match_ids`, scores read `score_match_ids`. `needs_other_pods` means that it needs pods
    of another shape in its domain, which are placed first. `pods` is how many pods have this shape,
    `waiting` how many of them wait.
    """

    __slots__ = (
        "cache", "demands", "filter_match_ids", "index", "matches", "needs_other_pods", "pods",
        "reasons", "request", "requirements", "score_match_ids", "scored_resources", "sizes",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        requirements: Requirements,
        matches: PodMatches,
        *,
        sizes: tuple[tuple[int, int], ...],
        ports: tuple[tuple[int, int], ...],
        scored_resources: tuple[tuple[int, int], ...],
        resources: int,
        filter_match_ids: frozenset[int],
        score_match_ids: frozenset[int],
        needs_other_pods: bool,
    ) -> None:
        """A pod takes `sizes` and `ports`, (resource, amount) each, of so many `resources`."""
        self.index = index
        self.requirements = requirements
        self.matches = matches
        self.filter_match_ids = filter_match_ids
        self.score_match_ids = score_match_ids
        self.needs_other_pods = needs_other_pods
        self.pods = 0
        self.waiting = 0
        self.sizes = sizes
        self.scored_resources = scored_resources
        self.demands = sizes + ports
        self.request: Ints = np.zeros(resources, np.int64)
        for resource, amount in self.demands:
            self.request[resource] = amount
        self.reasons: list[str] = ["", NO_NODE]
        self.cache = ShapeCache()

    @property
    def self_interacting(self) -> bool:
        """Whether pods of this shape exclude each other or need each other."""
        return bool(self.filter_match_ids.intersection(self.matches.counted))

    @property
    def order_sensitive(self) -> bool:
        """Whether the node of one pod of this shape affects the filter or score of the next."""
        counted = self.matches.counted
        return self.self_interacting or bool(self.score_match_ids.intersection(counted))

    def drop_caches(self) -> None:
        """Free what was computed per node, when no pod of the shape waits."""
        self.cache = ShapeCache()

    def code(self, reason: str) -> int:
        """The reason's index in `reasons`, to which it is added if it is new."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)

    def rule_out(self, codes: Codes, nodes: Bools, reason: str) -> None:
        """Write the reason's code for those of the nodes (N,) that have no code yet."""
        codes[nodes & (codes == 0)] = self.code(reason)
