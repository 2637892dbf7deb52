"""The Workloads that admission of a Job may look up, in the Job's namespace."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol


class OwnerName(NamedTuple):
    """API group, kind and name of an owner, as a Workload's controllerRef says them."""

    group: str
    kind: str
    name: str


class Workloads(Protocol):
    """Reads from caches, which may be slightly behind the API server."""

    def of_user(self, owner: OwnerName) -> Mapping[str, Any] | None:
        """The Workload that a user made for the owner; None without one, or with several."""

    def of_delegated(self, owner: OwnerName) -> Mapping[str, Any] | None:
        """The Workload whose templates Jobs of this owner name, whoever made it."""


class _NoWorkloads:
    def of_user(self, _owner: OwnerName) -> None:
        return None

    def of_delegated(self, _owner: OwnerName) -> None:
        return None


NO_WORKLOADS: Final[Workloads] = _NoWorkloads()
