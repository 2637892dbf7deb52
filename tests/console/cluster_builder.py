"""Clusters for the tests of the console's views, in domain terms."""

from typing import Any

import msgspec

from console.base.messages import Domain, Map
from console.base.protocols import Viewer
from console.following.following import Following
from console.state.state import ClusterState
from kube.client.meta import OwnerReference
from scheduler.core.values.model import GroupKey, GroupSpec, Topology
from scheduler.decoding.objects import GroupObject, Metadata
from tests.scheduler.state_builder import StateBuilder

ALL = Viewer("admin", "one")
BLOCK, RACK = "example.com/block", "example.com/rack"


class Builder(StateBuilder):
    """A state with the objects of its groups, and the views of it."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ClusterState(self.state)
        self.time = 1_000.0
        self.following = Following(self.cluster, now=lambda: self.time)

    def racks(self, blocks: int = 2, racks: int = 2, nodes: int = 2, cpu: int = 4) -> None:
        """Add nodes n-B-R-N of that many cores."""
        for block in range(1, blocks + 1):
            for rack in range(1, racks + 1):
                for number in range(1, nodes + 1):
                    labels = {BLOCK: f"b{block}", RACK: f"r{rack}"}
                    self.node(f"n-{block}-{rack}-{number}", cpu, labels=labels)

    def use_keys(self, *keys: str) -> None:
        """Add groups without pods that name these topology keys."""
        for number, key in enumerate(keys):
            spec = GroupSpec(("PodGroup", "keys", f"g{number}"), 1, topology=Topology(key))
            self.state.set_group(spec)

    def says(
        self,
        key: GroupKey,
        *,
        owner: tuple[str, str] | None = None,
        blocker: Any = None,
        conditions: Any = None,
    ) -> None:
        """Set the API object of the group."""
        _, namespace, name = key
        references = []
        if owner is not None:
            references = [OwnerReference(kind=owner[0], name=owner[1], controller=True)]
        status: dict[str, Any] = {}
        if blocker is not None:
            status["blocker"] = blocker
        if conditions is not None:
            status["conditions"] = conditions
        self.cluster.observed[key] = GroupObject(
            metadata=Metadata(name=name, namespace=namespace, owner_references=references),
            status=status,
        )

    def refresh(self) -> Following:
        self.following.refresh()
        return self.following

    def map(self, resource: str = "cpu") -> Map:
        return self.refresh().map.full(resource)


def blocker(summary: str, kind: str = "capacity", **more: Any) -> dict[str, Any]:
    """Return `status.blocker`."""
    return {"summary": summary, "kind": kind, "needed": 4, "free": 1, **more}


def flat(domains: list[Domain]) -> dict[str, Domain]:
    """Return all domains by ID."""
    found: dict[str, Domain] = {}
    for domain in domains:
        found |= {domain.id: domain, **flat(domain.children)}
    return found


def numbers(domain: Domain) -> tuple[int, int, int, int]:
    """Return capacity, used, held and free."""
    return domain.capacity, domain.used, domain.held, domain.free


def plain(value: Any) -> Any:
    """Return a message's JSON as Python values."""
    return msgspec.json.decode(msgspec.json.encode(value))
