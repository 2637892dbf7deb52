"""Whose pods are Muster's: the schedulerNames that it schedules under.

They are configured once for all processes, and must be the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from api.constants import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME
from api.names import is_dns_subdomain

MOST_NAMES: Final = 8
"""Names of the scheduler. The configuration is rejected with more."""

_LONGEST: Final = 63
"""As the reportingController of events, which a schedulerName is, too."""


@dataclass(frozen=True, slots=True)
class SchedulerNames:
    """The schedulerNames of Muster; the first is given to pods that name a group and no scheduler.

    `all` is what `faults_of` finds nothing wrong with.
    """

    all: tuple[str, ...] = (SCHEDULER_NAME,)

    def __contains__(self, name: object) -> bool:
        return name in self.all

    @property
    def default(self) -> str:
        """The name that admission writes."""
        return self.all[0]

    def allow(self, name: str) -> bool:
        """Whether pods with this schedulerName (empty: none) are Muster's, or can become so."""
        return is_open(name) or name in self

    @property
    def words(self) -> str:
        """All of them, for sentences."""
        return " or ".join(self.all)


USUAL: Final = SchedulerNames()
"""What counts without any configuration."""


def is_open(name: object) -> bool:
    """Whether a pod with this schedulerName chose no scheduler: the API server writes the usual."""
    return name in (None, "", DEFAULT_SCHEDULER_NAME)


def faults_of(names: Sequence[str]) -> list[str]:
    """What is wrong with such a list of names, as sentences; empty if nothing is."""
    found = []
    if not 1 <= len(names) <= MOST_NAMES:
        found.append(f"there must be 1 to {MOST_NAMES} schedulerNames, not {len(names)}")
    for name in sorted(set(names)):
        if name == DEFAULT_SCHEDULER_NAME:
            found.append(f"schedulerName {name} is kube-scheduler's: choose another")
        elif not is_dns_subdomain(name) or len(name) > _LONGEST:
            found.append(
                f"schedulerName {name!r} must be lower case letters, digits, '-' and '.',"
                f" at most {_LONGEST} characters"
            )
        if names.count(name) > 1:
            found.append(f"schedulerName {name!r} is there more than once")
    return found
