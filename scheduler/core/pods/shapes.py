"""Shapes: pods with equal requirements and matches, which are placed together, not one by one.

A shape is plain data. Plug-ins take it as an argument; `framework` runs them and caches their
answers in the shape. It corresponds to the pod signature of opportunistic batching (KEP-5598).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.core.nodes.exclusive_uses import Use, distinct
from scheduler.core.nodes.node_table import Bools, Ints, Load
from scheduler.core.nodes.resource_table import Request
from scheduler.core.pods.pod_selectors import PodMatches
from scheduler.core.values.model import SHARED, Requirements

Codes = npt.NDArray[np.int32]
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


class ButVolumes:
    """What a shape has in common with those that differ from it in volumes alone; hashed once."""

    __slots__ = ("_hash", "_rest")

    def __init__(self, requirements: Requirements, matches: PodMatches) -> None:
        self._rest = (requirements, matches)
        self._hash = hash(self._rest)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ButVolumes) and self._rest == other._rest)


class ShapeCache:
    """The plug-ins' answers for one shape: per node (N,), `by_class` per node class.

    `reasons` are those that the answers name by index, and `codes` their indices.
    """

    __slots__ = (
        "affinity", "but_volumes", "by_class", "codes", "conflicts", "node_codes", "node_scores",
        "pod_codes", "reasons", "room", "slots",
    )  # fmt: skip

    def __init__(self) -> None:
        self.affinity: Cached[Bools] = Cached()
        self.but_volumes: ButVolumes | None = None
        self.by_class: Cached[list[int]] = Cached()
        self.conflicts: Cached[Bools] = Cached()
        self.node_codes: Cached[Codes] = Cached()
        self.pod_codes: Cached[Codes] = Cached()
        self.room: Cached[Ints] = Cached()
        self.slots: Cached[Ints] = Cached()
        self.node_scores: Cached[list[tuple[int, Ints]]] = Cached()
        self.reasons: list[str] = ["", NO_NODE]
        self.codes: dict[str, int] = {"": 0, NO_NODE: 1}


class Shape:
    """Interned requirements and matches, with what can be derived from them alone.

    `load` is what each pod takes of its node, `request` of its resources. Filters read the match
    counts `filter_match_ids`, scores read `score_match_ids`. `needs_other_pods` means that it needs
    pods of another shape in its domain, which are placed first. `pods` is how many pods have this
    shape, `waiting` how many of them wait.
    """

    __slots__ = (
        "_cache", "filter_match_ids", "index", "load", "matches", "needs_other_pods", "pods",
        "request", "requirements", "score_match_ids", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        requirements: Requirements,
        matches: PodMatches,
        *,
        request: Request,
        filter_match_ids: frozenset[int],
        score_match_ids: frozenset[int],
        needs_other_pods: bool,
    ) -> None:
        self.index = index
        self.requirements = requirements
        self.matches = matches
        self.request = request
        uses = distinct(requirements.ports + requirements.disks)
        self.load = Load(request, matches.counted, uses, requirements.stage)
        self.filter_match_ids = filter_match_ids
        self.score_match_ids = score_match_ids
        self.needs_other_pods = needs_other_pods
        self.pods = 0
        self.waiting = 0
        self._cache: ShapeCache | None = None

    @property
    def cache(self) -> ShapeCache:
        """What was computed for the shape; most shapes, of running pods, never need any."""
        if self._cache is None:
            self._cache = ShapeCache()
        return self._cache

    @property
    def demands(self) -> tuple[tuple[int, int], ...]:
        """(resource index, amount) of the request, for each resource that some node offers."""
        return self.request.demands

    @property
    def uses(self) -> tuple[Use, ...]:
        """The host ports and disks of each pod."""
        return self.load.uses

    @property
    def exclusive(self) -> bool:
        """Whether two pods of this shape conflict: a node takes at most one."""
        return any(use.part != SHARED for use in self.uses)

    @property
    def reasons(self) -> list[str]:
        """The reasons that `Codes` of this shape stand for; renewed with the cache."""
        return self.cache.reasons

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
        self._cache = None

    def code(self, reason: str) -> int:
        """The reason's index in `reasons`, to which it is added if it is new."""
        codes = self.cache.codes
        code = codes.get(reason)
        if code is None:
            code = codes[reason] = len(codes)
            self.cache.reasons.append(reason)
        return code

    def rule_out(self, codes: Codes, nodes: Bools, reason: str) -> None:
        """Write the reason's code for those of the nodes (N,) that have no code yet."""
        codes[nodes & (codes == 0)] = self.code(reason)


def demands_of(pods: Mapping[Shape, int]) -> Counter[int]:
    """How much of each resource, by its index, so many pods of each shape request together."""
    total: Counter[int] = Counter()
    for shape, count in pods.items():
        total.update({resource: amount * count for resource, amount in shape.demands})
    return total
