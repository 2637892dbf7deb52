"""How many pods of some kind are on each node, sparsely: most kinds are on few nodes."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Tallies:
    """Counts by tally and row. A tally's number is given by `new`, and never given again."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[int, int]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._counts)

    def new(self) -> int:
        """Another tally, empty."""
        number = next(self._numbers)
        self._counts[number] = {}
        return number

    def end(self, tally: int) -> None:
        """Nobody counts by it any more."""
        del self._counts[tally]

    def add(self, tallies: tuple[int, ...], rows: Ints, counts: Ints) -> None:
        for tally in tallies:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.add_one(tally, row, count)

    def add_one(self, tally: int, row: int, count: int) -> None:
        counts = self._counts.get(tally)
        if counts is None:
            return  # it has ended; a shape for which places are held may still name it
        total = counts.get(row, 0) + count
        if total:
            counts[row] = total
        else:
            counts.pop(row, None)

    def clear(self, row: int) -> None:
        """The node is gone."""
        for counts in self._counts.values():
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
