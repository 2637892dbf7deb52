"""Sums over time in equal spans. Their number has a limit, however long the time is."""

from __future__ import annotations

import numpy as np

from scheduler.core.nodes.node_table import Floats


class Spans:
    """Amount x seconds, span by span; `seconds` is a span's length, which doubles with time."""

    def __init__(self, shape: tuple[int, ...], most: int) -> None:
        """Start empty; `shape` is that of the amounts."""
        self.seconds = 1.0
        self._shape = shape
        self._most = most
        self._sums: list[Floats] = []

    def add(self, amount: Floats, begin: float, end: float) -> None:
        """Add an amount that was constant from `begin`, the end of the last one, to `end`."""
        while begin < end:
            index = int(begin // self.seconds)
            if index >= self._most:
                self._merge()
                continue
            while len(self._sums) <= index:
                self._sums.append(np.zeros(self._shape))
            until = min(end, (index + 1) * self.seconds)
            self._sums[index] += amount * (until - begin)
            begin = until

    @property
    def sums(self) -> Floats:
        """The spans so far, (spans, *shape)."""
        return np.array(self._sums).reshape(-1, *self._shape)

    def means(self, end: float) -> Floats:
        """Return the mean amounts of each span until `end`, (spans, *shape)."""
        sums = self.sums
        ends = np.minimum(np.arange(1, len(sums) + 1) * self.seconds, end)
        lengths = np.diff(np.concatenate(([0.0], ends))).clip(min=1e-9)
        found: Floats = sums / lengths.reshape(-1, *(1 for _ in self._shape))
        return found

    def _merge(self) -> None:
        """Merge each two spans into one."""
        self.seconds *= 2
        pairs = range(0, len(self._sums), 2)
        self._sums = [np.sum(self._sums[index : index + 2], axis=0) for index in pairs]
