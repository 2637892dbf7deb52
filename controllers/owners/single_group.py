"""The controller of owners whose pods are all in one PodGroup.

The group exists as long as its owner requests one (`api.integration.single_group.kind`). An owner
without pods has no group: whatever its next number of pods is, the first of them wait for a group
with that number.
"""

from api.integration.single_group.kind import (
    NO_UPDATE,
    SingleGroupKind,
    SingleGroupView,
    single_group,
)
from controllers.cache.objects import Group, Owner, member_name
from controllers.owners.base import OwnerController, Tools
from kube.client.resources import Resource


class SingleGroupController(OwnerController):
    """The controller of one such kind."""

    def __init__(self, kind: SingleGroupKind, tools: Tools) -> None:
        super().__init__(kind.kind, tools)
        self._kind = kind

    async def create_objects(self, owner: Owner) -> None:
        # No Workload is created: there is only one group, and it has no template.
        view = self._kind.read(owner.as_object())
        if not (view.managed and view.options.asks and view.pods):
            await self._group_writer.delete_groups(owner)
            return
        native = view.choice.native
        named = member_name(view.managed, native=native)
        members = self._caches.member_counts.total((view.namespace, named))
        # Only an update changes minCount before the first start, so skip the lookup otherwise.
        started = owner.rollout == NO_UPDATE or self._has_started(view)
        wanted = single_group(view, owner.rollout, members, started=started)
        await self._group_writer.ensure_only(owner, wanted, self.api_of(owner, native=native))

    async def let_end(self, owner: Owner) -> None:
        """Set minCount to 1 if late pods run alone, as one that cleans up after a RayCluster."""
        if self._kind.cleans_up:
            await self._group_writer.release_minimum(owner)
        await super().let_end(owner)

    def _on_group(self, kind: Resource, old: Group | None, new: Group | None) -> None:
        """Queue the owner at the first start of a group, too."""
        super()._on_group(kind, old, new)
        # During an update minCount was smaller before the first start.
        if old is not None and new is not None and old.scheduled != new.scheduled:
            self._queue_owner(new.metadata)

    def _has_started(self, view: SingleGroupView) -> bool:
        """Return True if a pod of the group ever had a node, by its status and its pods."""
        groups = self._caches.native_groups if view.choice.native else self._caches.pod_groups
        group = groups.get(view.namespace, view.managed)
        if group is None:
            return False
        return group.scheduled or any(pod.bound for pod in self._caches.members(group))
