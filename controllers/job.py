"""Jobs that no JobSet made: a Workload and one PodGroup, where admission named the group.

A Job that is delegated to a template gets its PodGroup from the Workload of its own owner.
"""

from api.constants import EVENT_TEMPLATE_NOT_FOUND
from api.integration.delegation import Delegation, delegated_group
from api.integration.job import job_groups, read_job
from api.integration.templates import TemplateNotFoundError
from controllers.maker import Maker
from controllers.mirror import Mirror
from controllers.objects import JOBS, Owner, Workload
from controllers.owner import OwnerController
from controllers.runtime import HeldError
from controllers.world import World
from kube.clock import Clock
from kube.meta import Json, Key

Subject = tuple[str, str, str, str]
"""Namespace, API group, kind and name of what a Workload is for."""


class JobController(OwnerController):
    """The controller of Jobs."""

    def __init__(self, world: World, maker: Maker, mirror: Mirror, clock: Clock) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        super().__init__(JOBS, world, clock, maker=maker, mirror=mirror, make=self._make_for)
        self._delegated: dict[Subject, set[Key]] = {}

    async def _make_for(self, owner: Owner) -> None:
        obj = owner.as_object()
        view = read_job(obj)
        if view.managed and view.delegation is not None:
            await self._delegate(owner, obj, view.managed, view.delegation)
            return

        def wanted(workload: str | None) -> list[Json]:
            return job_groups(obj, workload=workload, succeeded=owner.succeeded)

        if wanted(None):
            await self._maker.ensure(owner, wanted)

    async def _delegate(self, owner: Owner, obj: Json, group: str, delegation: Delegation) -> None:
        workload = self._workload_above(owner)
        try:
            wanted = delegated_group(obj, group, delegation, workload.as_object())
        except TemplateNotFoundError as error:
            raise HeldError(EVENT_TEMPLATE_NOT_FOUND, str(error)) from error
        await self._maker.ensure_groups(owner, [wanted])

    def _workload_above(self, owner: Owner) -> Workload:
        """The Workload of the Job's own owner. Raises HeldError while there is none."""
        above = owner.metadata.controller
        if above is None:
            raise HeldError(
                EVENT_TEMPLATE_NOT_FOUND,
                "the Job names a template but has no owner whose Workload could have it",
            )
        namespace = owner.metadata.namespace
        subject = (namespace, above.api_version.rpartition("/")[0], above.kind, above.name)
        found = self._world.workloads_for(*subject)
        if found:
            return min(found, key=lambda it: it.metadata.name)
        self._delegated.setdefault(subject, set()).add(owner.metadata.key)
        raise HeldError(
            EVENT_TEMPLATE_NOT_FOUND,
            f"no Workload names {above.kind} {above.name} in spec.controllerRef: the Job's pods "
            "wait for one",
        )

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        super()._on_workload(old, new)
        if new is not None and new.controller_ref is not None:
            subject = (new.metadata.namespace, *new.controller_ref)
            for key in sorted(self._delegated.pop(subject, ())):
                self.controller.queue.add(key)


def job_controller(world: World, maker: Maker, mirror: Mirror, clock: Clock) -> OwnerController:
    """The controller of Jobs."""
    return JobController(world, maker, mirror, clock)
