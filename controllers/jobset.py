"""JobSets: one Workload each, and the groups that the marks on its Job templates ask for."""

from api.constants import JOBSET
from api.integration.jobset import jobset_groups
from controllers.maker import Formula, Maker
from controllers.objects import Owner
from controllers.owner import OwnerController
from controllers.world import World
from kube.clock import Clock
from kube.meta import Json


def jobset_controller(world: World, maker: Maker, clock: Clock) -> OwnerController:
    """The controller of JobSets."""
    return OwnerController(JOBSET.kind, world, maker, clock, _formula)


def _formula(owner: Owner) -> Formula:
    obj = owner.as_object()

    def wanted(workload: str | None) -> list[Json]:
        return jobset_groups(obj, workload=workload)

    return wanted
