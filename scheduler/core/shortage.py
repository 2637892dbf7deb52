"""What a root lacks, as the search meets it; `explain` turns it into numbers for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from scheduler.core.model import GroupKey
from scheduler.core.shapes import Shape

Kind = Literal["capacity", "constraint", "quorum", "priority", "invalid"]


@dataclass(frozen=True, slots=True)
class BestDomain:
    """The domain that came nearest, with the pods it still lacks."""

    key: str
    value: str
    missing: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """At group `at`, `needed` pods of `shape` (or children) meet room for `free` of them.

    `resolvable` is false where no eviction could help. `minimum` is false where the group
    runs and only members beyond its minimum wait. `counts` are nodes per reason, where these depend
    on what volumes the rest of the group was to get; empty where they can be had later.
    """

    kind: Kind
    at: GroupKey
    message: str
    needed: int = 0
    free: int = 0
    shape: Shape | None = None
    best: BestDomain | None = None
    resolvable: bool = True
    minimum: bool = True
    counts: tuple[tuple[str, int], ...] = ()

    def within(self, value: str, *, key: str) -> Shortage:
        """The same, met inside one domain; a shortage further down keeps its own."""
        if self.best is not None:
            return self
        return replace(self, best=BestDomain(key, value, max(0, self.needed - self.free)))
