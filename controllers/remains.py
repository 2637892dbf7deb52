"""Which generated objects have nobody left for whom they were made. Read from the caches alone."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from api.ownership import Reference, is_left_over
from controllers.objects import (
    COMPOSITES,
    COSCHEDULINGS,
    JOBS,
    JOBSETS,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Workload,
)
from controllers.world import World
from kube.cache import Cache
from kube.meta import HasMeta, ObjectMeta
from kube.resources import Resource

BY_EACH_OWNER = "each owner"

Generated = Workload | Group

GENERATED = (WORKLOADS, COMPOSITES, POD_GROUPS)
"""The kinds that are made, those that others refer to first."""
OWNERS = (WORKLOADS, JOBS, JOBSETS, COSCHEDULINGS, PLUGINS_POD_GROUPS)
"""The kinds they are made for. Of other owners nothing is known: they count as living."""

_KINDS = {(it.api_version, it.kind): it for it in OWNERS}


class Remains:
    """The question to one world; makes the index it needs."""

    def __init__(self, world: World) -> None:
        """Indexes Workloads and groups by the owners they name."""
        self._world = world
        self.generated: dict[Resource, Cache[Any]] = {it: world.feeds[it][0] for it in GENERATED}
        self.owners: dict[Resource, Cache[Any]] = {it: world.feeds[it][0] for it in OWNERS}
        for cache in self.generated.values():
            cache.add_index(BY_EACH_OWNER, lambda obj: _owner_uids(obj.metadata))

    def is_left_over(self, meta: ObjectMeta) -> bool:
        """Whether no owner of a generated object lives, as far as the caches know."""
        return is_left_over(meta, lambda reference: self._lives(meta.namespace, reference))

    def is_held(self, resource: Resource, obj: Generated) -> bool:
        """Whether it is still used: deleted with `orphan`, a Job leaves pods that run.

        A Workload is used by the pods of its PodGroups; without them its whole tree goes with it.
        """
        if isinstance(obj, Group):
            return self._world.is_held(resource.kind, obj)
        owned = self.owned(obj.metadata.uid)
        return any(self._world.is_held(kind.kind, it) for kind, it in owned if kind == POD_GROUPS)

    def owned(self, uid: str) -> Iterator[tuple[Resource, Any]]:
        """The Workloads and groups that name the owner."""
        for resource, cache in self.generated.items():
            for obj in cache.by_index(BY_EACH_OWNER, uid):
                yield resource, obj

    def _lives(self, namespace: str, reference: Reference) -> bool:
        resource = owner_kind(reference)
        if resource is None:
            return True
        owner: HasMeta | None = self.owners[resource].get(namespace, reference.name)
        return owner is not None and owner.metadata.uid == reference.uid


def owner_kind(reference: Reference) -> Resource | None:
    """The kind of an owner; None for one that is none of ours."""
    return _KINDS.get((reference.api_version, reference.kind))


def _owner_uids(meta: ObjectMeta) -> Iterable[Hashable]:
    return [it.uid for it in meta.owner_references]
