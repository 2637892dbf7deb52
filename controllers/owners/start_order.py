"""The start order of a JobSet's Jobs: a group that starts later is no problem to report."""

from typing import Final

from api.constants import JOBSET
from api.integration.jobset.groups import pod_group_names
from api.integration.jobset.view import SCOPE_JOBSET, JobSetView, ReplicatedJob, read_jobset
from controllers.cache.informers import Caches
from controllers.cache.objects import JOBSETS, Owner
from controllers.runtime.controller import Controller
from kube.client.meta import Key

# Searching the raw spec is cheaper than decoding every JobSet.
_ORDERED: Final = (b'"dependsOn"', b'"InOrder"')
"""Field or value of which a JobSet with a start order has at least one."""


def not_started(owner: Owner, caches: Caches) -> frozenset[str]:
    """Return the PodGroups of a JobSet whose Jobs do not exist yet, as others come before them."""
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
    """Queue a JobSet with a start order when one of its Jobs is created."""

    def on_job(old: Owner | None, new: Owner | None) -> None:
        # From then on the group of this Job waits, and its wait counts for the report.
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
    # A group of the complete JobSet waits from the start, so it is never left out.
    if not job.noted.scope or job.group_scope == SCOPE_JOBSET:
        return False
    return bool(job.depends_on) or (view.in_order and at > 0)


def _has_jobs(view: JobSetView, job: ReplicatedJob, caches: Caches) -> bool:
    """Return True if the Jobs of a replicatedJob exist."""
    # The JobSet controller creates all of its Jobs at once, so the first one is enough.
    return caches.jobs.get(view.namespace, f"{view.name}-{job.name}-0") is not None
