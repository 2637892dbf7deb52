"""The Workloads that admission of a Job may look up, in the Job's namespace."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple


class OwnerName(NamedTuple):
    """API group, kind and name of an owner, as in a Workload's controllerRef."""

    group: str
    kind: str
    name: str


Find = Callable[[OwnerName], Mapping[str, Any] | None]


class Workloads(NamedTuple):
    """Reads from caches, which may be slightly behind the API server.

    `of_user` returns the Workload that a user created for the owner, None without one or with
    several. `of_delegated` returns the Workload, of any creator, whose templates this owner's Jobs
    name.
    """

    of_user: Find = lambda _owner: None
    of_delegated: Find = lambda _owner: None


NO_WORKLOADS: Final = Workloads()
