"""Jobs and JobSets: one Workload each, and the groups that admission asked for on them.

A Job of a JobSet is left to that. A Job that is delegated to a template gets its PodGroup from the
Workload of its own owner.
"""

from api.constants import EVENT_TEMPLATE_NOT_FOUND
from api.integration.delegation import Delegation, delegated_group
from api.integration.job import job_groups, read_job
from api.integration.jobset import jobset_groups
from api.integration.templates import TemplateNotFoundError
from controllers.group_writer import GroupWriter
from controllers.informers import Caches
from controllers.objects import JOBS, JOBSETS, Owner, Workload
from controllers.owner import OwnerController
from controllers.owner_status import OwnerStatusWriter
from controllers.runtime import BlockedError
from kube.clock import Clock
from kube.meta import Json, Key

ControllerRef = tuple[str, str, str, str]
"""Namespace, API group, kind and name of the owner that a Workload's controllerRef names."""


class JobController(OwnerController):
    """The controller of Jobs."""

    def __init__(
        self,
        caches: Caches,
        group_writer: GroupWriter,
        owner_status: OwnerStatusWriter,
        clock: Clock,
    ) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        super().__init__(
            JOBS,
            caches,
            clock,
            group_writer=group_writer,
            owner_status=owner_status,
            make=self._make_for,
        )
        self._delegated: dict[ControllerRef, set[Key]] = {}

    async def _make_for(self, owner: Owner) -> None:
        obj = owner.as_object()
        view = read_job(obj)
        if view.managed and view.delegation is not None:
            await self._delegate(owner, obj, view.managed, view.delegation)
            return

        def wanted(workload: str | None) -> list[Json]:
            return job_groups(obj, workload=workload, succeeded=owner.succeeded)

        if wanted(None):
            await self._group_writer.ensure(owner, wanted)

    async def _delegate(self, owner: Owner, obj: Json, group: str, delegation: Delegation) -> None:
        workload = self._owners_workload(owner)
        try:
            wanted = delegated_group(obj, group, delegation, workload.as_object())
        except TemplateNotFoundError as error:
            raise BlockedError(EVENT_TEMPLATE_NOT_FOUND, str(error)) from error
        await self._group_writer.ensure_groups(owner, [wanted])

    def _owners_workload(self, owner: Owner) -> Workload:
        """The Workload of the Job's own owner. Raises BlockedError while there is none."""
        parent = owner.metadata.controller
        if parent is None:
            raise BlockedError(
                EVENT_TEMPLATE_NOT_FOUND,
                "the Job names a template but has no owner whose Workload could have it",
            )
        namespace = owner.metadata.namespace
        reference = (namespace, parent.api_version.rpartition("/")[0], parent.kind, parent.name)
        found = self._caches.workloads_for(*reference)
        if found:
            return min(found, key=lambda it: it.metadata.name)
        self._delegated.setdefault(reference, set()).add(owner.metadata.key)
        raise BlockedError(
            EVENT_TEMPLATE_NOT_FOUND,
            f"no Workload names {parent.kind} {parent.name} in spec.controllerRef: the Job's pods "
            "wait for one",
        )

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        super()._on_workload(old, new)
        if new is not None and new.controller_ref is not None:
            reference = (new.metadata.namespace, *new.controller_ref)
            for key in sorted(self._delegated.pop(reference, ())):
                self.controller.queue.add(key)


def job_controller(
    caches: Caches, group_writer: GroupWriter, owner_status: OwnerStatusWriter, clock: Clock
) -> OwnerController:
    """The controller of Jobs."""
    return JobController(caches, group_writer, owner_status, clock)


def jobset_controller(
    caches: Caches, group_writer: GroupWriter, owner_status: OwnerStatusWriter, clock: Clock
) -> OwnerController:
    """The controller of JobSets."""

    async def make(owner: Owner) -> None:
        obj = owner.as_object()

        def wanted(workload: str | None) -> list[Json]:
            return jobset_groups(obj, workload=workload)

        if wanted(None):
            await group_writer.ensure(owner, wanted)

    return OwnerController(
        JOBSETS, caches, clock, group_writer=group_writer, owner_status=owner_status, make=make
    )
