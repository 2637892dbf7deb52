"""What pods use on which nodes that others may not use there too: host ports and disks.

A port or disk costs something only while a pod uses it. kube-scheduler has HostPortInfo for ports,
and compares disks with those of every pod on the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.core.model import SHARED, WHOLE

Key = tuple[str | int, ...]


class Use(Protocol):
    """That a pod uses a thing (`key`) on its node: which part of it.

    WHOLE excludes every other user of the thing, SHARED those of the whole. Any other part excludes
    users of the whole and of the same part.
    """

    @property
    def key(self) -> Key: ...

    @property
    def part(self) -> str: ...


@dataclass(slots=True)
class _Users:
    """The users of one thing on one node: how many of the whole, and of each part.

    `repeated` is how many parts have more than one user, though only one is permitted.
    """

    whole: int = 0
    parts: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    def add(self, part: str, count: int) -> None:
        if part == WHOLE:
            self.whole += count
            return
        before = self.parts[part]
        after = self.parts[part] = before + count
        if part != SHARED:
            self.repeated += (after > 1) - (before > 1)
        if not after:
            del self.parts[part]

    def exclude(self, part: str) -> bool:
        """Whether one more user of the part would conflict with these."""
        if part == WHOLE or self.whole > 0:
            return True
        return part != SHARED and part in self.parts

    @property
    def clash(self) -> bool:
        """Whether some of the users conflict with each other."""
        mixed = self.whole > 0 and bool(self.parts)
        return self.whole > 1 or mixed or self.repeated > 0


class ExclusiveUses:
    """Users by thing and row. `version` changes with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._users: dict[Key, dict[int, _Users]] = {}
        self._clashes: Counter[int] = Counter()

    def __len__(self) -> int:
        """How many pairs of thing and row have users."""
        return sum(map(len, self._users.values()))

    def add(self, uses: Iterable[Use], row: int, count: int) -> None:
        """Count pods with these uses on the node; a negative count takes them off."""
        self.version += 1
        for use in uses:
            self._add(use, row, count)

    def clear(self, row: int) -> None:
        """Remove all users on a node that is gone."""
        self.version += 1
        self._clashes.pop(row, None)
        for key in [key for key, by_row in self._users.items() if row in by_row]:
            self._drop(key, row)

    def conflicts(self, uses: Iterable[Use]) -> set[int]:
        """The rows on which a pod with these uses would conflict with a user."""
        rows: set[int] = set()
        for use in uses:
            by_row = self._users.get(use.key, {})
            part = use.part
            if part == WHOLE:
                rows.update(by_row)
            else:
                rows.update(row for row, users in by_row.items() if users.exclude(part))
        return rows

    def clash(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Per row whether pods on the node conflict with each other."""
        if not self._clashes:
            return np.zeros(len(rows), np.bool_)
        return np.array([row in self._clashes for row in rows.tolist()], np.bool_)

    def _add(self, use: Use, row: int, count: int) -> None:
        key = use.key
        users = self._users.setdefault(key, {}).setdefault(row, _Users())
        before = users.clash
        users.add(use.part, count)
        changed = users.clash - before
        if changed:
            self._clashes[row] += changed
            if not self._clashes[row]:
                del self._clashes[row]
        if not users.whole and not users.parts:
            self._drop(key, row)

    def _drop(self, key: Key, row: int) -> None:
        del self._users[key][row]
        if not self._users[key]:
            del self._users[key]


def overlap(some: Iterable[Use], others: Iterable[Use]) -> bool:
    """Whether a pod with the one set of uses conflicts with a pod with the other."""
    used = ExclusiveUses()
    used.add(some, 0, 1)
    return bool(used.conflicts(others))
