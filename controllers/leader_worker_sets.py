"""LeaderWorkerSets: one Workload each, and the groups of its replicas (`api.integration.lws`)."""

import msgspec

from api.constants import EVENT_TOO_MANY_REPLICAS, MAX_REPLICAS
from api.integration.lws import lws_groups
from api.integration.lws_view import read_lws
from controllers.objects import Owner
from controllers.owner import OwnerController
from controllers.runtime import BlockedError


class LeaderWorkerSetController(OwnerController):
    """The controller of LeaderWorkerSets."""

    async def make(self, owner: Owner) -> None:
        obj = owner.as_object() | {"status": msgspec.json.decode(owner.status)}
        view = read_lws(obj)
        if not view.has_groups:
            await self._group_writer.delete_groups(owner)
            return
        await self._group_writer.ensure(owner, lambda workload: lws_groups(obj, workload=workload))
        if view.replicas > MAX_REPLICAS:  # scaled by its sub-resource, which admission does not see
            raise BlockedError(
                EVENT_TOO_MANY_REPLICAS,
                f"it has {view.replicas} replicas, and only {MAX_REPLICAS} of them get groups:"
                " scale it down, the pods of the others wait",
            )
