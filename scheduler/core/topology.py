"""Topology domains: the nodes that share the value of a topology key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.node_table import Floats, Ints, NodeTable

UNLABELLED = -1


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
        sums: Ints = totals[1:].astype(np.int64)
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
    """Domains by topology key. They are cached until the set of nodes or a label changes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._generation = -1
        self._known: dict[tuple[str, ...], Domains] = {}

    def domains(self, key: str, outer: tuple[str, ...] = ()) -> Domains:
        """The domains of `key` inside the domains of the keys `outer`, the outermost first."""
        if self._generation != self._nodes.generation:
            self._known.clear()
            self._generation = self._nodes.generation
        keys = (*outer, key)
        domains = self._known.get(keys)
        if domains is None:
            domains = self._known[keys] = _build(self._nodes, keys)
        return domains


def _build(nodes: NodeTable, keys: tuple[str, ...]) -> Domains:
    """Only the innermost label is needed; a missing outer label counts as an empty value."""
    *outer, key = keys
    paths = [
        (*(node.labels.get(each, "") for each in outer), node.labels[key])
        if node is not None and key in node.labels
        else None
        for node in nodes.infos
    ]
    found = sorted({path for path in paths if path is not None})
    number = {path: code for code, path in enumerate(found)}
    codes = [UNLABELLED if path is None else number[path] for path in paths]
    values = tuple(path[-1] for path in found)
    return Domains(key, np.array(codes, np.int64), values, tuple(map("/".join, found)))
