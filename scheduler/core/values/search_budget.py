"""The limits of one search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.values.profiles import Profile


def never() -> bool:
    """Of a search without a limit of time."""
    return False


def nothing() -> None:
    """Of a search that lets nobody run in between."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How hard to search. `steps` bounds fills of leaves, their further waves, and joint packings.

    Once they are used up, each group of the tree that prefers a topology still tries its whole
    region: a preference is never the reason for a refusal.
    `packing_steps` bounds the pods that one exhaustive packing places on trial. The search also
    ends once `expired` returns True. It calls `pause` between two steps that are short whatever is
    asked for: others may run there, but change nothing that the search reads.
    `profiles` are those of schedulerNames; what has no such name is placed by `profile`.
    """

    steps: int = 500
    packing_steps: int = 2000
    profile: Profile = "pack"
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    expired: Callable[[], bool] = never
    pause: Callable[[], None] = nothing

    def of(self, scheduler: str) -> SearchBudget:
        """The same for pods of this schedulerName: `profile` is that of the name, if it has one."""
        profile = self.profiles.get(scheduler, self.profile)
        return self if profile == self.profile else replace(self, profile=profile)
