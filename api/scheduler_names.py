"""The schedulerNames of Muster: pods with one of them are Muster's.

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
"""Characters of a name, as the reportingController of events, which a schedulerName becomes."""


@dataclass(frozen=True, slots=True)
class SchedulerNames:
    """Muster's schedulerNames; the first is for pods that name a group and no scheduler.

    `all` must pass `faults_of`.
    """

    all: tuple[str, ...] = (SCHEDULER_NAME,)

    def __contains__(self, name: object) -> bool:
        return name in self.all

    @property
    def default(self) -> str:
        """The name that admission writes."""
        return self.all[0]

    def allow(self, name: str) -> bool:
        """Return True if pods with this schedulerName (empty: none) are or can become Muster's."""
        return is_open(name) or name in self

    @property
    def phrase(self) -> str:
        """All names as a phrase."""
        return " or ".join(self.all)


USUAL: Final = SchedulerNames()
"""The names without any configuration."""


def is_open(name: object) -> bool:
    """Return True if a pod with this schedulerName chose no scheduler."""
    # The API server writes the default name in a pod without one.
    return name in (None, "", DEFAULT_SCHEDULER_NAME)


def faults_of(names: Sequence[str]) -> list[str]:
    """Return the faults of such a list of names as sentences; empty if there are none."""
    found = []
    if not 1 <= len(names) <= MOST_NAMES:
        found.append(f"schedulerNames must have between 1 and {MOST_NAMES} names, not {len(names)}")
    for name in sorted(set(names)):
        if name == DEFAULT_SCHEDULER_NAME:
            found.append(f"schedulerName {name} is kube-scheduler's: use another name")
        elif not is_dns_subdomain(name) or len(name) > _LONGEST:
            found.append(
                f"schedulerName {name!r} must consist of lower case alphanumeric characters, '-' "
                f"or '.', and must be no more than {_LONGEST} characters"
            )
        if names.count(name) > 1:
            found.append(f"schedulerName {name!r} is listed more than once: remove the duplicate")
    return found
