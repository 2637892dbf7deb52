"""StatefulSets and Deployments that asked for a group: it lives as long as they ask for one.

One without replicas has no group: whatever number comes next, its first pods wait for a group that
says so. While an update replaces pods minCount follows it (`api.integration.apps`).
"""

from api.integration.apps import KINDS, app_group, read_app
from controllers.objects import Owner
from controllers.owner import OwnerController


class AppController(OwnerController):
    """The controller of one of the two kinds."""

    async def make(self, owner: Owner) -> None:
        """Without a Workload: there is one group, and it has no template."""
        view = read_app(KINDS[owner.kind], owner.as_object())
        if not (view.managed and view.options.asks and view.replicas):
            await self._group_writer.delete_groups(owner)
            return
        members = self._caches.member_counts.total((view.namespace, view.managed))
        await self._group_writer.ensure_only(owner, app_group(view, owner.rollout, members))
