"""Protection from preemption: for a min-run-time, and of roots that were preempted lately."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_PROTECTED_FROM: Final = 1_000_000_000
"""Highest priority of preemptors that respect the protection; only system classes have higher."""


@dataclass(frozen=True, slots=True)
class RunProtection:
    """The settings of the protection, in seconds, and the time `now` in seconds since 1970.

    `usual` is the min-run-time of units that ask for none. No unit has a longer one than `most`.
    The preemptions of a root count for `window` seconds after the first of them.
    """

    now: float = math.inf
    usual: float = 0.0
    most: float = 0.0
    window: float = 0.0

    def holds_against(self, priority: int) -> bool:
        """Return whether preemptors of this priority respect it."""
        return self.most > 0 and priority <= _PROTECTED_FROM


NO_PROTECTION: Final = RunProtection()
