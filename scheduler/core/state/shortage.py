"""The shortage of a root, as the search finds it. `explain` turns it into numbers for users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import GroupKey

MOST_SIBLINGS: Final = 2
"""Siblings that a message names. Of more, it says only how many pods they have."""

Kind = Literal[
    "capacity", "constraint", "quorum", "priority", "invalid", "binding", "error", "timeout"
]


@dataclass(frozen=True, slots=True)
class BestDomain:
    """The domain that came closest, and how many more pods it would have to take."""

    key: str
    value: str
    missing: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """Group `at` needs capacity for `needed` pods of `shape` (or children); `free` of them fit.

    `free` is what fits next to the pods that were placed on trial before: `own` of the same group,
    and `beside` of other groups of the root. `siblings` are these groups, unless there are more
    than `MOST_SIBLINGS`.
    `resolvable` is false if no preemption could help. `minimum` is false if the group runs and only
    extras wait. `counts` are nodes per reason if these depend on the volumes assumed for other
    members during the search. Otherwise it is empty, because they can be computed later.
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
    own: int = 0
    beside: int = 0
    siblings: tuple[GroupKey, ...] = ()
    part: str = ""

    def within(self, value: str, *, key: str) -> Shortage:
        """Return the same shortage, found inside a domain. An inner domain stays if it has one."""
        # The innermost domain tells the user most.
        if self.best is not None:
            return self
        return replace(self, best=BestDomain(key, value, max(0, self.needed - self.free)))
