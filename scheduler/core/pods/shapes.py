"""Shapes: pods with equal requirements and matches, which are placed together, not one by one.

A shape is plain data. Plugins take it as an argument; `framework` runs them and caches their
results in the shape. It corresponds to the pod signature of opportunistic batching (KEP-5598).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.core.nodes.exclusive_uses import distinct
from scheduler.core.nodes.node_table import Bools, Ints, Load
from scheduler.core.nodes.resource_table import Request
from scheduler.core.pods.pod_selectors import PodMatches
from scheduler.core.values.model import SHARED, Requirements

Codes = npt.NDArray[np.int32]
"""Index into `Shape.reasons` of the reason that excludes each node; 0 if none does."""

NO_NODE: Final = "no node"
"""Reason for rows without a node."""

_T = TypeVar("_T")


class Cached(Generic[_T]):
    """Value, and the key that it was computed for; None if there is no value yet.

    `stamp` is for values that are updated row by row: the node table's stamp up to which the rows
    are current, -1 if none is.
    """

    __slots__ = ("key", "stamp", "value")

    value: _T

    def __init__(self) -> None:
        self.key: object = None
        self.stamp = -1


class ButVolumes:
    """Requirements and matches of a shape without its volumes; hashed once."""

    # Used as a key at each lookup of shared slots; hashing requirements is slow.
    __slots__ = ("_hash", "_rest")

    def __init__(self, requirements: Requirements, matches: PodMatches) -> None:
        self._rest = (requirements, matches)
        self._hash = hash(self._rest)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ButVolumes) and self._rest == other._rest)


class ShapeCache:
    """Results of the plugins for one shape: for each node (N,); `by_class` for each node class.

    The results refer to `reasons` by index; `codes` has the index of each reason.
    """

    # One for each shape with pending pods, of which there may be thousands.
    __slots__ = (
        "affinity", "but_volumes", "by_class", "capacity", "codes", "conflicts", "node_codes",
        "node_scores", "pod_codes", "reasons", "slots",
    )  # fmt: skip

    def __init__(self) -> None:
        self.affinity: Cached[Bools] = Cached()
        self.but_volumes: ButVolumes | None = None
        self.by_class: Cached[list[int]] = Cached()
        self.conflicts: Cached[Bools] = Cached()
        self.node_codes: Cached[Codes] = Cached()
        self.pod_codes: Cached[Codes] = Cached()
        self.capacity: Cached[Ints] = Cached()
        self.slots: Cached[Ints] = Cached()
        self.node_scores: Cached[list[tuple[int, Ints]]] = Cached()
        self.reasons: list[str] = ["", NO_NODE]
        self.codes: dict[str, int] = {"": 0, NO_NODE: 1}


class Shape:
    """Interned requirements and matches of equal pods, with what is derived from them alone.

    `load` is what each pod takes of its node, `request` the part of it that is resources. `uses`
    are the host ports and disks of each pod, `volumes` its volumes that count for limits. Filters
    read the match counts `filter_match_ids`, scores read `score_match_ids`. `needs_devices` means
    that the pods need devices, at least on some nodes; `needs_other_pods` that they need pods of
    another shape in their domain, which are placed first. `pods` is the number of pods with this
    shape, `waiting` the number of pending ones among them. `cache` has the cached results, created
    on first use: most shapes, of running pods, never need any.
    """

    __slots__ = (
        "cache", "filter_match_ids", "index", "load", "matches", "needs_devices",
        "needs_other_pods", "pods", "request", "requirements", "score_match_ids", "uses",
        "volumes", "waiting",
    )  # fmt: skip

    cache: ShapeCache

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
        # The node table counts uses of a port or disk, and one pod must not conflict with itself.
        self.uses = distinct(requirements.ports + requirements.disks)
        self.load = Load(
            request, matches.counted, self.uses, requirements.stage, requirements.assumed
        )
        self.filter_match_ids = filter_match_ids
        self.score_match_ids = score_match_ids
        self.needs_devices = bool(requirements.asks or requirements.extended)
        self.needs_other_pods = needs_other_pods
        self.volumes = requirements.volumes
        self.pods = 0
        self.waiting = 0

    def __getattr__(self, name: str) -> ShapeCache:
        # Called only for an attribute that has no value: plugins read the cache all the time.
        if name != "cache":
            raise AttributeError(name)
        self.cache = ShapeCache()
        return self.cache

    @property
    def exclusive(self) -> bool:
        """True if two pods of this shape conflict, so that a node takes at most one."""
        return any(use.part != SHARED for use in self.uses)

    @property
    def reasons(self) -> list[str]:
        """Reasons that `Codes` of this shape refer to; dropped together with the cache."""
        return self.cache.reasons

    @property
    def self_interacting(self) -> bool:
        """True if pods of this shape exclude each other or need each other."""
        return bool(self.filter_match_ids.intersection(self.matches.counted))

    @property
    def order_sensitive(self) -> bool:
        """True if the node of one pod of this shape affects the filter or score of the next."""
        counted = self.matches.counted
        return self.self_interacting or bool(self.score_match_ids.intersection(counted))

    def drop_caches(self) -> None:
        """Free the cached results, when no pending pod has the shape."""
        # Codes refer to the reasons in the cache, so both are dropped together.
        with suppress(AttributeError):
            del self.cache

    def code(self, reason: str) -> int:
        """Return the reason's index in `reasons`, and add the reason if it is new."""
        codes = self.cache.codes
        code = codes.get(reason)
        if code is None:
            code = codes[reason] = len(codes)
            self.cache.reasons.append(reason)
        return code

    def rule_out(self, codes: Codes, nodes: Bools, reason: str) -> None:
        """Write the reason's code for those of the nodes (N,) that have no code yet."""
        # As in kube-scheduler, the first filter that rejects a node gives its reason.
        codes[nodes & (codes == 0)] = self.code(reason)


def demands_of(pods: Mapping[Shape, int]) -> Counter[int]:
    """Return the total of each resource, by index, that these numbers of pods request."""
    total: Counter[int] = Counter()
    for shape, count in pods.items():
        total.update({resource: amount * count for resource, amount in shape.request.demands})
    return total
