"""Domains: the nodes that share one value of a label, within the nodes that a group is tied to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.node_table import Floats, Ints, NodeTable

UNLABELLED = -1


@dataclass(frozen=True, slots=True)
class Domains:
    """All domains of one label key: `codes` (N,) per node, -1 without the label.

    `values` are the label's, in the order of the codes. Where domains lie inside others, equal
    values under different ones are different domains; `paths` name them from the outermost on.
    """

    key: str
    codes: npt.NDArray[np.int64]
    values: tuple[str, ...]
    paths: tuple[str, ...]

    def sums(self, amounts: Ints | Floats, region: Ints | None) -> Ints:
        """Amounts (N,) or (len(region),) added up per domain, (len(values),)."""
        codes = self.codes if region is None else self.codes[region]
        # The first place is for nodes without the label.
        totals = np.bincount(codes + 1, weights=amounts, minlength=len(self.values) + 1)
        sums: Ints = totals[1:].astype(np.int64)
        return sums

    def rows(self, code: int, region: Ints | None) -> Ints:
        """The domain's nodes inside the region."""
        if region is None:
            return np.flatnonzero(self.codes == code)
        inside: Ints = region[self.codes[region] == code]
        return inside

    def union(self, codes: list[int], region: Ints | None) -> Ints:
        """The nodes of all these domains inside the region."""
        parts = [self.rows(code, region) for code in sorted(codes)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def of(self, rows: list[int]) -> set[int]:
        """The domains in which these nodes lie, UNLABELLED among them."""
        return {int(self.codes[row]) for row in rows}


class Topologies:
    """Domains by label key, rebuilt when the set of nodes or a label changes, shared until then."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._generation = -1
        self._known: dict[tuple[str, ...], Domains] = {}

    def domains(self, key: str, outer: tuple[str, ...] = ()) -> Domains:
        """The domains of `key`, told apart by the labels `outer` too."""
        if self._generation != self._nodes.generation:
            self._known.clear()
            self._generation = self._nodes.generation
        keys = (*outer, key)
        domains = self._known.get(keys)
        if domains is None:
            domains = self._known[keys] = _build(self._nodes, keys)
        return domains


def _build(nodes: NodeTable, keys: tuple[str, ...]) -> Domains:
    """A node needs only the innermost label; without an outer one it is in a domain apart."""
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
