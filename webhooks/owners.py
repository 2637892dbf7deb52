"""The kinds that ask for groups: JobSet and Job."""

from __future__ import annotations

from api.integration.admission import Admission
from api.integration.job import job_admission
from api.integration.jobset import jobset_admission
from webhooks.review import Answer, Request
from webhooks.world import World


def mutate_jobset(request: Request, _world: World) -> Answer:
    """Mark each replicatedJob's Job template. What is wrong is for validation to say."""
    return Answer(_jobset(request).patch)


def judge_jobset(request: Request, _world: World) -> Answer:
    """All that is wrong with what a JobSet asks for."""
    admission = _jobset(request)
    return Answer(causes=admission.causes, warnings=admission.warnings)


def mutate_job(request: Request, _world: World) -> Answer:
    """Name the group in the pod template, and the scheduler."""
    return Answer(_job(request).patch)


def judge_job(request: Request, _world: World) -> Answer:
    """All that is wrong with what a Job asks for."""
    admission = _job(request)
    return Answer(causes=admission.causes, warnings=admission.warnings)


def _jobset(request: Request) -> Admission:
    return jobset_admission(request.object or {}, request.old_object, request.operation)


def _job(request: Request) -> Admission:
    return job_admission(
        request.object or {},
        request.old_object,
        request.operation,
        request_uid=request.uid,
        namespace=request.namespace,
    )
