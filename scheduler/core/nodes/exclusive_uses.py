"""Host ports and disks that pods use on nodes, and that other pods may not use there too.

A port or disk costs something only while a pod uses it. kube-scheduler has HostPortInfo for ports,
and compares disks with those of every pod on the node. Pods of two stages of one tree that are
never on a node at the same time do not exclude each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.core.values.model import SHARED, WHOLE, GroupKey, Stage

Key = tuple[str | int, ...]


class ExclusiveUse(Protocol):
    """The use of a thing (`key`) by a pod on its node, and the part of it that the pod uses.

    WHOLE excludes every other user of the thing, SHARED only users of WHOLE. Any other part
    excludes users of WHOLE and of the same part.
    """

    @property
    def key(self) -> Key: ...

    @property
    def part(self) -> str: ...


@dataclass(slots=True)
class _Users:
    """The users of one thing on one node, by part; those with a stage also by stage and part.

    `conflicts` is how many pairs of them exclude each other.
    """

    parts: Counter[str] = field(default_factory=Counter)
    staged: dict[GroupKey | None, Counter[tuple[Stage, str]]] = field(default_factory=dict)
    conflicts: int = 0

    def add(self, part: str, count: int, stage: Stage | None) -> None:
        # Pods of one shape that arrive together also conflict with each other.
        among_them = 0 if part == SHARED else count * (count - 1) // 2
        self.conflicts += count * self.excluding(part, stage) + among_them
        _add(self.parts, part, count)
        if stage is not None:
            staged = self.staged.setdefault(stage.tree, Counter())
            _add(staged, (stage, part), count)
            if not staged:
                del self.staged[stage.tree]

    def excluding(self, part: str, stage: Stage | None) -> int:
        """Return how many of these exclude one more user of the part."""
        if part == WHOLE:
            found = self.parts.total()
        else:
            found = self.parts[WHOLE] + (self.parts[part] if part != SHARED else 0)
        if stage is None or not found:
            return found
        # Pods of other stages of the tree will never be there together with this one.
        return found - sum(
            count
            for (other, its), count in self.staged.get(stage.tree, {}).items()
            if stage.apart(other) and (WHOLE in (part, its) or part == its != SHARED)
        )


_Counted = TypeVar("_Counted")


def _add(counts: Counter[_Counted], key: _Counted, count: int) -> None:
    counts[key] += count
    if not counts[key]:
        del counts[key]


class ExclusiveUses:
    """Users by thing and row. `version` changes with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._users: dict[Key, dict[int, _Users]] = {}
        self._clashes: Counter[int] = Counter()

    def __len__(self) -> int:
        """Return the number of pairs of thing and row that have users."""
        return sum(map(len, self._users.values()))

    def add(
        self, uses: Iterable[ExclusiveUse], row: int, count: int, stage: Stage | None = None
    ) -> None:
        """Count pods with these uses on the node; a negative count removes them."""
        self.version += 1
        for use in uses:
            self._add(use, row, count, stage)

    def clear(self, row: int) -> None:
        """Remove all users on a deleted node."""
        self.version += 1
        self._clashes.pop(row, None)
        for key in [key for key, by_row in self._users.items() if row in by_row]:
            self._drop(key, row)

    def conflicts(self, uses: Iterable[ExclusiveUse], stage: Stage | None = None) -> set[int]:
        """Return the rows on which a pod with these uses would conflict with a user."""
        rows: set[int] = set()
        for use in uses:
            by_row = self._users.get(use.key, {})
            part = use.part
            # Every user conflicts, so the counts need not be read.
            if part == WHOLE and stage is None:
                rows.update(by_row)
            else:
                found = by_row.items()
                rows.update(row for row, users in found if users.excluding(part, stage) > 0)
        return rows

    def clash(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return per row whether pods on the node conflict with each other."""
        if not self._clashes:
            return np.zeros(len(rows), np.bool_)
        return np.array([row in self._clashes for row in rows.tolist()], np.bool_)

    def _add(self, use: ExclusiveUse, row: int, count: int, stage: Stage | None) -> None:
        key = use.key
        users = self._users.setdefault(key, {}).setdefault(row, _Users())
        before = users.conflicts > 0
        users.add(use.part, count, stage)
        changed = (users.conflicts > 0) - before
        if changed:
            # Count things, not pairs: a row clashes as long as one thing has a conflict.
            self._clashes[row] += changed
            if not self._clashes[row]:
                del self._clashes[row]
        if not users.parts:
            self._drop(key, row)

    def _drop(self, key: Key, row: int) -> None:
        del self._users[key][row]
        if not self._users[key]:
            del self._users[key]


def distinct(uses: tuple[ExclusiveUse, ...]) -> tuple[ExclusiveUse, ...]:
    """Return the uses of one pod without those that others of it contain."""
    whole = {use.key for use in uses if use.part == WHOLE}
    parts = {(use.key, use.part): use for use in uses if use.part == WHOLE or use.key not in whole}
    return tuple(parts.values())


def overlap(some: Iterable[ExclusiveUse], others: Iterable[ExclusiveUse]) -> bool:
    """Return True if a pod with the one set of uses conflicts with a pod with the other."""
    used = ExclusiveUses()
    used.add(some, 0, 1)
    return bool(used.conflicts(others))
