"""The kinds that ask for groups: JobSet and Job."""

from __future__ import annotations

from api.integration.admission import Admission, Taken
from api.integration.job import job_admission
from api.integration.jobset import jobset_admission
from api.reading import dig, text
from webhooks.informers import Lister
from webhooks.review import AdmissionRequest, AdmissionResponse


def mutate_jobset(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Mark each replicatedJob's Job template. Errors are reported by validation."""
    return AdmissionResponse(_jobset(request, lister).patch)


def validate_jobset(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """All that is wrong with what a JobSet asks for."""
    admission = _jobset(request, lister)
    return AdmissionResponse(causes=admission.causes, warnings=admission.warnings)


def mutate_job(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Name the group in the pod template, and the scheduler."""
    return AdmissionResponse(_job(request, lister).patch)


def validate_job(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """All that is wrong with what a Job asks for."""
    admission = _job(request, lister)
    return AdmissionResponse(causes=admission.causes, warnings=admission.warnings)


def _jobset(request: AdmissionRequest, lister: Lister) -> Admission:
    return jobset_admission(
        request.object or {},
        request.old_object,
        request.operation,
        namespace=request.namespace,
        taken=_taken(request, lister),
    )


def _job(request: AdmissionRequest, lister: Lister) -> Admission:
    return job_admission(
        request.object or {},
        request.old_object,
        request.operation,
        request_uid=request.uid,
        namespace=request.namespace,
        taken=_taken(request, lister),
    )


def _taken(request: AdmissionRequest, lister: Lister) -> Taken:
    """Whether a group of this name belongs to another owner: such a group is never changed."""
    owner = (request.kind.kind, text(dig(request.object, "metadata", "name")))

    def taken(kind: str, name: str) -> bool:
        return lister.group_is_taken(kind, request.namespace, name, owner)

    return taken
