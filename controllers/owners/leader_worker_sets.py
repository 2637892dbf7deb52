"""The controller of LeaderWorkerSets: a Workload, and the groups of replicas.

`api.integration.lws` has the rules.
"""

import msgspec

from api.constants import EVENT_TOO_MANY_REPLICAS, MAX_REPLICAS
from api.integration.lws.admission import lws_expected, lws_groups, workers_min_count
from api.integration.lws.expected import workers_group
from api.integration.lws.view import LwsView, read_lws
from controllers.cache.objects import Group, Owner, Pod
from controllers.groups.group_writer import NOTHING_EXPECTED
from controllers.owners.base import OwnerController
from controllers.runtime.controller import BlockedError


class LeaderWorkerSetController(OwnerController):
    """The controller of LeaderWorkerSets."""

    async def create_objects(self, owner: Owner) -> None:
        obj = owner.as_object() | {"status": msgspec.json.decode(owner.status)}
        view = read_lws(obj)
        if not view.has_groups:
            await self._group_writer.delete_groups(owner)
            return
        sizes, expects = self._sizes(view), self._group_writer.expects
        await self._group_writer.ensure(
            owner,
            lambda workload: lws_groups(obj, workload=workload, sizes=sizes, expects=expects),
            expected=lws_expected(obj, sizes) if expects else NOTHING_EXPECTED,
            api=self.api_of(owner, native=False),
        )
        # The subresource `scale` can go beyond the limit, as admission does not see it.
        if view.replicas > MAX_REPLICAS:
            raise BlockedError(
                EVENT_TOO_MANY_REPLICAS,
                f"it has {view.replicas} replicas, and Muster creates groups for {MAX_REPLICAS} "
                "of them, so the pods of the others wait: lower spec.replicas",
            )

    def _sizes(self, view: LwsView) -> dict[int, int]:
        """Return the sizes of replicas that were created before `size` grew.

        A replica without workers has the current size.
        """
        found = {}
        for replica in view.grouped:
            group = self._caches.pod_groups.get(view.namespace, workers_group(view, replica))
            members = self._caches.members(group) if group is not None else ()
            # With a partition, an update leaves such a replica alone. A worker that restarts in it
            # would wait forever for the current size.
            size = max((pod.replica_size for pod in members if pod.counts), default=0)
            if 0 < size < view.size:
                found[replica] = size
        return found

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the owner of a worker whose replica has another size than before, too."""
        super()._on_pod(old, new)
        if new is None or not new.replica_size or not new.counts or (old and old.counts):
            return
        for group in self._caches.groups_of(new):
            if self._is_of_other_size(group, new.replica_size):
                self._queue_loser(group)

    def _is_of_other_size(self, group: Group, size: int) -> bool:
        owner = self._owners.get(group.metadata.namespace, self._owner_name(group.metadata))
        if owner is None or not owner.spec:
            return False
        return group.min_count != workers_min_count(read_lws(owner.as_object()), size)
