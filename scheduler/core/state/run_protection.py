"""Protection from preemption until a unit has run for its min-run-time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.nodes.node_table import Floats

HIGHEST_PROTECTED_FROM: Final = 1_000_000_000
"""Highest priority of preemptors that respect the protection; only system classes have higher."""

_SKEW: Final = 60.0
"""Seconds by which the clock of a node may be ahead."""


@dataclass(frozen=True, slots=True)
class RunProtection:
    """The settings of the protection, in seconds, and the time `now` in seconds since 1970.

    `usual` is the min-run-time of units that ask for none. No unit has a longer one than `most`.
    """

    now: float = math.inf
    usual: float = 0.0
    most: float = 0.0

    def holds_against(self, priority: int) -> bool:
        """Return whether preemptors of this priority respect it."""
        return self.most > 0 and priority <= HIGHEST_PROTECTED_FROM

    def ends(self, asked: Floats, started: Floats) -> Floats:
        """Return until when units are protected, by the time that they ask for (NaN for none).

        `started` are their first starts. A unit that has not started has nothing to lose, and a
        start in the future is wrong.
        """
        lengths = np.minimum(np.where(np.isnan(asked), self.usual, asked), self.most)
        return np.where(started <= self.now + _SKEW, started + lengths, 0.0)


NO_PROTECTION: Final = RunProtection()
