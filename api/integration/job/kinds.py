"""Jobs and CronJobs as kinds that request groups (`api.integration.kinds`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api.causes import Cause
from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATIONS_PARENT_COMPOSITE,
    CRON_JOB,
    JOB,
    JOBSET_LABEL_NAME,
    POD,
)
from api.features import Feature, FeatureUse
from api.integration.common.embedding_kind import EmbeddingKind
from api.integration.common.options import annotation_path
from api.integration.common.owner_kind import (
    AnnotationHolder,
    OwnerKind,
    Review,
    mode_uses,
    topology_uses,
    tree_uses,
)
from api.integration.common.result import Admission
from api.integration.job.admission import POD_SPEC, job_admission, read_job
from api.integration.jobset.kinds import job_templates
from api.reading import annotations_of, dig, labels_of, mapping, text
from api.scheduler_names import SchedulerNames

_JOB_TEMPLATE: Final = "spec.jobTemplate"

# The controller appends the minute of a Job to the name of its CronJob.
_MINUTE: Final = "-00000000"


class Jobs(OwnerKind):
    """Jobs."""

    kind = JOB

    def admit(self, obj: Mapping[str, Any], review: Review) -> Admission:
        return job_admission(obj, review)

    def pod_specs(self, obj: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
        view = read_job(obj)
        return [(POD_SPEC, view.pod_spec)] if view.asks else []

    def uses(self, obj: Mapping[str, Any], schedulers: SchedulerNames) -> Iterator[FeatureUse]:
        """Yield the features that a Job itself uses. Those of a JobSet's Job are the JobSet's."""
        view = read_job(obj, schedulers)
        if view.asks:
            yield from mode_uses(Feature.JOB, view.options)
            yield from tree_uses(view.options)
            yield from topology_uses([view.options])
        elif view.delegation is not None and not view.from_jobset:
            yield FeatureUse(Feature.JOB, annotation_path("", ANNOTATION_GROUP_TEMPLATE))
            for key in ANNOTATIONS_PARENT_COMPOSITE:
                if annotations_of(obj).get(key):
                    yield FeatureUse(Feature.COMPOSITE_POD_GROUP, annotation_path("", key))

    def templates(self, obj: Mapping[str, Any]) -> Iterator[AnnotationHolder]:
        yield AnnotationHolder("spec.template.", POD, dig(obj, "spec", "template"))

    def mutation_warnings(
        self, obj: Mapping[str, Any], admission: Admission, review: Review
    ) -> Iterable[str]:
        """Return warnings about changes that admission undid: validation cannot see them."""
        return admission.warnings if review.operation == "UPDATE" else ()

    def reports_unread_keys(self, obj: Mapping[str, Any]) -> bool:
        """Return False for a Job of a JobSet, whose user gets the warnings for the JobSet."""
        return not labels_of(obj).get(JOBSET_LABEL_NAME)


class CronJobs(EmbeddingKind):
    """CronJobs: never rejected, as their Jobs request groups when they are created."""

    kind = CRON_JOB
    inner = Jobs()

    def embedded(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        template = mapping(dig(obj, "spec", "jobTemplate"))
        name = text(dig(obj, "metadata", "name")) + _MINUTE
        return {**template, "metadata": {**mapping(template.get("metadata")), "name": name}}

    def path(self, inner: str) -> str:
        """Return the path in the template of the CronJob's Jobs."""
        return f"{_JOB_TEMPLATE}.{inner}"

    def is_checked(self, operation: str) -> bool:
        """Return True: each change affects future Jobs."""
        return True

    def templates(self, obj: Mapping[str, Any]) -> Iterator[AnnotationHolder]:
        yield from job_templates(f"{_JOB_TEMPLATE}.", dig(obj, "spec", "jobTemplate"))

    def conclude(
        self, obj: Mapping[str, Any], found: Iterable[Cause], warnings: Iterable[str]
    ) -> tuple[list[Cause], list[str]]:
        """Return only warnings: the Jobs are rejected, not the CronJob."""
        said = [
            *(f"{fault.as_warning()}; admission will reject its Jobs" for fault in found),
            *warnings,
        ]
        written = (annotations_of(it) for it in (obj, dig(obj, "spec", "jobTemplate")))
        here, there = (ANNOTATION_GANG_MODE in it for it in written)
        misplaced = (
            f"{annotation_path('', ANNOTATION_GANG_MODE)}: has no effect on a CronJob: set "
            f"{annotation_path(_JOB_TEMPLATE, ANNOTATION_GANG_MODE)}"
        )
        return [], [*([misplaced] if here and not there else ()), *map(self.path, said)]
