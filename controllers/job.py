"""Jobs that no JobSet made: a Workload and one PodGroup, where admission named the group."""

from api.constants import JOB
from api.integration.job import job_groups
from controllers.maker import Formula, Maker
from controllers.objects import Owner
from controllers.owner import OwnerController
from controllers.world import World
from kube.clock import Clock
from kube.meta import Json


def job_controller(world: World, maker: Maker, clock: Clock) -> OwnerController:
    """The controller of Jobs."""
    return OwnerController(JOB.kind, world, maker, clock, _formula)


def _formula(owner: Owner) -> Formula:
    obj = owner.as_object()

    def wanted(workload: str | None) -> list[Json]:
        return job_groups(obj, workload=workload, succeeded=owner.succeeded)

    return wanted
