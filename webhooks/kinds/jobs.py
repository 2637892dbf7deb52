"""The kinds that ask for groups: JobSet, Job, CronJob through its Jobs, StatefulSet, Deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from api.causes import Cause
from api.constants import JOBSET_LABEL_NAME
from api.features import Feature, Use, refused
from api.integration import unread_keys
from api.integration.apps.admission import KINDS, app_admission, app_pod_specs
from api.integration.common.autoscalers import SILENT, Autoscalers
from api.integration.common.result import Admission, Taken
from api.integration.common.workloads import OwnerName
from api.integration.feature_use import uses_of_app, uses_of_job, uses_of_jobset
from api.integration.job import cron_job
from api.integration.job.admission import job_admission, job_pod_specs
from api.integration.jobset.admission import jobset_admission, jobset_pod_specs
from api.priority import check_preemption, unknown_class
from api.reading import dig, labels_of, text
from webhooks.cache.informers import Lister
from webhooks.reviews.review import AdmissionRequest, AdmissionResponse

T = TypeVar("T")

PodSpecs = Callable[[Mapping[str, Any]], Iterable[tuple[str, Mapping[str, Any]]]]
"""Path and spec of each pod template that gets a group."""


def mutate_jobset(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Mark each replicatedJob's Job template. Errors are reported by validation."""
    return AdmissionResponse(_jobset(request, lister).patch)


def validate_jobset(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """All that is wrong with what a JobSet asks for."""
    operation, new = request.operation, request.object or {}
    admission = served(_jobset(request, lister), operation, uses_of_jobset(new), lister)
    return with_unread(request, validated(operation, new, admission, lister, jobset_pod_specs))


def mutate_job(
    request: AdmissionRequest, lister: Lister, autoscalers: Autoscalers = SILENT
) -> AdmissionResponse:
    """Name the group in the pod template, and the scheduler; say what autoscalers need to know.

    Validation does not see what an update tried and this undid: that is said here.
    """
    admission = _job(request, lister, autoscalers)
    undone = admission.warnings if request.operation == "UPDATE" else ()
    return AdmissionResponse(admission.patch, warnings=undone)


def validate_job(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """All that is wrong with what a Job asks for."""
    operation, new = request.operation, request.object or {}
    uses = uses_of_job(new, lister.scheduler_names)
    admission = served(_job(request, lister), operation, uses, lister)
    answer = validated(operation, new, admission, lister, job_pod_specs)
    # What is wrong with a Job of a JobSet its user was told of the JobSet.
    return answer if labels_of(new).get(JOBSET_LABEL_NAME) else with_unread(request, answer)


def validate_cron_job(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """What would be said of a CronJob's Jobs, as warnings: it is never refused."""
    new = request.object or {}
    job = cron_job.job_of(new)
    admission = job_admission(
        job, None, "CREATE", namespace=request.namespace, schedulers=lister.scheduler_names
    )
    uses = uses_of_job(job, lister.scheduler_names)
    usable = served(admission, "CREATE", uses, lister)
    said = validated("CREATE", job, usable, lister, job_pod_specs)
    told = cron_job.warnings_of(new, said.causes, said.warnings)
    return with_unread(request, AdmissionResponse(warnings=told))


def mutate_app(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Name the group in the pod template of a StatefulSet or Deployment, and the scheduler."""
    return AdmissionResponse(_app(request, lister).patch)


def validate_app(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """All that is wrong with what a StatefulSet or Deployment asks for."""
    operation, new = request.operation, request.object or {}
    kind = KINDS[request.kind.kind]
    admission = served(_app(request, lister), operation, uses_of_app(kind, new), lister)
    specs = partial(app_pod_specs, kind)
    return with_unread(request, validated(operation, new, admission, lister, specs))


def validated(
    operation: str,
    obj: Mapping[str, Any],
    admission: Admission,
    lister: Lister,
    pod_specs: PodSpecs,
) -> AdmissionResponse:
    """The rules' causes; without any, 403 for a pod template that preempts against its class.

    A class that is not there is worth a warning.
    """
    denied: list[Cause] = []
    unknown: list[str] = []
    if operation == "CREATE" and not admission.causes:
        classes, found = lister.priority_classes(), list(pod_specs(obj))
        denied = _said(check_preemption(spec, classes, path) for path, spec in found)
        unknown = _said(unknown_class(spec, classes, path) for path, spec in found)
    return AdmissionResponse(
        causes=[*admission.causes, *denied],
        warnings=[*admission.warnings, *unknown],
        forbidden=bool(denied),
    )


def with_unread(request: AdmissionRequest, answer: AdmissionResponse) -> AdmissionResponse:
    """The answer that also says, of a new object, which keys of ours nothing reads."""
    if request.operation != "CREATE":
        return answer
    found = unread_keys.warnings(unread_keys.unread_keys(request.kind.kind, request.object or {}))
    return replace(answer, warnings=[*answer.warnings, *found])


def served(admission: Admission, operation: str, uses: Iterable[Use], lister: Lister) -> Admission:
    """The same with causes for what a new object uses that is off.

    What is stored keeps what it has.
    """
    off = refused(uses, lister.gates) if operation == "CREATE" else []
    return replace(admission, causes=[*off, *admission.causes]) if off else admission


def _said(found: Iterable[T | None]) -> list[T]:
    return [one for one in found if one is not None]


def _jobset(request: AdmissionRequest, lister: Lister) -> Admission:
    return jobset_admission(
        request.object or {},
        request.old_object,
        request.operation,
        namespace=request.namespace,
        taken=_taken(request, lister),
        schedulers=lister.scheduler_names,
        expects=Feature.EXPECTED_PODS in lister.gates,
    )


def _job(request: AdmissionRequest, lister: Lister, autoscalers: Autoscalers = SILENT) -> Admission:
    return job_admission(
        request.object or {},
        request.old_object,
        request.operation,
        request_uid=request.uid,
        namespace=request.namespace,
        taken=_taken(request, lister),
        schedulers=lister.scheduler_names,
        workloads=_Workloads(request.namespace, lister),
        autoscalers=autoscalers,
    )


def _app(request: AdmissionRequest, lister: Lister) -> Admission:
    return app_admission(
        KINDS[request.kind.kind],
        request.object or {},
        request.old_object,
        request.operation,
        request_uid=request.uid,
        schedulers=lister.scheduler_names,
    )


class _Workloads(NamedTuple):
    """The Workloads of the request's namespace."""

    namespace: str
    lister: Lister

    def of_user(self, owner: OwnerName) -> Mapping[str, Any] | None:
        return self.lister.workload_of_user(self.namespace, owner)

    def of_delegated(self, owner: OwnerName) -> Mapping[str, Any] | None:
        return self.lister.workload_of_owner(self.namespace, owner)


def _taken(request: AdmissionRequest, lister: Lister) -> Taken:
    """Whether a group of this name belongs to another owner: such a group is never changed."""
    owner = (request.kind.kind, text(dig(request.object, "metadata", "name")))

    def taken(kind: str, name: str) -> bool:
        return lister.group_is_taken(kind, request.namespace, name, owner)

    return taken
