"""How many matching pods are on each node; sparse, because most are on few nodes."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class MatchCounts:
    """Counts by match id and row. Ids are never reused.

    `moved` are the watched ids of which other nodes than before have pods, or that ended.
    """

    def __init__(self) -> None:
        self.moved: set[int] = set()
        self._counts: dict[int, dict[int, int]] = {}
        self._watched: set[int] = set()
        self._ids = itertools.count()

    def __len__(self) -> int:
        return len(self._counts)

    def new(self, *, watched: bool = False) -> int:
        """Create a match count without pods and return its id."""
        match_id = next(self._ids)
        self._counts[match_id] = {}
        if watched:
            self._watched.add(match_id)
        return match_id

    def end(self, match_id: int) -> None:
        """Remove a match count that nothing reads any more."""
        del self._counts[match_id]
        if match_id in self._watched:
            self._watched.remove(match_id)
            self.moved.add(match_id)

    def add(self, match_ids: tuple[int, ...], rows: Ints, counts: Ints) -> None:
        for match_id in match_ids:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.add_one(match_id, row, count)

    def add_one(self, match_id: int, row: int, count: int) -> None:
        counts = self._counts.get(match_id)
        if counts is None:
            return  # it was removed; a shape in a nomination may still name it
        before = counts.get(row, 0)
        total = before + count
        if total:
            counts[row] = total
        else:
            counts.pop(row, None)
        if not (before and total) and match_id in self._watched:
            self.moved.add(match_id)

    def clear(self, row: int) -> None:
        """Remove all counts of a node that is gone."""
        for match_id, counts in self._counts.items():
            if counts.pop(row, None) and match_id in self._watched:
                self.moved.add(match_id)

    def empty(self, match_id: int) -> bool:
        return not self._counts[match_id]

    def rows(self, match_id: int) -> Ints:
        """The rows with at least one matching pod."""
        counts = self._counts[match_id]
        return np.fromiter(counts, np.int64, len(counts))

    def amounts(self, match_id: int) -> Ints:
        """The counts on the rows of `rows(match_id)`, in the same order."""
        counts = self._counts[match_id]
        return np.fromiter(counts.values(), np.int64, len(counts))
