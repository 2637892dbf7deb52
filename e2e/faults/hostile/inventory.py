"""All objects of a cluster at one moment, with simple queries."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from api.constants import (
    COMPOSITE_POD_GROUP,
    LABEL_POD_GROUP,
    POD_GROUP,
    RESERVATION,
    WORKLOAD,
)
from e2e.harness.objects import Json, resource
from e2e.harness.support.rest import Rest
from kube.client.quantity import parse_milli
from kube.client.resources import JOBS, JOBSETS, NODES, PODS

KINDS = {
    kind.plural: kind
    for kind in (
        NODES,
        PODS,
        JOBS,
        JOBSETS,
        resource(WORKLOAD),
        resource(COMPOSITE_POD_GROUP),
        resource(POD_GROUP),
        resource(RESERVATION),
    )
}

Key = tuple[str, str]  # namespace, name


@dataclass
class Inventory:
    """The objects by the plural of their kind; queries such as `key` are cached."""

    objects: dict[str, list[Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in self.of("nodes")}
        self.groups = {key_of(each): each for each in self.of("podgroups")}
        self.composites = {key_of(each): each for each in self.of("compositepodgroups")}
        self.members: dict[Key, list[Json]] = defaultdict(list)
        for pod in self.of("pods"):
            if (key := group_of(pod)) is not None:
                self.members[key].append(pod)

    def of(self, plural: str) -> list[Json]:
        return self.objects.get(plural, [])

    def leaves(self, composite: Key) -> Iterator[Key]:
        """Yield the PodGroups below a composite."""
        for key, group in self.groups.items():
            if composite in self.ancestors(key, group):
                yield key

    def ancestors(self, key: Key, group: Json) -> Iterator[Key]:
        """Yield the composites above a group, nearest first.

        A ring ends at the first repetition.
        """
        seen: set[Key] = set()
        while (name := group["spec"].get("parentCompositePodGroupName")) is not None:
            parent = (key[0], name)
            if parent in seen or parent not in self.composites:
                return
            seen.add(parent)
            yield parent
            group = self.composites[parent]

    def used(self, node: str) -> int:
        """Return the millicores that the node's pods request, including terminating pods."""
        return sum(
            requested(pod) for pod in self.of("pods") if node_of(pod) == node and not ended(pod)
        )


async def read(rest: Rest) -> Inventory:
    """Read all kinds, each by one consistent list. Raises AssertionError, aiohttp's errors."""

    async def items(plural: str) -> list[Json]:
        answer = await rest.get(KINDS[plural].path(), timeout=10)
        found: list[Json] = answer.ok()["items"]
        return [{**each, "kind": KINDS[plural].kind} for each in found]

    lists = await asyncio.gather(*map(items, KINDS))
    return Inventory(dict(zip(KINDS, lists, strict=True)))


def key_of(obj: Json) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def group_of(pod: Json) -> Key | None:
    name = (pod["metadata"].get("labels") or {}).get(LABEL_POD_GROUP)
    return (pod["metadata"]["namespace"], name) if name else None


def node_of(pod: Json) -> str | None:
    name: str | None = pod["spec"].get("nodeName")
    return name


def leaves(pod: Json) -> bool:
    """Return True if the object is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase"))


def ended(pod: Json) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def counts(pod: Json) -> bool:
    """Return True if the pod counts for its group's minimum once it has a node."""
    return phase(pod) != "Failed" and not leaves(pod)


def waits(pod: Json) -> bool:
    return node_of(pod) is None and not leaves(pod) and not ended(pod)


def requested(pod: Json) -> int:
    """Return the pod's CPU request in millicores."""
    asked = (c.get("resources", {}).get("requests", {}) for c in pod["spec"]["containers"])
    return sum(parse_milli(each.get("cpu", "0")) for each in asked)


def allocatable(node: Json) -> int:
    return parse_milli(node["status"]["allocatable"]["cpu"])


def minimum(group: Json) -> int:
    """Return the minimum of placed pods of a PodGroup or children of a composite."""
    gang = group["spec"].get("schedulingPolicy", {}).get("gang") or {}
    return int(gang.get("minCount") or gang.get("minGroupCount") or 1)


def required_key(group: Json) -> str | None:
    """Return the label whose one value the group's nodes must share, or None."""
    constraints = (group["spec"].get("schedulingConstraints") or {}).get("topology") or []
    return next((each["key"] for each in constraints if not each.get("preferred")), None)


def priority(group: Json) -> int:
    return int(group["spec"].get("priority") or 0)
