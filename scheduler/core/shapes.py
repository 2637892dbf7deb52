"""Shapes: pods with equal requirements are one thing, placed by arithmetic and not one by one.

A shape is plain data. Plug-ins take it as an argument; `framework` runs them and keeps what they
answered in the shape's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.core.model import Requirements
from scheduler.core.node_table import PODS, Bools, Ints, NodeTable
from scheduler.core.plugins import node_affinity, node_name, node_ports
from scheduler.core.pod_selectors import PodMatches

Codes = npt.NDArray[np.int16]
"""Per node the index into `Shape.reasons` of what rules it out; 0 where nothing does."""

NO_NODE: Final = "no node"
"""The reason of vacant rows."""

_T = TypeVar("_T")


class Cached(Generic[_T]):
    """A value with the key that it was computed for.

    `stamp` is the node table's at that time, for values that are brought up to date row by row.
    """

    __slots__ = ("_value", "key", "stamp")

    def __init__(self) -> None:
        self._value: list[_T] = []
        self.key: object = None
        self.stamp = -1

    def get(self, key: object, compute: Callable[[], _T]) -> _T:
        """The value for this key, computed where it was kept for another one."""
        if key != self.key or not self._value:
            return self.set(key, compute())
        return self._value[0]

    def set(self, key: object, value: _T) -> _T:
        """Keep the value for this key."""
        self.key, self._value = key, [value]
        return value


class ShapeCache:
    """What the plug-ins answered for one shape, per node (N,)."""

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
    """Interned requirements and matches, with what follows from them alone.

    `request` is (R,) with the resources known when the shape was met; later ones are zero.
    `demands` are the same as (resource, amount), `sizes` those of them that are amounts of
    something, host ports aside; `scored_resources` tell full nodes from empty ones. The plug-ins'
    filters read the match counts `filter_match_ids`, their scores `score_match_ids`.
    `needs_other_pods`: it needs pods of another shape beside it, so those are placed first. `pods`
    have this shape, `waiting` of them are still to be placed.
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
        nodes: NodeTable,
        *,
        filter_match_ids: frozenset[int],
        score_match_ids: frozenset[int],
        needs_other_pods: bool,
    ) -> None:
        self.index = index
        self.requirements = requirements
        self.matches = matches
        self.filter_match_ids = filter_match_ids
        self.score_match_ids = score_match_ids
        self.needs_other_pods = needs_other_pods
        self.pods = 0
        self.waiting = 0
        self.sizes: tuple[tuple[int, int], ...] = tuple(
            (nodes.resource(name), amount)
            for name, amount in ((PODS, 1), *requirements.requests)
            if amount > 0
        )
        ports = node_ports.demands(requirements.ports)
        self.demands = self.sizes + tuple((nodes.resource(n), a) for n, a in ports.items())
        self.request: Ints = np.zeros(len(nodes.resources), np.int64)
        for resource, amount in self.demands:
            self.request[resource] = amount
        pods = nodes.resources[PODS]
        # The pod count tells full from empty only where nothing else is asked for.
        self.scored_resources = [(r, a) for r, a in self.sizes if r != pods] or list(self.sizes)
        self.reasons: list[str] = ["", NO_NODE, node_name.REASON, node_affinity.REASON]
        self.cache = ShapeCache()

    @property
    def self_interacting(self) -> bool:
        """Whether pods of this shape exclude each other or need each other."""
        return bool(self.filter_match_ids.intersection(self.matches.counted))

    @property
    def order_sensitive(self) -> bool:
        """Whether where one pod of this shape is makes a difference to the next."""
        counted = self.matches.counted
        return self.self_interacting or bool(self.score_match_ids.intersection(counted))

    def drop_caches(self) -> None:
        """Let go of what was computed per node: no pod of the shape waits."""
        self.cache = ShapeCache()

    def code(self, reason: str) -> int:
        """The reason's index in `reasons`."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)

    def rule_out(self, codes: Codes, nodes: Bools, reason: str) -> None:
        """Put the reason's code on these nodes (N,) where none is yet."""
        codes[nodes & (codes == 0)] = self.code(reason)
