"""CEL `matchConditions` of the Job and JobSet webhooks: only what asks for Muster is sent to them.

So failurePolicy Fail harms nobody else. Every expression is safe where fields are absent: an
error in one would fail the request. On UPDATE and DELETE the old object speaks too, or removing
the annotation would be a way round immutability.
"""

from typing import Final

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_GROUP_SCOPE, ANNOTATION_MANAGED_GROUP


def _annotated(obj: str, *keys: str) -> str:
    present = " || ".join(f"'{key}' in {obj}.metadata.annotations" for key in keys)
    return f"(has({obj}.metadata) && has({obj}.metadata.annotations) && ({present}))"


def _configured(obj: str) -> str:
    return f"has({obj}.gangConfig)"


def _jobset_asks(obj: str) -> str:
    template = _annotated("job.template", ANNOTATION_GANG_MODE, ANNOTATION_GROUP_SCOPE)
    jobs = (
        f"has({obj}.spec.replicatedJobs) && {obj}.spec.replicatedJobs.exists(job, "
        f"{_configured('job')} || (has(job.template) && {template}))"
    )
    spec = f"(has({obj}.spec) && ({_configured(f'{obj}.spec')} || ({jobs})))"
    return f"{_annotated(obj, ANNOTATION_GANG_MODE)} || {spec}"


def _job_asks(obj: str) -> str:
    return _annotated(obj, ANNOTATION_GANG_MODE, ANNOTATION_GROUP_SCOPE, ANNOTATION_MANAGED_GROUP)


def _either(asks_new: str, asks_old: str) -> str:
    return f"(object != null && ({asks_new})) || (oldObject != null && ({asks_old}))"


JOBSET_ASKS: Final = _either(_jobset_asks("object"), _jobset_asks("oldObject"))
JOB_ASKS: Final = _either(_job_asks("object"), _job_asks("oldObject"))
