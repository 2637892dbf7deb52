"""How many pods of some kind are on each node, sparsely: most kinds are on few nodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Tallies:
    """Counts by tally and row. A tally's number is given by `new` and means nothing here."""

    def __init__(self) -> None:
        self._counts: list[dict[int, int]] = []

    def new(self) -> int:
        """Another tally, empty."""
        self._counts.append({})
        return len(self._counts) - 1

    def add(self, tallies: tuple[int, ...], rows: Ints, counts: Ints) -> None:
        for tally in tallies:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.add_one(tally, row, count)

    def add_one(self, tally: int, row: int, count: int) -> None:
        counts = self._counts[tally]
        total = counts.get(row, 0) + count
        if total:
            counts[row] = total
        else:
            counts.pop(row, None)

    def clear(self, row: int) -> None:
        """The node is gone."""
        for counts in self._counts:
            counts.pop(row, None)

    def empty(self, tally: int) -> bool:
        return not self._counts[tally]

    def rows(self, tally: int) -> Ints:
        """Rows on which there is one at least."""
        counts = self._counts[tally]
        return np.fromiter(counts, np.int64, len(counts))

    def amounts(self, tally: int) -> Ints:
        """The counts of `rows`, in the same order."""
        counts = self._counts[tally]
        return np.fromiter(counts.values(), np.int64, len(counts))
