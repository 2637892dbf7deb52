"""JobSets as a kind that requests groups (`api.integration.kinds`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from api.constants import JOB, JOBSET, POD, TRAIN_JOB
from api.features import Feature, FeatureUse
from api.integration.common.options import COMPOSITE, Options
from api.integration.common.owner_kind import (
    AnnotationHolder,
    OwnerKind,
    Review,
    mode_uses,
    topology_uses,
    tree_uses,
)
from api.integration.common.result import Admission
from api.integration.jobset.admission import jobset_admission
from api.integration.jobset.view import SCOPE_JOB, SCOPE_JOBSET, ReplicatedJob, read_jobset
from api.reading import dig, listing, mapping
from api.scheduler_names import SchedulerNames


class JobSets(OwnerKind):
    """JobSets."""

    kind = JOBSET
    created_by = (TRAIN_JOB,)

    def admit(self, obj: Mapping[str, Any], review: Review) -> Admission:
        return jobset_admission(obj, review)

    def pod_specs(self, obj: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
        return [(job.pod_spec_path, job.pod_spec) for job in read_jobset(obj).wanted]

    def uses(self, obj: Mapping[str, Any], schedulers: SchedulerNames) -> Iterator[FeatureUse]:
        view = read_jobset(obj)
        if not view.wanted:
            return
        composite = view.options.mode == COMPOSITE
        if view.options.asks:
            yield from mode_uses(Feature.JOBSET, view.options)
            yield from tree_uses(view.options)
            yield from topology_uses([view.options])
        if composite:
            yield FeatureUse(Feature.COMPOSITE_POD_GROUP, view.options.mode_path)
        for job in view.wanted:
            if not view.options.asks:
                yield from mode_uses(Feature.JOBSET, job.options)
            yield from topology_uses(_levels(job, composite=composite))

    def templates(self, obj: Mapping[str, Any]) -> Iterator[AnnotationHolder]:
        for at, one in enumerate(listing(dig(obj, "spec", "replicatedJobs"))):
            path = f"spec.replicatedJobs[{at}].template."
            yield from job_templates(path, mapping(one).get("template"))


def job_templates(path: str, template: Any) -> Iterator[AnnotationHolder]:
    """Yield the template of a Job, and of its pods."""
    yield AnnotationHolder(path, JOB, template)
    yield AnnotationHolder(f"{path}spec.template.", POD, dig(template, "spec", "template"))


def _levels(job: ReplicatedJob, *, composite: bool) -> Iterator[Options]:
    """Yield the options of a replicatedJob that have an effect."""
    if composite and job.scope == SCOPE_JOB:
        yield job.outer
    if job.scope != SCOPE_JOBSET:
        yield job.options
