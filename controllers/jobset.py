"""JobSets: one Workload each, and the groups that the marks on its Job templates ask for."""

from api.integration.jobset import jobset_groups
from controllers.maker import Maker
from controllers.mirror import Mirror
from controllers.objects import JOBSETS, Owner
from controllers.owner import OwnerController
from controllers.world import World
from kube.clock import Clock
from kube.meta import Json


def jobset_controller(world: World, maker: Maker, mirror: Mirror, clock: Clock) -> OwnerController:
    """The controller of JobSets."""

    async def make(owner: Owner) -> None:
        obj = owner.as_object()

        def wanted(workload: str | None) -> list[Json]:
            return jobset_groups(obj, workload=workload)

        if wanted(None):
            await maker.ensure(owner, wanted)

    return OwnerController(JOBSETS, world, clock, maker=maker, mirror=mirror, make=make)
