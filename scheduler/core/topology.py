"""Domains: the nodes that share one value of a label, within the nodes one is confined to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.columns import Columns, Ints

UNLABELLED = -1


@dataclass(frozen=True, slots=True)
class Domains:
    """All values of one label key: `codes` (N,) per node, -1 without the label; `values` sorted."""

    key: str
    codes: npt.NDArray[np.int64]
    values: tuple[str, ...]

    def sums(self, amounts: Ints, region: Ints | None) -> Ints:
        """Amounts (N,) or (len(region),) added up per domain, (len(values),)."""
        codes = self.codes if region is None else self.codes[region]
        inside = codes >= 0
        totals = np.bincount(codes[inside], weights=amounts[inside], minlength=len(self.values))
        sums: Ints = totals.astype(np.int64)
        return sums

    def rows(self, code: int, region: Ints | None) -> Ints:
        """The domain's nodes inside the region."""
        if region is None:
            return np.flatnonzero(self.codes == code)
        inside: Ints = region[self.codes[region] == code]
        return inside

    def of(self, rows: list[int]) -> set[int]:
        """The domains in which these nodes lie, UNLABELLED among them."""
        return {int(self.codes[row]) for row in rows}


class Topologies:
    """Domains by label key, rebuilt when the set of nodes or a label changes, shared until then."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._generation = -1
        self._known: dict[str, Domains] = {}

    def domains(self, key: str) -> Domains:
        if self._generation != self._columns.generation:
            self._known.clear()
            self._generation = self._columns.generation
        domains = self._known.get(key)
        if domains is None:
            domains = self._known[key] = _build(self._columns, key)
        return domains


def _build(columns: Columns, key: str) -> Domains:
    labels = [None if node is None else node.labels.get(key) for node in columns.nodes]
    values = sorted({label for label in labels if label is not None})
    number = {value: code for code, value in enumerate(values)}
    codes = [UNLABELLED if label is None else number[label] for label in labels]
    return Domains(key, np.array(codes, np.int64), tuple(values))
