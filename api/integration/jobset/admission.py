"""JobSet: the marks that admission leaves on its Job templates, and the objects it gets.

The mark on a Job template (annotation `group-scope`) says whose pods share a group, and whether
the groups' names are hashed because the usual ones were taken. Together with the labels the JobSet
controller puts on every Job it names the Job's PodGroup, so the Job webhook needs to read nothing
else. What is not marked gets no group. Beside it `jobset-options` says what the JobSet asks for
that its Jobs have to know, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import starmap, zip_longest
from typing import Any, Final

from api import names
from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_JOBSET_OPTIONS,
    ANNOTATION_PROVISIONING_REQUEST,
)
from api.integration.common.holding import hold_faults
from api.integration.common.minimum import Part, Pods, Progress, Standing, standing
from api.integration.common.result import (
    Admission,
    Operation,
    Taken,
    drop_entry,
    no_name_taken,
    set_entries,
)
from api.integration.jobset import expected, rules
from api.integration.jobset.groups import group_names, jobset_labels, jobset_objects, pod_group_name
from api.integration.jobset.levels import jobset_options, note_of
from api.integration.jobset.view import (
    SCOPE_JOB,
    SCOPE_JOBSET,
    SCOPE_REPLICATED_JOB,
    JobSetView,
    ReplicatedJob,
    make_mark,
    read_jobset,
    read_mark,
)
from api.reading import annotations_of, dig, labels_of, listing, mapping, text
from api.scheduler_names import USUAL, SchedulerNames

LifeOfJob = Callable[[str, str], tuple[Progress | None, Pods]]
"""The progress and the pods of a Job, by its own name and that of its group."""

Marks = Mapping[str, str]
"""Annotations of a Job template; one that is empty is taken off."""


def jobset_admission(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    operation: str,
    *,
    namespace: str = "",
    taken: Taken = no_name_taken,
    schedulers: SchedulerNames = USUAL,
    expects: bool = False,
) -> Admission:
    """Validates and marks a JobSet (raw JSON of any structure).

    On CREATE every replicatedJob that asks for a group is marked, also with the form of the
    groups' names: hashed where one of the usual names is `taken`. On UPDATE exactly the marks of
    the old object are applied again, so that applying the unchanged manifest changes nothing.
    `namespace` is the request's: an object may leave its namespace to the URL. `expects`: groups
    may wait for pods that come later (gate ExpectedPods).
    """
    if operation == "CREATE" or old is None:
        view = read_jobset(new)
        if view.managed_by:
            told = rules.left_alone(view, schedulers, expects=expects)
            return Admission(_marks(new, []), [], told)
        if view.oversize is not None:
            return Admission(causes=rules.faults(view))
        wrong = rules.faults(view, schedulers, expects=expects)
        if expects and view.options.asks:
            wrong += hold_faults(new)
        marks = _marks(new, _new_marks(view, namespace, taken))
        return Admission(marks, wrong, rules.warnings(view))
    if operation != "UPDATE":
        return Admission()
    wrong = rules.changes(new, old)
    if expects and read_jobset(old).options.asks:
        wrong += hold_faults(new, old)
    return Admission(_marks(new, _old_marks(new, old)), wrong)


def jobset_groups(
    jobset: Mapping[str, Any], *, workload: str | None = None
) -> list[dict[str, Any]]:
    """The objects a JobSet gets, in order of creation: Workload, composites, PodGroups.

    `workload` is the Workload's name where the usual one was taken. Empty where nothing is
    marked. Their plain owner reference to the Workload is the creator's to add: it needs the
    Workload's UID.
    """
    return jobset_objects(read_jobset(jobset), workload)


def jobset_standings(jobset: Mapping[str, Any], life: LifeOfJob) -> dict[str, Standing]:
    """The standing of each PodGroup of a JobSet, by its name."""
    view = read_jobset(jobset)
    parts: dict[str, list[Part]] = {}
    for job in view.marked:
        for index in job.indexes:
            group, part = _part(view, job, index, life)
            parts.setdefault(group, []).append(part)
    return {group: standing(jobs) for group, jobs in parts.items()}


def jobset_oversize(jobset: Mapping[str, Any]) -> str:
    """Why a JobSet is too large for groups; empty where it is not.

    Admission refuses such a JobSet; what is stored may be older than that rule.
    """
    view = read_jobset(jobset)
    return "" if view.oversize is None or view.managed_by else view.oversize.as_warning()


def jobset_expected(jobset: Mapping[str, Any], life: LifeOfJob) -> dict[str, list[dict[str, Any]]]:
    """`expectedPods` of each PodGroup of a JobSet that expects pods, by its name.

    Empty where all pods are created at once. What ended and is gone is not expected again.
    """
    view = read_jobset(jobset)

    def count(job: ReplicatedJob, index: int) -> int:
        now = standing([_part(view, job, index, life)[1]])
        return min(now.size, now.left)

    jobs = [job for job in view.marked if not job.is_empty]
    return expected.expected_pods(view, jobs, count)


def jobset_not_expected(jobset: Mapping[str, Any]) -> str:
    """Why groups of a JobSet expect nothing although pods come later; empty where they do.

    Admission refuses such a JobSet when it is made; it may be scaled beyond what groups can have.
    """
    faults = expected.faults(read_jobset(jobset))
    return "; ".join(fault.as_warning() for fault in faults)


def jobset_pod_specs(jobset: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Path and spec of each pod template whose pods get a group."""
    return [(job.pod_spec_path, job.pod_spec) for job in read_jobset(jobset).wanted]


