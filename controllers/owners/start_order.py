"""The order in which a JobSet starts its Jobs: a group whose turn has not come is no trouble."""

from typing import Final

from api.constants import JOBSET
from api.integration.jobset.groups import pod_group_names
from api.integration.jobset.view import SCOPE_JOBSET, JobSetView, ReplicatedJob, read_jobset
from controllers.cache.informers import Caches
from controllers.cache.objects import JOBSETS, Owner
from controllers.runtime.controller import Controller
from kube.client.meta import Key

_ORDERED: Final = (b'"dependsOn"', b'"InOrder"')
"""One of these is in the spec of a JobSet that has an order."""


def not_started(owner: Owner, caches: Caches) -> frozenset[str]:
    """The PodGroups of a JobSet whose Jobs are not made yet, as others come before them."""
    if not _may_have_order(owner):
        return frozenset()
    view = read_jobset(owner.as_object())
    return frozenset(
        name
        for at, job in enumerate(view.replicated_jobs)
        if _comes_later(view, at, job) and not _has_jobs(view, job, caches)
        for name in pod_group_names(view, job)
    )


def follow(caches: Caches, controller: Controller[Key]) -> None:
    """Queue a JobSet with an order when one of its Jobs is made: its group waits from then on."""

    def on_job(old: Owner | None, new: Owner | None) -> None:
        parent = new.metadata.controller if old is None and new is not None else None
        if new is None or parent is None or parent.kind != JOBSET.kind:
            return
        jobset = caches.jobsets.get(new.metadata.namespace, parent.name)
        if jobset is not None and _may_have_order(jobset):
            controller.queue.add(jobset.metadata.key)

    caches.jobs.subscribe(on_job)


def _may_have_order(owner: Owner) -> bool:
    return owner.resource == JOBSETS and any(it in owner.spec for it in _ORDERED)


def _comes_later(view: JobSetView, at: int, job: ReplicatedJob) -> bool:
    if not job.mark or job.group_scope == SCOPE_JOBSET:
        return False
    return bool(job.depends_on) or (view.in_order and at > 0)


def _has_jobs(view: JobSetView, job: ReplicatedJob, caches: Caches) -> bool:
    """The JobSet controller makes all Jobs of a replicatedJob at once."""
    return caches.jobs.get(view.namespace, f"{view.name}-{job.name}-0") is not None
