"""`muster gc`: search for orphans, and for finalizers that should have been removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from api.constants import POD_GROUP, finalizer_of
from api.integration.pods.groups_from_pods import is_from_pods
from api.scheduler_names import USUAL, SchedulerNames
from cli.cleanup.lingering import lingers
from cli.trees.listing import list_items
from controllers.cache.informers import Caches
from controllers.cache.objects import POD_GROUPS, Group
from controllers.cleanup.orphans import GENERATED, OWNERS, Generated, OrphanIndex
from kube.client.client import Client
from kube.client.resources import PODS, Resource

GRACE_SECONDS: Final = 60.0
"""Seconds that a deletion may take before its finalizer counts as stuck."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An object that should no longer exist, and the reason."""

    kind: str
    namespace: str
    name: str
    why: str

    def __str__(self) -> str:
        """Return the finding as one line for people."""
        return f"{self.kind} {self.namespace}/{self.name}: {self.why}"


def find_orphans(caches: Caches, now: datetime) -> list[Finding]:
    """Return all findings in these caches, ordered by kind, namespace and name."""
    index = OrphanIndex(caches)
    found = [
        Finding(resource.kind, obj.metadata.namespace, obj.metadata.name, why)
        for resource, cache in index.generated.items()
        for obj in cache.values()
        for why in (
            _orphaned(index, obj),
            _stuck(caches, resource, obj, now),
            _lingering(caches, resource, obj, now),
        )
        if why
    ]
    return sorted(found, key=lambda it: (it.kind, it.namespace, it.name))


async def check(
    client: Client, namespace: str | None = None, schedulers: SchedulerNames = USUAL
) -> list[Finding]:
    """Return the findings in one namespace or in all. Raises kube errors.

    `schedulers` are the names of Muster's schedulers.
    """
    caches = Caches(schedulers)
    # Dependents before owners: an owner that is created meanwhile is found. One that is deleted
    # meanwhile is seen as deleted.
    for resource in (*GENERATED[::-1], PODS, *(it for it in OWNERS if it not in GENERATED)):
        cache, decode = caches.sources[resource]
        for item in await list_items(client, resource, namespace):
            cache.upsert(decode(msgspec.json.encode(item)))
        caches.serve(resource)
        # From then on, pods are in native groups by their field.
        caches.native = len(caches.native_groups) > 0
    return find_orphans(caches, datetime.now(UTC))


def _orphaned(index: OrphanIndex, obj: Generated) -> str:
    meta = obj.metadata
    # The owner may be gone while pods still run with the object, for instance after an orphaning
    # delete. The group is then still needed.
    owner_id = index.lost_owner(meta)
    if owner_id is None or index.is_in_use(meta.namespace, owner_id):
        return ""
    return "its owner does not exist"


def _lingering(caches: Caches, resource: Resource, obj: Generated, now: datetime) -> str:
    """Return the reason if a group created from pods outlived its last pod; empty otherwise."""
    meta = obj.metadata
    if (
        resource != POD_GROUPS
        or not isinstance(obj, Group)
        or meta.deletion_timestamp is not None
        or not is_from_pods(meta, meta.name)
        or caches.is_in_use(POD_GROUP.kind, obj)
    ):
        return ""
    return lingers(meta.annotations, now)


def _stuck(caches: Caches, resource: Resource, obj: Generated, now: datetime) -> str:
    meta = obj.metadata
    if meta.deletion_timestamp is None or not isinstance(obj, Group):
        return ""
    since = (now - meta.deletion_timestamp).total_seconds()
    held = finalizer_of(resource.kind) in meta.finalizers
    if since <= GRACE_SECONDS or not held or caches.is_in_use(resource.kind, obj):
        return ""
    return f"is being deleted for {since:.0f} s, and nothing needs its finalizer"
