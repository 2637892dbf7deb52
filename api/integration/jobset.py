"""JobSet: the marks that admission leaves on its Job templates, and the objects it gets.

The mark on a Job template (annotation `group-scope`) says whose pods share a group, and whether
the groups' names are hashed because the usual ones were taken. Together with the labels the JobSet
controller puts on every Job it names the Job's PodGroup, so the Job webhook needs to read nothing
else. What is not marked gets no group.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import starmap
from typing import Any

from api import names
from api.constants import ANNOTATION_GROUP_SCOPE
from api.integration import jobset_rules, objects
from api.integration.admission import (
    Admission,
    Operation,
    Taken,
    drop_entry,
    no_name_taken,
    set_entry,
)
from api.integration.view import (
    SCOPE_JOB,
    SCOPE_JOBSET,
    SCOPE_REPLICATED_JOB,
    JobSetView,
    make_mark,
    read_jobset,
    read_mark,
)
from api.reading import annotations_of, dig, labels_of, listing, mapping, text


def jobset_admission(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    operation: str,
    *,
    namespace: str = "",
    taken: Taken = no_name_taken,
) -> Admission:
    """Validates and marks a JobSet (raw JSON of any structure).

    On CREATE every replicatedJob that asks for a group is marked, also with the form of the
    groups' names: hashed where one of the usual names is `taken`. On UPDATE exactly the marks of
    the old object are applied again, so that applying the unchanged manifest changes nothing.
    `namespace` is the request's: an object may leave its namespace to the URL.
    """
    if operation == "CREATE" or old is None:
        view = read_jobset(new)
        return Admission(
            _marks(new, _new_marks(view, namespace, taken)),
            jobset_rules.faults(view),
            jobset_rules.warnings(view),
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


def group_of_jobset_job(namespace: str, job: Mapping[str, Any]) -> str | None:
    """The PodGroup of a JobSet's Job, from its labels and its mark; None if these name none."""
    jobset, replicated_job, index = objects.jobset_labels(labels_of(job))
    scope, taken = read_mark(text(annotations_of(job).get(ANNOTATION_GROUP_SCOPE)))
    if not jobset:
        return None
    if scope == SCOPE_JOBSET:
        return names.jobset_pod_group(namespace, jobset, taken=taken)
    if scope == SCOPE_REPLICATED_JOB and replicated_job:
        return names.jobset_pod_group(namespace, jobset, replicated_job, taken=taken)
    if scope == SCOPE_JOB and replicated_job and index is not None:
        return names.jobset_pod_group(namespace, jobset, replicated_job, index, taken=taken)
    return None


def _new_marks(view: JobSetView, namespace: str, taken: Taken) -> list[str]:
    """The mark of each replicatedJob, for hashed names where one of the usual ones is taken."""
    unmarked = (replace(job, mark="", names_taken=False) for job in view.replicated_jobs)
    usual = replace(view, namespace=view.namespace or namespace, replicated_jobs=tuple(unmarked))
    # A name that is not generated yet belongs to nobody.
    avoid = bool(view.name) and any(starmap(taken, objects.group_names(usual)))
    return [make_mark(job.scope, names_taken=avoid) for job in view.replicated_jobs]


def _old_marks(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    marks = {
        job.name: make_mark(job.mark, names_taken=job.names_taken)
        for job in read_jobset(old).replicated_jobs
    }
    return [marks.get(job.name, "") for job in read_jobset(new).replicated_jobs]


def _marks(jobset: Mapping[str, Any], wanted: list[str]) -> list[Operation]:
    patch: list[Operation] = []
    for at, job in enumerate(listing(dig(jobset, "spec", "replicatedJobs"))):
        template = mapping(job).get("template")
        pointer = f"/spec/replicatedJobs/{at}/template"
        patch += (
            set_entry(template, pointer, "annotations", ANNOTATION_GROUP_SCOPE, wanted[at])
            if wanted[at]
            else drop_entry(template, pointer, "annotations", ANNOTATION_GROUP_SCOPE)
        )
    return patch
