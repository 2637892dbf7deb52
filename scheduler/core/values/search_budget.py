"""Limits of one search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.values.profiles import Profile, Scoring


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
    `profile`. With `by_score`, kube-scheduler's default scores place those without a group.
    """

    steps: int = 500
    packing_steps: int = 2000
    profile: Profile = "pack"
    by_score: bool = False
    profiles: Mapping[str, Scoring] = field(default_factory=dict)
    expired: Callable[[], bool] = never
    pause: Callable[[], None] = nothing

    def of(self, scheduler: str, *, single: bool = False) -> SearchBudget:
        """Return the budget for a group, or a `single` pod, of this schedulerName."""
        scoring = self.profiles.get(scheduler)
        if scoring is None:
            scoring = Scoring(self.profile, "default" if self.by_score else self.profile)
        profile, by_score = scoring.groups, False
        if single:
            if scoring.pods == "default":
                by_score = True
            else:
                profile = scoring.pods
        if (profile, by_score) == (self.profile, self.by_score):
            return self
        return replace(self, profile=profile, by_score=by_score)

    def as_of_groups(self) -> SearchBudget:
        """Return the budget by which pods without a group are placed as groups are."""
        profiles = {name: Scoring(each.groups, each.groups) for name, each in self.profiles.items()}
        return replace(self, by_score=False, profiles=profiles)
