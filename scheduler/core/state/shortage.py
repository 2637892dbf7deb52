"""What a root lacks, as the search finds it. `explain` turns it into numbers for users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import GroupKey

Kind = Literal["capacity", "constraint", "quorum", "priority", "invalid", "binding", "error"]


@dataclass(frozen=True, slots=True)
class BestDomain:
    """The domain that came closest, and how many more pods it would have to hold."""

    key: str
    value: str
    missing: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """Group `at` needs room for `needed` pods of `shape` (or children); there is room for `free`.

    `beside` pods of the same root were placed on trial before: the room is what they leave.
    `resolvable` is false if no preemption could help. `minimum` is false if the group runs and only
    extras wait. `counts` are nodes per reason, if these depend on the volumes assumed for other
    members during the search; otherwise empty, because they can be computed later.
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
    beside: int = 0

    def within(self, value: str, *, key: str) -> Shortage:
        """The same shortage, found inside a domain; if it has an inner one already, it keeps it."""
        if self.best is not None:
            return self
        return replace(self, best=BestDomain(key, value, max(0, self.needed - self.free)))
