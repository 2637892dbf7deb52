"""What should be gone and is not: orphans, and finalizers that nothing holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from api.constants import finalizer_of
from controllers.objects import WORKLOADS
from controllers.remains import Generated, Remains
from controllers.world import World
from kube.resources import Resource

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


def leftovers(world: World, now: datetime) -> list[Finding]:
    """All that is left over in a world, in the order of kind, namespace and name."""
    remains = Remains(world)
    found = [
        Finding(resource.kind, obj.metadata.namespace, obj.metadata.name, why)
        for resource, cache in remains.generated.items()
        for obj in cache.values()
        for why in _faults(remains, resource, obj, now)
    ]
    return sorted(found, key=lambda it: (it.kind, it.namespace, it.name))


def _faults(remains: Remains, resource: Resource, obj: Generated, now: datetime) -> Iterator[str]:
    meta = obj.metadata
    if meta.deletion_timestamp is not None:
        since = (now - meta.deletion_timestamp).total_seconds()
        stuck = resource != WORKLOADS and finalizer_of(resource.kind) in meta.finalizers
        if stuck and since > GRACE_SECONDS and not remains.is_held(resource, obj):
            yield f"being deleted for {since:.0f} s, and nothing holds its finalizer"
    elif remains.is_left_over(meta) and not remains.is_held(resource, obj):
        yield "made for an owner that is gone"
