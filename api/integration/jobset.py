"""JobSet: the marks that admission leaves on its Job templates, and the objects it gets.

The mark on a Job template (annotation `group-scope`) says whose pods share a group. Together with
the labels the JobSet controller puts on every Job it names the Job's PodGroup, so the Job webhook
needs to read nothing else. What is not marked gets no group.
"""

from collections.abc import Mapping
from typing import Any

from api import names
from api.constants import ANNOTATION_GROUP_SCOPE
from api.integration import jobset_rules, objects
from api.integration.admission import Admission, Operation, drop_entry, set_entry
from api.integration.view import SCOPE_JOB, SCOPE_JOBSET, SCOPE_REPLICATED_JOB, read_jobset
from api.reading import dig, listing, mapping


def jobset_admission(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, operation: str
) -> Admission:
    """Judges and marks a JobSet (raw JSON of any structure).

    On CREATE every replicatedJob that asks for a group is marked. On UPDATE exactly the marks of
    the old object are applied again, so that applying the unchanged manifest changes nothing.
    """
    if operation == "CREATE" or old is None:
        view = read_jobset(new)
        wanted = {at: job.scope for at, job in enumerate(view.replicated_jobs)}
        return Admission(
            _marks(new, wanted), jobset_rules.faults(view), jobset_rules.warnings(view)
        )
    if operation != "UPDATE":
        return Admission()
    return Admission(_marks(new, _old_marks(new, old)), jobset_rules.changes(new, old))


def jobset_groups(
    jobset: Mapping[str, Any], *, workload: str | None = None
) -> list[dict[str, Any]]:
    """The objects a JobSet gets, in order of creation: Workload, composites, PodGroups.

    `workload` is the Workload's name where the usual one was taken. Empty where nothing is
    marked. Their plain owner reference to the Workload is the creator's to add: it needs the
    Workload's UID.
    """
    return objects.jobset_objects(read_jobset(jobset), workload)


def group_of_jobset_job(namespace: str, job_labels: Mapping[str, Any], scope: str) -> str | None:
    """The PodGroup of a JobSet's Job, from its labels and its mark; None if these name none."""
    jobset, replicated_job, index = objects.jobset_labels(job_labels)
    if not jobset:
        return None
    if scope == SCOPE_JOBSET:
        return names.jobset_pod_group(namespace, jobset)
    if scope == SCOPE_REPLICATED_JOB and replicated_job:
        return names.jobset_pod_group(namespace, jobset, replicated_job)
    if scope == SCOPE_JOB and replicated_job and index is not None:
        return names.jobset_pod_group(namespace, jobset, replicated_job, index)
    return None


def _marks(jobset: Mapping[str, Any], wanted: Mapping[int, str]) -> list[Operation]:
    patch: list[Operation] = []
    for at, job in enumerate(listing(dig(jobset, "spec", "replicatedJobs"))):
        template = mapping(job).get("template")
        pointer = f"/spec/replicatedJobs/{at}/template"
        scope = wanted.get(at, "")
        patch += (
            set_entry(template, pointer, "annotations", ANNOTATION_GROUP_SCOPE, scope)
            if scope
            else drop_entry(template, pointer, "annotations", ANNOTATION_GROUP_SCOPE)
        )
    return patch


def _old_marks(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[int, str]:
    marks = {job.name: job.mark for job in read_jobset(old).replicated_jobs}
    return {at: marks.get(job.name, "") for at, job in enumerate(read_jobset(new).replicated_jobs)}
