"""CronJob: what would be said of each Job that it makes, said of the CronJob at once.

A CronJob is never marked or refused: its Jobs ask for themselves, each when it is made.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.causes import Cause
from api.constants import ANNOTATION_GANG_MODE
from api.integration.common.options import annotation_path
from api.reading import annotations_of, dig, mapping, text

PATH: Final = "spec.jobTemplate"

# The controller adds the minute of a Job to its CronJob's name.
_MINUTE: Final = "-00000000"


def job_of(cron_job: Mapping[str, Any]) -> dict[str, Any]:
    """A Job as a CronJob (raw JSON of any structure) would make it."""
    template = mapping(dig(cron_job, "spec", "jobTemplate"))
    name = text(dig(cron_job, "metadata", "name")) + _MINUTE
    return {**template, "metadata": {**mapping(template.get("metadata")), "name": name}}


def warnings_of(
    cron_job: Mapping[str, Any], faults: Iterable[Cause], warnings: Iterable[str]
) -> list[str]:
    """What its user is told, given the faults and warnings of a Job of it."""
    return [
        *_misplaced(cron_job),
        *(f"{PATH}.{fault.as_warning()}; its Jobs will be refused" for fault in faults),
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
