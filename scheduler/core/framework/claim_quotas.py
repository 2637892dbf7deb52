"""Quotas of ResourceClaims: the number of further pods that can use each.

The API server limits the entries in `status.reservedFor`. A claim's consumers are those that its
status names, the assumed ones, and the pods that the open trial has placed. A claim that is
reserved for a group has no quota.
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
    """Return the claims that pods of the shape name, which other pods may name as well."""
    asks = shape.requirements.asks
    return tuple(each for each in asks if isinstance(each, tuple)) if asks else ()


class ClaimQuotas:
    """Counter of the consumers of claims that pods name."""

    def __init__(self, nodes: NodeTable, table: DeviceTable) -> None:
        self._nodes = nodes
        self._table = table
        self._placed: Counter[ClaimKey] = Counter()
        self._standing: dict[ClaimKey, int] = {}

    def _named(self, shape: Shape) -> tuple[ClaimKey, ...]:
        """Return the claims that pods of the shape name, and that have a quota."""
        of_groups = self._table.of_groups
        return tuple(key for key in named(shape) if key not in of_groups)

    @contextmanager
    def deciding(self, pods: Iterable[tuple[Shape, Iterable[str]]]) -> Iterator[None]:
        """Decide a root with these pending pods, UIDs by shape, inside the context.

        A pending pod that a claim is reserved for already does not count twice, if the claim can
        have all pending pods as consumers.
        """
        waiting: dict[ClaimKey, set[str]] = {}
        for shape, uids in pods:
            for key in self._named(shape):
                waiting.setdefault(key, set()).update(uids)
        full = False
        for key, of in waiting.items():
            consumers = self._table.consumers.entries(key)
            # If the claim cannot have all of them, the decision may choose a pod without an entry,
            # which would be one too many. Then all entries count.
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
        """Invalidate cached results about pods that name `full` claims."""
        # A full claim accepts pods of this root only, so the results are wrong for other roots.
        if full:
            self._table.claims_version += 1
            self._nodes.touch()

    def full(self, shape: Shape) -> tuple[ClaimKey, int] | None:
        """Return a claim of the shape without a free entry, and its consumers before the trial."""
        for key in self._named(shape):
            consumers = self.consumers(key)
            if consumers + self._placed[key] >= MOST_CONSUMERS:
                return key, consumers
        return None

    def remaining_pods(self, shape: Shape) -> int | None:
        """Return the number of further pods that the shape's claims accept, or None for any."""
        keys = self._named(shape)
        left = (MOST_CONSUMERS - self.consumers(key) - self._placed[key] for key in keys)
        return min(left, default=None) if keys else None

    def consumers(self, key: ClaimKey) -> int:
        """Return the number of consumers without the pending pods of the root being decided."""
        return len(self._table.consumers.entries(key)) - self._standing.get(key, 0)

    def count(self, shape: Shape, count: int) -> None:
        """Count pods of the shape that the open trial places, or removes if negative."""
        keys = self._named(shape)
        if keys and count:
            self._add(keys, count)
            self._nodes.undo_by(partial(self._add, keys, -count))

    def _add(self, keys: Iterable[ClaimKey], count: int) -> None:
        for key in keys:
            self._placed[key] += count
            if not self._placed[key]:
                del self._placed[key]
