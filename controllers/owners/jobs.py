"""The controllers of Jobs and JobSets: a Workload for each, and groups as admission annotated them.

The JobSet controller handles the Jobs of a JobSet. A Job that is delegated to a template gets its
PodGroup from the Workload of its own owner. The minCount of each group follows the life cycle of
its Jobs.
"""

from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    EVENT_TEMPLATE_NOT_FOUND,
    EVENT_TOO_MANY_REPLICAS,
    EVENT_TOO_MUCH_EXPECTED,
)
from api.integration.common.minimum import NO_PODS, CountedPods, GroupPodCounts, Progress
from api.integration.common.templates import TemplateNotFoundError
from api.integration.job.admission import job_groups, job_pod_counts, read_job
from api.integration.job.delegation import Delegation, delegated_group
from api.integration.jobset.admission import (
    jobset_expected,
    jobset_groups,
    jobset_not_expected,
    jobset_oversize,
    jobset_pod_counts,
)
from api.integration.jobset.view import read_jobset
from controllers.cache.informers import BY_DELEGATION
from controllers.cache.objects import JOBSETS, Owner, Workload, member_name
from controllers.groups.group_writer import NOTHING_EXPECTED
from controllers.owners import start_order
from controllers.owners.base import LOSSES_DELAY_SECONDS, OwnerController, Tools
from controllers.runtime.controller import BlockedError
from kube.client.meta import Json
from kube.client.resources import Resource


class JobController(OwnerController):
    """The controller of Jobs."""

    async def create_objects(self, owner: Owner) -> None:
        obj = owner.as_object()
        view = read_job(obj, self._caches.scheduler_names)
        if not view.managed or not (view.asks or view.delegation):
            return
        group = (owner.metadata.namespace, member_name(view.managed, native=view.native))
        pods = self._caches.member_counts.of_job(group, owner.metadata.uid)
        pod_counts = {view.managed: job_pod_counts(obj, owner.progress, pods)}
        if not pod_counts[view.managed].size:
            await self._group_writer.delete_groups(owner)
        elif view.delegation is not None:
            await self._delegate(owner, obj, view.delegation, pod_counts)
        else:
            await self._group_writer.ensure(
                owner,
                lambda workload: job_groups(obj, workload=workload),
                pod_counts,
                api=self.api_of(owner, native=view.native),
            )

    async def _delegate(
        self, owner: Owner, obj: Json, delegation: Delegation, pod_counts: dict[str, GroupPodCounts]
    ) -> None:
        workload = self._owners_workload(owner)
        (group,) = pod_counts
        try:
            wanted = delegated_group(obj, group, delegation, workload.as_object())
        except TemplateNotFoundError as error:
            raise BlockedError(EVENT_TEMPLATE_NOT_FOUND, str(error)) from error
        await self._group_writer.ensure_groups(owner, [wanted], pod_counts=pod_counts)

    def _owners_workload(self, owner: Owner) -> Workload:
        """Return the Workload of the Job's own owner. Raises BlockedError if there is none."""
        parent = owner.metadata.controller
        if parent is None:
            raise BlockedError(
                EVENT_TEMPLATE_NOT_FOUND,
                "the Job names a template, but it has no owner whose Workload can have the "
                "template",
            )
        namespace, group = owner.metadata.namespace, parent.api_version.rpartition("/")[0]
        found = self._caches.workloads_for(namespace, group, parent.kind, parent.name)
        if found:
            # Admission makes the same choice, so that the pods' group and the template match.
            return min(found, key=lambda it: it.metadata.name)
        raise BlockedError(
            EVENT_TEMPLATE_NOT_FOUND,
            f"no Workload names {parent.kind} {parent.name} in spec.controllerRef, and the Job's "
            "pods wait for one",
        )

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Queue Jobs that are delegated to a template of the Workload, too."""
        super()._on_workload(old, new)
        named = {
            (it.metadata.namespace, *it.controller_ref)
            for it in (old, new)
            if it is not None and it.controller_ref is not None
        }
        for reference in named:
            for job in self._caches.jobs.by_index(BY_DELEGATION, reference):
                self.controller.queue.add(job.metadata.key)


class JobSetController(OwnerController):
    """The controller of JobSets."""

    def __init__(self, resource: Resource, tools: Tools) -> None:
        super().__init__(resource, tools)
        tools.caches.jobs.subscribe(self._on_job)
        start_order.follow(tools.caches, self.controller)

    async def create_objects(self, owner: Owner) -> None:
        obj = owner.as_object()
        # Admission checks this, but a JobSet may have been stored or scaled past it. Creating that
        # many objects would stop the controller for all other JobSets.
        if problem := jobset_oversize(obj):
            raise BlockedError(EVENT_TOO_MANY_REPLICAS, f"its groups do not change: {problem}")
        if not jobset_groups(obj):
            await self._group_writer.delete_groups(owner)
            return

        def life(job: str, group: str) -> tuple[Progress | None, CountedPods]:
            return self._life(owner, job, group)

        await self._group_writer.ensure(
            owner,
            lambda workload: jobset_groups(obj, workload=workload),
            jobset_pod_counts(obj, life),
            jobset_expected(obj, life) if self._group_writer.expects else NOTHING_EXPECTED,
            self.api_of(owner, native=read_jobset(obj).native),
        )
        # Only after the groups exist: the gang still starts once all of its pods exist.
        problem = jobset_not_expected(obj) if self._group_writer.expects else ""
        if problem:
            raise BlockedError(
                EVENT_TOO_MUCH_EXPECTED,
                "its gang cannot expect the pods that are created later, and waits for them: "
                f"{problem}",
            )

    def _life(self, owner: Owner, name: str, group: str) -> tuple[Progress | None, CountedPods]:
        """Return the progress and pods of one Job of the JobSet.

        The progress is None for a Job that failed or is of an earlier restart: it is recreated.
        """
        namespace = owner.metadata.namespace
        job = self._caches.jobs.get(namespace, name)
        if job is None or not _is_of(job, owner):
            return None, NO_PODS
        key = (namespace, member_name(group, native=job.native))
        pods = self._caches.member_counts.of_job(key, job.metadata.uid)
        # JobSet recreates such a Job with all of its pods, so its progress must not lower minCount.
        starts_anew = (
            job.restarts < owner.restarts
            or job.metadata.deletion_timestamp is not None
            or (job.finished and not job.progress.complete)
        )
        return (None if starts_anew else job.progress), pods

    def _on_job(self, old: Owner | None, new: Owner | None) -> None:
        """Queue the JobSet of a changed Job, if its group lacks pods or the Job was deleted."""
        if old is None or (new is not None and _life_of(new) == _life_of(old)):
            return
        parent = old.metadata.controller
        if parent is None or parent.kind != JOBSETS.kind:
            return
        gone = new is None or new.metadata.uid != old.metadata.uid
        name = old.metadata.annotations.get(ANNOTATION_MANAGED_GROUP, "")
        groups = self._caches.native_groups if old.native else self._caches.pod_groups
        group = groups.get(old.metadata.namespace, name)
        # A group that has enough pods keeps its minCount, whatever its Jobs have finished.
        if gone or (group is not None and self._caches.is_below_minimum(group)):
            key = (old.metadata.namespace, parent.name)
            self.controller.queue.add_after(key, LOSSES_DELAY_SECONDS)


def _is_of(job: Owner, jobset: Owner) -> bool:
    parent = job.metadata.controller
    return parent is not None and parent.uid == jobset.metadata.uid


def _life_of(job: Owner) -> tuple[object, ...]:
    meta = job.metadata
    return (meta.uid, meta.deletion_timestamp, job.progress, job.finished)
