"""Workloads that ended while the console ran: one day at most, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

KEPT_SECONDS: Final = 24 * 3600.0
"""Seconds for which a deleted workload is kept."""

MOST: Final = 10_000
"""Deleted workloads that are kept. The first ones to end are dropped first."""

MOST_OF_NAMESPACE: Final = 200
"""Deleted workloads of one namespace that are kept, so that no tenant displaces those of others."""


class Ended:
    """The IDs of ended workloads, and the order in which they ended."""

    def __init__(self) -> None:
        self._at: OrderedDict[str, float] = OrderedDict()
        self._of: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._at)

    def keep(self, id_: str, now: float) -> list[str]:
        """Keep the workload that ended now, in seconds; return the IDs that are dropped for it."""
        self.forget(id_)
        namespace = _namespace(id_)
        self._at[id_] = now
        of_namespace = self._of.setdefault(namespace, OrderedDict())
        of_namespace[id_] = None
        dropped = []
        if len(of_namespace) > MOST_OF_NAMESPACE:
            dropped.append(next(iter(of_namespace)))
        elif len(self._at) > MOST:
            dropped.append(next(iter(self._at)))
        for each in dropped:
            self.forget(each)
        return dropped

    def forget(self, id_: str) -> None:
        """Forget the workload, if it is kept."""
        if self._at.pop(id_, None) is None:
            return
        namespace = _namespace(id_)
        del self._of[namespace][id_]
        if not self._of[namespace]:
            del self._of[namespace]

    def expire(self, now: float) -> Iterator[str]:
        """Drop the workloads that ended a day ago, and yield their IDs."""
        while self._at:
            id_, at = next(iter(self._at.items()))
            if now - at < KEPT_SECONDS:
                return
            self.forget(id_)
            yield id_


def _namespace(id_: str) -> str:
    return id_.partition("/")[0]
