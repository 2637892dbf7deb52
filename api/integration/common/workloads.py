"""The Workloads that admission of a Job may look up, in the Job's namespace."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol


class OwnerName(NamedTuple):
    """API group, kind and name of an owner, as in a Workload's controllerRef."""

    group: str
    kind: str
    name: str


class Workloads(Protocol):
    """Reads from caches, which may be slightly behind the API server."""

    def of_user(self, owner: OwnerName) -> Mapping[str, Any] | None:
        """Return the Workload that a user created for the owner; None without, or with several."""

    def of_delegated(self, owner: OwnerName) -> Mapping[str, Any] | None:
        """Return the Workload whose templates this owner's Jobs name, of any creator."""


class _NoWorkloads:
    def of_user(self, _owner: OwnerName) -> None:
        return None

    def of_delegated(self, _owner: OwnerName) -> None:
        return None


NO_WORKLOADS: Final[Workloads] = _NoWorkloads()
