"""The kinds that ask for groups: JobSet and Job."""

from __future__ import annotations

from api.integration.admission import Admission, Taken
from api.integration.job import job_admission
from api.integration.jobset import jobset_admission
from api.reading import dig, text
from webhooks.review import Answer, Request
from webhooks.world import World


def mutate_jobset(request: Request, world: World) -> Answer:
    """Mark each replicatedJob's Job template. What is wrong is for validation to say."""
    return Answer(_jobset(request, world).patch)


def judge_jobset(request: Request, world: World) -> Answer:
    """All that is wrong with what a JobSet asks for."""
    admission = _jobset(request, world)
    return Answer(causes=admission.causes, warnings=admission.warnings)


def mutate_job(request: Request, world: World) -> Answer:
    """Name the group in the pod template, and the scheduler."""
    return Answer(_job(request, world).patch)


def judge_job(request: Request, world: World) -> Answer:
    """All that is wrong with what a Job asks for."""
    admission = _job(request, world)
    return Answer(causes=admission.causes, warnings=admission.warnings)


def _jobset(request: Request, world: World) -> Admission:
    return jobset_admission(
        request.object or {},
        request.old_object,
        request.operation,
        namespace=request.namespace,
        taken=_taken(request, world),
    )


def _job(request: Request, world: World) -> Admission:
    return job_admission(
        request.object or {},
        request.old_object,
        request.operation,
        request_uid=request.uid,
        namespace=request.namespace,
        taken=_taken(request, world),
    )


def _taken(request: Request, world: World) -> Taken:
    """Whether the name of a group is somebody else's: such a group is never changed."""
    owner = (request.kind.kind, text(dig(request.object, "metadata", "name")))

    def taken(kind: str, name: str) -> bool:
        return world.group_is_taken(kind, request.namespace, name, owner)

    return taken
