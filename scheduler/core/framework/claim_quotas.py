"""How many pods more can use a ResourceClaim.

The API server takes so many entries in `status.reservedFor` and no more. A claim's consumers are
those that its status names, the assumed ones, and the pods that the open trial has placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from scheduler.core.devices.claim_consumers import MOST_CONSUMERS
from scheduler.core.devices.table import DeviceTable
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import ClaimKey


def named(shape: Shape) -> tuple[ClaimKey, ...]:
    """The claims that pods of the shape name, which others may name as well."""
    asks = shape.requirements.asks
    return tuple(each for each in asks if isinstance(each, tuple)) if asks else ()


class ClaimQuotas:
    """Counts the consumers of claims that pods name."""

    def __init__(self, nodes: NodeTable, table: DeviceTable) -> None:
        self._nodes = nodes
        self._table = table
        self._placed: Counter[ClaimKey] = Counter()
        self._standing: dict[ClaimKey, int] = {}

    @contextmanager
    def deciding(self, pods: Iterable[tuple[Shape, Iterable[str]]]) -> Iterator[None]:
        """Decide a root inside of which these pods wait, the UIDs by shape.

        Those that a claim is reserved for already take no other place among its consumers, if it
        can have all that wait: otherwise any of them may be chosen.
        """
        waiting: dict[ClaimKey, set[str]] = {}
        for shape, uids in pods:
            for key in named(shape):
                waiting.setdefault(key, set()).update(uids)
        full = False
        for key, of in waiting.items():
            consumers = self._table.consumers.entries(key)
            if not consumers.isdisjoint(of) and len(consumers | of) <= MOST_CONSUMERS:
                self._standing[key] = len(consumers & of)
                full = full or len(consumers) == MOST_CONSUMERS
        self._count_otherwise(full=full)
        try:
            yield
        finally:
            self._standing.clear()
            self._count_otherwise(full=full)

    def _count_otherwise(self, *, full: bool) -> None:
        """What is known of pods that name `full` claims does not hold."""
        if full:
            self._table.claims_version += 1
            self._nodes.touch()

    def full(self, shape: Shape) -> tuple[ClaimKey, int] | None:
        """A claim that its pods name and that takes no more consumers.

        With how many it has besides those that the open trial has placed.
        """
        for key in named(shape):
            consumers = self.consumers(key)
            if consumers + self._placed[key] >= MOST_CONSUMERS:
                return key, consumers
        return None

    def left(self, shape: Shape) -> int | None:
        """How many more pods of the shape its named claims can have as consumers; None: any."""
        keys = named(shape)
        left = (MOST_CONSUMERS - self.consumers(key) - self._placed[key] for key in keys)
        return min(left, default=None) if keys else None

    def consumers(self, key: ClaimKey) -> int:
        """How many a claim has besides the waiting pods of the root that is decided."""
        return len(self._table.consumers.entries(key)) - self._standing.get(key, 0)

    def count(self, shape: Shape, count: int) -> None:
        """The open trial places so many pods more of the shape; negative: it takes them off."""
        keys = named(shape)
        if keys and count:
            self._add(keys, count)
            self._nodes.undo_by(partial(self._add, keys, -count))

    def _add(self, keys: Iterable[ClaimKey], count: int) -> None:
        for key in keys:
            self._placed[key] += count
            if not self._placed[key]:
                del self._placed[key]
