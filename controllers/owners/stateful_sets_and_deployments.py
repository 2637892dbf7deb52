"""StatefulSets and Deployments that asked for a group: it lives as long as they ask for one.

One without replicas has no group: whatever number comes next, its first pods wait for a group that
says so. While an update replaces pods minCount follows it (`api.integration.apps.admission`).
"""

from api.integration.apps.admission import KINDS, AppView, app_group, read_app
from controllers.cache.objects import NO_UPDATE, Group, Owner
from controllers.owners.base import OwnerController


class AppController(OwnerController):
    """The controller of one of the two kinds."""

    async def make(self, owner: Owner) -> None:
        """Without a Workload: there is one group, and it has no template."""
        view = read_app(KINDS[owner.kind], owner.as_object())
        if not (view.managed and view.options.asks and view.replicas):
            await self._group_writer.delete_groups(owner)
            return
        members = self._caches.member_counts.total((view.namespace, view.managed))
        started = owner.rollout == NO_UPDATE or self._has_started(view)
        wanted = app_group(view, owner.rollout, members, started=started)
        await self._group_writer.ensure_only(owner, wanted)

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        """Also the first start of a group: in an update its minCount was smaller before."""
        super()._on_group(kind, old, new)
        if old is not None and new is not None and old.scheduled != new.scheduled:
            self._queue_owner(new.metadata)

    def _has_started(self, view: AppView) -> bool:
        """Whether a pod of the group ever had a node, as far as its status and its pods say."""
        group = self._caches.pod_groups.get(view.namespace, view.managed)
        if group is None:
            return False
        return group.scheduled or any(pod.bound for pod in self._caches.members(group))
