"""The owners whose pods are all in one PodGroup (`api.integration.single_group.kind`).

The group lives as long as its owner asks for one. An owner without pods has no group: whatever
number comes next, its first pods wait for a group that has it.
"""

from api.integration.single_group.kind import (
    NO_UPDATE,
    SingleGroupKind,
    SingleGroupView,
    single_group,
)
from controllers.cache.informers import Caches
from controllers.cache.objects import Group, Owner
from controllers.groups.group_writer import GroupWriter
from controllers.owners.base import OwnerController
from controllers.owners.owner_status import OwnerStatusWriter
from kube.base.clock import Clock
from kube.client.resources import Resource


class SingleGroupController(OwnerController):
    """The controller of one such kind."""

    def __init__(
        self,
        kind: SingleGroupKind,
        caches: Caches,
        clock: Clock,
        *,
        group_writer: GroupWriter,
        owner_status: OwnerStatusWriter,
    ) -> None:
        """Subscribe to the caches; nothing is done before `controller.run`."""
        super().__init__(
            Resource(*kind.kind),
            caches,
            clock,
            group_writer=group_writer,
            owner_status=owner_status,
        )
        self._kind = kind

    async def make(self, owner: Owner) -> None:
        """Create the group, without a Workload: there is one group, and it has no template."""
        view = self._kind.read(owner.as_object())
        if not (view.managed and view.options.asks and view.pods):
            await self._group_writer.delete_groups(owner)
            return
        members = self._caches.member_counts.total((view.namespace, view.managed))
        started = owner.rollout == NO_UPDATE or self._has_started(view)
        wanted = single_group(view, owner.rollout, members, started=started)
        await self._group_writer.ensure_only(owner, wanted)

    async def let_end(self, owner: Owner) -> None:
        """Let each pod that still comes start alone, as one that cleans up after a RayCluster."""
        if self._kind.cleans_up:
            await self._group_writer.wait_for_nobody(owner)
        await super().let_end(owner)

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        """Also the first start of a group: in an update its minCount was smaller before."""
        super()._on_group(kind, old, new)
        if old is not None and new is not None and old.scheduled != new.scheduled:
            self._queue_owner(new.metadata)

    def _has_started(self, view: SingleGroupView) -> bool:
        """Whether a pod of the group ever had a node, as far as its status and its pods say."""
        group = self._caches.pod_groups.get(view.namespace, view.managed)
        if group is None:
            return False
        return group.scheduled or any(pod.bound for pod in self._caches.members(group))