def group_of_jobset_job(namespace: str, job: Mapping[str, Any]) -> str | None:
    """The PodGroup of a JobSet's Job, from its labels and its mark; None if these name none."""
    jobset, replicated_job, index = jobset_labels(labels_of(job))
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


def request_of_jobset_job(namespace: str, job: Mapping[str, Any], group: str) -> tuple[str, str]:
    """The root whose request for capacity stands for the pods of a JobSet's Job, and its class.

    `group` is that of the pods. Both are empty where nothing is asked.
    """
    said, above = annotations_of(job), jobset_options(job).request
    if not above:
        return group, text(said.get(ANNOTATION_PROVISIONING_REQUEST))
    scope, taken = read_mark(text(said.get(ANNOTATION_GROUP_SCOPE)))
    if scope != SCOPE_JOB:
        return group, above
    jobset, _, _ = jobset_labels(labels_of(job))
    return names.jobset_composite(namespace, jobset, taken=taken), above


def _part(view: JobSetView, job: ReplicatedJob, index: int, life: LifeOfJob) -> tuple[str, Part]:
    """One Job of a replicatedJob, and its PodGroup."""
    group = pod_group_name(view, job, index)
    progress, pods = life(f"{view.name}-{job.name}-{index}", group)
    return group, Part(job.parallelism, job.completions, progress, pods)


def _new_marks(view: JobSetView, namespace: str, taken: Taken) -> list[Marks]:
    """The marks of each replicatedJob, for hashed names where one of the usual ones is taken."""
    unmarked = (replace(job, mark="", names_taken=False) for job in view.replicated_jobs)
    usual = replace(
        view,
        namespace=view.namespace or namespace,
        replicated_jobs=tuple(unmarked),
        names_taken=False,
    )
    # A name that is not generated yet belongs to nobody.
    avoid = bool(view.name) and any(starmap(taken, group_names(usual)))
    note = note_of(view.options)
    return [
        _marks_of(make_mark(job.scope, names_taken=avoid), note if job.scope else "")
        for job in view.replicated_jobs
    ]


def _old_marks(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Marks]:
    marks = {}
    for job in _replicated_jobs(old):
        said = annotations_of(dig(job, "template"))
        scope, note = said.get(ANNOTATION_GROUP_SCOPE), said.get(ANNOTATION_JOBSET_OPTIONS)
        marks[text(dig(job, "name"))] = _marks_of(text(scope), text(note))
    return [marks.get(text(dig(job, "name")), _UNMARKED) for job in _replicated_jobs(new)]


def _marks_of(scope: str, note: str) -> Marks:
    return {ANNOTATION_GROUP_SCOPE: scope, ANNOTATION_JOBSET_OPTIONS: note}


_UNMARKED: Final = _marks_of("", "")


def _marks(jobset: Mapping[str, Any], wanted: list[Marks]) -> list[Operation]:
    """The patch; a replicatedJob without an entry in `wanted` has no marks."""
    patch: list[Operation] = []
    pairs = zip_longest(_replicated_jobs(jobset), wanted, fillvalue=_UNMARKED)
    for at, (job, marks) in enumerate(pairs):
        template = mapping(job).get("template")
        pointer = f"/spec/replicatedJobs/{at}/template"
        said = {key: value for key, value in marks.items() if value}
        patch += set_entries(template, pointer, {"annotations": said})
        for key in sorted(marks.keys() - said):
            patch += drop_entry(template, pointer, "annotations", key)
    return patch


def _replicated_jobs(jobset: Mapping[str, Any]) -> list[Any]:
    return listing(dig(jobset, "spec", "replicatedJobs"))
