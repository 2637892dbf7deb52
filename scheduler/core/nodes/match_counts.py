"""The number of matching pods on each node; sparse, because most are on few nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from scheduler.core.values.changed_keys import ChangedKeys
from scheduler.core.values.model import GroupKey, Stage

Ints = npt.NDArray[np.int64]

_ByRow = dict[int, int]
_Staged = dict[GroupKey | None, dict[Stage, _ByRow]]


class MatchCounts:
    """Counts by match id and row. Ids are never reused.

    `moved` are the `watched` ids whose pods are on other nodes than before, or that ended.

    A pod with a stage does not meet the pods of the other stages of its tree. Counts that are
    `seen_by` it do not include them, unless they exist as it does.

    As upstream, a term that needs other pods must hold with the `nominated` pods and without them:
    they may never be scheduled.
    """

    def __init__(self) -> None:
        self.moved: ChangedKeys[int] = ChangedKeys()
        self._counts: dict[int, _ByRow] = {}
        self._staged: dict[int, _Staged] = {}
        self.watched: set[int] = set()
        self._nominated: dict[int, _ByRow] = {}
        self._nominating = False
        self._ids = itertools.count()

    def __len__(self) -> int:
        return len(self._counts)

    def new(self, *, watched: bool = False) -> int:
        """Create a match count without pods and return its id."""
        match_id = next(self._ids)
        self._counts[match_id] = {}
        if watched:
            self.watched.add(match_id)
        return match_id

    def end(self, match_id: int) -> None:
        """Remove a match count that no shape reads."""
        del self._counts[match_id]
        self._staged.pop(match_id, None)
        if match_id in self.watched:
            self.watched.remove(match_id)
            self.moved.add(match_id)

    def add(
        self, match_ids: tuple[int, ...], rows: Ints, counts: Ints, stage: Stage | None = None
    ) -> None:
        for match_id in match_ids:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.add_one(match_id, row, count, stage)

    def add_one(self, match_id: int, row: int, count: int, stage: Stage | None = None) -> None:
        counts = self._counts.get(match_id)
        if counts is None:
            return  # it ended; a shape in a nomination may still name it
        if self._nominating:
            nominated = self._nominated.setdefault(match_id, {})
            nominated[row] = nominated.get(row, 0) + count
        before = counts.get(row, 0)
        total = before + count
        if total:
            counts[row] = total
        else:
            counts.pop(row, None)
        if stage is not None:
            self._add_staged(match_id, row, count, stage)
        # Watchers care about nodes with and without pods, not about the number.
        if not (before and total) and match_id in self.watched:
            self.moved.add(match_id)

    def clear(self, row: int) -> None:
        """Remove all counts of a deleted node."""
        for match_id, counts in self._counts.items():
            if counts.pop(row, None) and match_id in self.watched:
                self.moved.add(match_id)
        for match_id, trees in list(self._staged.items()):
            staged = [(stage, of) for stages in trees.values() for stage, of in stages.items()]
            for stage, by_row in staged:
                self._add_staged(match_id, row, -by_row.get(row, 0), stage)

    @contextmanager
    def nominating(self, take: Callable[[], None]) -> Iterator[None]:
        """Treat the pods that `take` counts as nominated ones inside."""
        before, self._nominated = self._nominated, {}
        try:
            self._nominating = True
            take()
            # Off before the body: the pods that the decision places are not nominated.
            self._nominating = False
            yield
        finally:
            self._nominating, self._nominated = False, before

    def views(self, match_id: int) -> tuple[bool, ...]:
        """Return the values for `nominated`: True, and also False if there are nominated pods."""
        return (True, False) if any(self._nominated.get(match_id, {}).values()) else (True,)

    def empty(self, match_id: int, seen_by: Stage | None = None) -> bool:
        return not self._seen(match_id, seen_by)

    def rows(self, match_id: int, seen_by: Stage | None = None, *, nominated: bool = True) -> Ints:
        """Return the rows with at least one matching pod."""
        counts = self._seen(match_id, seen_by, nominated=nominated)
        return np.fromiter(counts, np.int64, len(counts))

    def amounts(
        self, match_id: int, seen_by: Stage | None = None, *, nominated: bool = True
    ) -> Ints:
        """Return the counts on the rows of `rows(match_id)`, in the same order."""
        counts = self._seen(match_id, seen_by, nominated=nominated)
        return np.fromiter(counts.values(), np.int64, len(counts))

    def _seen(self, match_id: int, stage: Stage | None, *, nominated: bool = True) -> _ByRow:
        counts, apart = self._counts[match_id], list[_ByRow]()
        if not nominated:
            apart.append(self._nominated.get(match_id, {}))
        if stage is not None and self._staged:
            others = self._staged.get(match_id, {}).get(stage.tree, {})
            apart += (by_row for other, by_row in others.items() if stage.apart(other))
        # The usual case, without a copy.
        if not apart:
            return counts
        seen = dict(counts)
        for by_row in apart:
            for row, count in by_row.items():
                seen[row] = seen.get(row, 0) - count
        return {row: count for row, count in seen.items() if count}

    def _add_staged(self, match_id: int, row: int, count: int, stage: Stage) -> None:
        trees = self._staged.setdefault(match_id, {})
        stages = trees.setdefault(stage.tree, {})
        by_row = stages.setdefault(stage, {})
        total = by_row.get(row, 0) + count
        if total:
            by_row[row] = total
            return
        by_row.pop(row, None)
        if not by_row:
            del stages[stage]
        if not stages:
            del trees[stage.tree]
        if not trees:
            del self._staged[match_id]
