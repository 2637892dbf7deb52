"""Reports on a CronJob about the Jobs that it will create.

A CronJob is never changed or rejected, as its Jobs request groups when they are created.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.causes import Cause
from api.constants import ANNOTATION_GANG_MODE
from api.integration.common.options import annotation_path
from api.reading import annotations_of, dig, mapping, text

PATH: Final = "spec.jobTemplate"

# The controller appends the minute of a Job to the name of its CronJob.
_MINUTE: Final = "-00000000"


def job_of(cron_job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Job as the CronJob (raw JSON of any structure) would create it."""
    template = mapping(dig(cron_job, "spec", "jobTemplate"))
    name = text(dig(cron_job, "metadata", "name")) + _MINUTE
    return {**template, "metadata": {**mapping(template.get("metadata")), "name": name}}


def warnings_of(
    cron_job: Mapping[str, Any], faults: Iterable[Cause], warnings: Iterable[str]
) -> list[str]:
    """Return the warnings for its user, given the faults and warnings of one of its Jobs."""
    return [
        *_misplaced(cron_job),
        *(f"{PATH}.{fault.as_warning()}; admission will reject its Jobs" for fault in faults),
        *(f"{PATH}.{warning}" for warning in warnings),
    ]


def _misplaced(cron_job: Mapping[str, Any]) -> list[str]:
    template = dig(cron_job, "spec", "jobTemplate")
    if ANNOTATION_GANG_MODE not in annotations_of(cron_job):
        return []
    if ANNOTATION_GANG_MODE in annotations_of(template):
        return []
    here, there = (annotation_path(path, ANNOTATION_GANG_MODE) for path in ("", PATH))
    return [f"{here}: has no effect on a CronJob: set {there}"]
