"""Limits of one search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.values.profiles import Profile


def never() -> bool:
    """Return False: the search has no time limit."""
    return False


def nothing() -> None:
    """Do nothing: the search does not give way."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """Effort of a search. `steps` limits fills of leaves, their further waves, and joint packings.

    Once the steps are used up, each group of the tree that prefers a topology still tries its
    complete region: a preference is never the reason for a refusal. `packing_steps` limits the pods
    that one exhaustive packing places on trial. The search also ends as soon as `expired` returns
    True. It calls `pause` between short steps: other tasks may run there, but must not change what
    the search reads. `profiles` are the profiles by schedulerName; other pods are placed by
    `profile`.
    """

    steps: int = 500
    packing_steps: int = 2000
    profile: Profile = "pack"
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    expired: Callable[[], bool] = never
    pause: Callable[[], None] = nothing

    def of(self, scheduler: str) -> SearchBudget:
        """Return the budget for pods of this schedulerName, with its `profile` if it has one."""
        profile = self.profiles.get(scheduler, self.profile)
        return self if profile == self.profile else replace(self, profile=profile)
