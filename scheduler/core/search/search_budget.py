"""The limits of one search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.search.node_selection import Profile


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How hard to search. `steps` bounds fills of leaves, their further waves, and joint packings.

    `packing_steps` bounds the pods that one exhaustive packing places on trial. The search also
    ends once `expired` returns True.
    """

    steps: int = 500
    packing_steps: int = 2000
    profile: Profile = "pack"
    expired: Callable[[], bool] = _never
