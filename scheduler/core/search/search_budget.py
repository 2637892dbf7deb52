"""How hard one decision may search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.search.node_selection import Profile


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How hard to search: `steps` are fills of one leaf; `expired` may end the search earlier.

    `packing_steps` are pods tried one by one where unequal pods do not fit the simple way.
    """

    steps: int = 500
    packing_steps: int = 2000
    profile: Profile = "pack"
    expired: Callable[[], bool] = _never
