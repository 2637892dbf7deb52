"""What should be gone and is not: orphans, and finalizers that nothing holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from api.constants import LABEL_MANAGED_BY, MANAGED_BY, finalizer_of
from api.groups import groups_of_object

Object = Mapping[str, Any]
Key = tuple[str, str]

_ENDED: Final = {"Succeeded", "Failed"}
GRACE_SECONDS: Final = 60.0
"""How long a deletion may take before its finalizer counts as stuck."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that is left over, and why it should not be."""

    kind: str
    namespace: str
    name: str
    why: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.kind} {self.namespace}/{self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The lists that are judged, as the API server gave them."""

    owners: Sequence[Object]  # Jobs, JobSets, coscheduling PodGroups
    workloads: Sequence[Object]
    composites: Sequence[Object]
    pod_groups: Sequence[Object]
    pods: Sequence[Object]


def leftovers(cluster: Cluster, now: datetime) -> list[Finding]:
    """All that is left over, in the order of kind, namespace and name."""
    living = {
        obj["metadata"]["uid"]
        for obj in [*cluster.owners, *cluster.workloads]
        if not obj["metadata"].get("deletionTimestamp")
    }
    held = _held(cluster)
    kinds = (
        ("Workload", cluster.workloads),
        ("CompositePodGroup", cluster.composites),
        ("PodGroup", cluster.pod_groups),
    )
    found = [
        Finding(kind, *_key(obj), why)
        for kind, items in kinds
        for obj in items
        for why in _faults(kind, obj, living, held[kind], now)
    ]
    return sorted(found, key=lambda it: (it.kind, it.namespace, it.name))


def _faults(
    kind: str, obj: Object, living: set[str], held: set[Key], now: datetime
) -> Iterator[str]:
    metadata = obj["metadata"]
    is_held = _key(obj) in held
    if metadata.get("deletionTimestamp"):
        since = (now - datetime.fromisoformat(metadata["deletionTimestamp"])).total_seconds()
        stuck = finalizer_of(kind) in metadata.get("finalizers", ())
        if stuck and not is_held and since > GRACE_SECONDS:
            yield f"being deleted for {since:.0f} s, and nothing holds its finalizer"
        return
    if metadata.get("labels", {}).get(LABEL_MANAGED_BY) != MANAGED_BY or is_held:
        return
    # A group's plain reference to its Workload keeps it only as long as that has an owner itself.
    references = metadata.get("ownerReferences", ())
    if not any(reference["uid"] in living for reference in references):
        yield "made for an owner that is gone"


def _held(cluster: Cluster) -> dict[str, set[Key]]:
    """By kind, the names that active pods or child groups name."""
    pods = {
        (pod["metadata"]["namespace"], reference.name)
        for pod in cluster.pods
        if pod.get("status", {}).get("phase") not in _ENDED
        for reference in groups_of_object(pod)
    }
    parents = {
        (obj["metadata"]["namespace"], obj["spec"].get("parentCompositePodGroupName", ""))
        for obj in [*cluster.composites, *cluster.pod_groups]
    }
    return {"PodGroup": pods, "CompositePodGroup": parents, "Workload": set()}


def _key(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
