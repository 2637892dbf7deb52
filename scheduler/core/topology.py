"""Topology domains: the nodes that share the value of a topology key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.node_table import Floats, Ints, NodeTable

UNLABELLED = -1

_KEPT: Final = 256
"""The most entries of the cache; the oldest goes first."""

_MOST = float(1 << 62)
"""Sums are cut off here, because they would not fit into an int64 otherwise."""


@dataclass(frozen=True, slots=True)
class Domains:
    """All D domains of one topology key: `codes` (N,) is each node's domain, -1 without the label.

    `values` (D,) are the label values, indexed by code. Inside different outer domains, equal
    values are different domains; `paths` (D,) join all values with `/`, the outermost first.
    """

    key: str
    codes: npt.NDArray[np.int64]
    values: tuple[str, ...]
    paths: tuple[str, ...]

    def sums(self, amounts: Ints | Floats, region: Ints | None) -> Ints:
        """Sums (D,) of the amounts, which are (len(region),), or (N,) if the region is None."""
        codes = self.codes if region is None else self.codes[region]
        # Index 0 is for nodes without the label.
        totals = np.bincount(codes + 1, weights=amounts, minlength=len(self.values) + 1)
        sums: Ints = np.clip(totals[1:], -_MOST, _MOST).astype(np.int64)
        return sums

    def rows(self, code: int, region: Ints | None) -> Ints:
        """The rows of the domain's nodes; only those in the region, unless that is None."""
        if region is None:
            return np.flatnonzero(self.codes == code)
        inside: Ints = region[self.codes[region] == code]
        return inside

    def union(self, codes: list[int], region: Ints | None) -> Ints:
        """Like `rows` for several domains, concatenated by code."""
        parts = [self.rows(code, region) for code in sorted(codes)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def of(self, rows: list[int]) -> set[int]:
        """The codes of these nodes' domains, including UNLABELLED for nodes without the label."""
        return {int(self.codes[row]) for row in rows}


class Topologies:
    """Domains by topology key. They are cached until the set of nodes or a label changes.

    Pods and groups may name any keys: only so many are cached, and those of a key that no node has
    cost nothing per node.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._generation = -1
        self._known: dict[tuple[str, ...], Domains] = {}
        self._unlabelled = np.zeros(0, np.int64)

    def __len__(self) -> int:
        """How many are cached."""
        return len(self._known)

    def domains(self, key: str, outer: tuple[str, ...] = ()) -> Domains:
        """The domains of `key` inside the domains of the keys `outer`, the outermost first."""
        if self._generation != self._nodes.generation:
            self._known.clear()
            self._generation = self._nodes.generation
            self._unlabelled = np.full(self._nodes.size, UNLABELLED, np.int64)
        if self._nodes.labels.column(key) is None:
            return Domains(key, self._unlabelled, (), ())
        keys = (*outer, key)
        domains = self._known.get(keys)
        if domains is None:
            if len(self._known) == _KEPT:
                del self._known[next(iter(self._known))]
            domains = self._known[keys] = _build(self._nodes, keys)
        return domains


def _build(nodes: NodeTable, keys: tuple[str, ...]) -> Domains:
    """Only the innermost label is needed; a missing outer label counts as an empty value."""
    *outer, key = keys
    labelled = np.flatnonzero(nodes.labels.has(key))
    combined = np.zeros(len(labelled), np.int64)
    first = combined
    for each in keys:
        ranks = _ranks(nodes, each)[labelled]
        combined = combined * (int(ranks.max(initial=0)) + 1) + ranks
        # Numbered anew each time, so that the product of many keys fits into an int64.
        _, first, combined = np.unique(combined, return_index=True, return_inverse=True)
    codes = np.full(nodes.size, UNLABELLED, np.int64)
    codes[labelled] = combined
    paths: list[tuple[str, ...]] = []
    for row in labelled[first].tolist():
        node = nodes.infos[row]
        if node is not None:
            paths.append((*(node.labels.get(each, "") for each in outer), node.labels[key]))
    return Domains(key, codes, tuple(p[-1] for p in paths), tuple(map("/".join, paths)))


def _ranks(nodes: NodeTable, key: str) -> Ints:
    """Per node (N,) the place of its value in the order of all values; without one, of ""."""
    column = nodes.labels.column(key)
    if column is None:
        return np.zeros(nodes.size, np.int64)
    values = [*(value or "" for value in column.values), ""]
    place = {value: number for number, value in enumerate(sorted(set(values)))}
    ranks: Ints = np.array([place[value] for value in values], np.int64)[column.codes[: nodes.size]]
    return ranks
