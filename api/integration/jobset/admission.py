"""Admission of JobSets, which annotates their Job templates, and the objects of a JobSet.

The annotation `group-scope` of a Job template states which pods share a group, and whether the
groups have hashed names because the usual ones are ambiguous or taken. With the labels that the
JobSet controller sets on each Job, it determines the Job's PodGroup, so the Job webhook needs no
other object. A template without it gets no group. The annotation `jobset-options` has the JobSet's
options that its Jobs need.
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
    JOBSET,
)
from api.integration.common.holding import hold_faults
from api.integration.common.minimum import (
    CountedPods,
    GroupJob,
    GroupPodCounts,
    Progress,
    group_pod_counts,
)
from api.integration.common.native import (
    EXPECTED_TEXT,
    OWN,
    WORKLOAD_TEXT,
    Choice,
    NativeApi,
    note_choice,
)
from api.integration.common.owner_kind import Review
from api.integration.common.result import Admission, Operation, Taken, drop_entry, set_entries
from api.integration.common.workloads import OwnerName, Workloads
from api.integration.jobset import expected, rules
from api.integration.jobset.groups import (
    group_names,
    has_plain_names,
    jobset_labels,
    jobset_objects,
    named_group,
    pod_group_name,
)
from api.integration.jobset.levels import jobset_options, note_of
from api.integration.jobset.view import (
    NO_GROUP,
    SCOPE_JOB,
    SCOPE_JOBSET,
    SCOPE_REPLICATED_JOB,
    GroupScope,
    JobSetView,
    ReplicatedJob,
    native_names,
    read_jobset,
    read_scope,
)
from api.reading import annotations_of, dig, labels_of, listing, mapping, text

LifeOfJob = Callable[[str, str], tuple[Progress | None, CountedPods]]
"""A function from the name of a Job and of its group to the Job's progress and pods."""

Annotations = Mapping[str, str]
"""Annotations of a Job template. An empty one is removed."""


def jobset_admission(jobset: Mapping[str, Any], review: Review) -> Admission:
    """Validate and annotate a JobSet (raw JSON of any structure).

    On CREATE every replicatedJob that requests a group gets the annotation, with hashed names if
    one of the usual names is taken. On UPDATE exactly the old object's annotations are applied
    again, so that applying the unchanged manifest changes nothing. `review.native` decides whether
    the groups are Kubernetes' own, which a user's Workload excludes; their names are unique by the
    UID of the request.
    """
    old, expects = review.old, review.expects
    if review.operation == "CREATE" or old is None:
        view = read_jobset(jobset)
        if view.managed_by:
            told = rules.unmanaged_warnings(view, review.schedulers, expects=expects)
            return Admission(_annotation_patch(jobset, []), [], told)
        # No patch: computing the names of groups would visit each of the Jobs.
        if view.oversize is not None:
            return Admission(causes=rules.faults(view))
        wrong = rules.faults(view, review.schedulers, expects=expects)
        if expects and view.options.asks:
            wrong += hold_faults(jobset)
        choice = _choice(view, review.workloads, review.native, expects=expects)
        form = native_names(review.uid) if choice.native else ""
        annotations = _new_annotations(view, review.taken, form)
        patch = [*_annotation_patch(jobset, annotations), *note_choice(jobset, choice)]
        return Admission(patch, wrong, [*rules.warnings(view), *choice.warnings])
    if review.operation != "UPDATE":
        return Admission()
    wrong = rules.changes(jobset, old)
    if expects and read_jobset(old).options.asks:
        wrong += hold_faults(jobset, old)
    patch = _annotation_patch(jobset, _old_annotations(jobset, old))
    return Admission([*patch, *note_choice(jobset, Choice.of(old))], wrong)


def jobset_groups(
    jobset: Mapping[str, Any], *, workload: str | None = None
) -> list[dict[str, Any]]:
    """Return the objects of a JobSet in order of creation: Workload, composites, PodGroups.

    `workload` is the Workload's name if the usual one was taken. There are none without annotated
    templates. The caller adds the owner reference to the Workload, which needs its UID.
    """
    return jobset_objects(read_jobset(jobset), workload)


def jobset_pod_counts(jobset: Mapping[str, Any], life: LifeOfJob) -> dict[str, GroupPodCounts]:
    """Return the standing of each PodGroup of a JobSet, by its name."""
    view = read_jobset(jobset)
    parts: dict[str, list[GroupJob]] = {}
    for job in view.annotated:
        for index in job.indexes:
            group, part = _part(view, job, index, life)
            parts.setdefault(group, []).append(part)
    return {group: group_pod_counts(jobs) for group, jobs in parts.items()}


def jobset_oversize(jobset: Mapping[str, Any]) -> str:
    """Return the reason why a JobSet is too large for groups; empty if it is not.

    Admission rejects such a JobSet, but a stored one may be older than that rule.
    """
    view = read_jobset(jobset)
    return "" if view.oversize is None or view.managed_by else view.oversize.as_warning()


def jobset_expected(jobset: Mapping[str, Any], life: LifeOfJob) -> dict[str, list[dict[str, Any]]]:
    """Return `expectedPods` of each PodGroup of a JobSet that expects pods, by its name.

    It is empty if all pods are created at once. Pods that ended and are deleted are not expected
    again.
    """
    view = read_jobset(jobset)

    def count(job: ReplicatedJob, index: int) -> int:
        now = group_pod_counts([_part(view, job, index, life)[1]])
        return min(now.size, now.possible)

    jobs = [job for job in view.annotated if not job.is_empty]
    return expected.expected_pods(view, jobs, count)


def jobset_not_expected(jobset: Mapping[str, Any]) -> str:
    """Return the reason why groups expect nothing although pods come later; else empty.

    Admission rejects a new JobSet of this kind, but a JobSet may be scaled beyond the limits.
    """
    faults = expected.faults(read_jobset(jobset))
    return "; ".join(fault.as_warning() for fault in faults)


def group_of_jobset_job(namespace: str, job: Mapping[str, Any]) -> str | None:
    """Return the PodGroup of a JobSet's Job by its labels and annotation, if they name one."""
    jobset, replicated_job, index = jobset_labels(labels_of(job))
    scope = read_scope(text(annotations_of(job).get(ANNOTATION_GROUP_SCOPE)))
    known = {
        SCOPE_JOBSET: bool(jobset),
        SCOPE_REPLICATED_JOB: bool(jobset and replicated_job),
        SCOPE_JOB: bool(jobset and replicated_job) and index is not None,
    }
    if not known.get(scope.scope):
        return None
    return named_group(namespace, jobset, scope, replicated_job, index)


def request_of_jobset_job(namespace: str, job: Mapping[str, Any], group: str) -> tuple[str, str]:
    """Return the root whose request stands for the pods of a JobSet's Job, and its class.

    `group` is the group of the pods. Both are empty without a request.
    """
    said, above = annotations_of(job), jobset_options(job).request
    if not above:
        return group, text(said.get(ANNOTATION_PROVISIONING_REQUEST))
    scope = read_scope(text(said.get(ANNOTATION_GROUP_SCOPE)))
    if scope.scope != SCOPE_JOB:
        return group, above
    jobset, _, _ = jobset_labels(labels_of(job))
    return names.jobset_composite(namespace, jobset, form=scope.form), above


def _part(
    view: JobSetView, job: ReplicatedJob, index: int, life: LifeOfJob
) -> tuple[str, GroupJob]:
    """Return one Job of a replicatedJob, and its PodGroup."""
    group = pod_group_name(view, job, index)
    progress, pods = life(f"{view.name}-{job.name}-{index}", group)
    return group, GroupJob(job.parallelism, job.completions, progress, pods)


def _choice(view: JobSetView, workloads: Workloads, native: NativeApi, *, expects: bool) -> Choice:
    """Return the API of all groups of a new JobSet."""
    jobs = view.wanted
    if not jobs:
        return OWN
    named = OwnerName(JOBSET.group, JOBSET.kind, view.name)
    lacks = [WORKLOAD_TEXT] if workloads.of_user(named) is not None else []
    if expects and expected.is_expecting(view, jobs):
        lacks.append(EXPECTED_TEXT)
    levels = [view.options, *(job.options for job in jobs)]
    return native.choose([*lacks, *native.lacking(levels, (job.pod_spec for job in jobs))])


def _new_annotations(view: JobSetView, taken: Taken, form: str) -> list[Annotations]:
    """Return the annotations of each replicatedJob's template.

    `form` is that of the names. If it is empty, the names have hashes where the usual ones are
    taken, or may be those of another object.
    """
    # Ignore annotations of a new object: it may be a copy of another JobSet.
    not_annotated = (replace(job, noted=NO_GROUP) for job in view.replicated_jobs)
    new = replace(view, replicated_jobs=tuple(not_annotated), noted=NO_GROUP)
    # A name that is not generated yet may be any, and cannot be taken.
    if not form and not (view.name and has_plain_names(new)):
        form = names.JOINED
    named = replace(new, noted=GroupScope(form=form))
    if view.name and any(starmap(taken, group_names(named))):
        form = names.UNIQUE
    note = note_of(view.options)
    return [
        _annotations_for(GroupScope(job.scope, form).annotation(), note if job.scope else "")
        for job in view.replicated_jobs
    ]


def _old_annotations(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Annotations]:
    annotations = {}
    for job in _replicated_jobs(old):
        said = annotations_of(dig(job, "template"))
        scope, note = said.get(ANNOTATION_GROUP_SCOPE), said.get(ANNOTATION_JOBSET_OPTIONS)
        annotations[text(dig(job, "name"))] = _annotations_for(text(scope), text(note))
    return [
        annotations.get(text(dig(job, "name")), _NOT_ANNOTATED) for job in _replicated_jobs(new)
    ]


def _annotations_for(scope: str, note: str) -> Annotations:
    return {ANNOTATION_GROUP_SCOPE: scope, ANNOTATION_JOBSET_OPTIONS: note}


_NOT_ANNOTATED: Final = _annotations_for("", "")


def _annotation_patch(jobset: Mapping[str, Any], wanted: list[Annotations]) -> list[Operation]:
    """Return the patch; a replicatedJob without an entry in `wanted` loses its annotations."""
    patch: list[Operation] = []
    pairs = zip_longest(_replicated_jobs(jobset), wanted, fillvalue=_NOT_ANNOTATED)
    for at, (job, annotations) in enumerate(pairs):
        template = mapping(job).get("template")
        pointer = f"/spec/replicatedJobs/{at}/template"
        said = {key: value for key, value in annotations.items() if value}
        patch += set_entries(template, pointer, {"annotations": said})
        for key in sorted(annotations.keys() - said):
            patch += drop_entry(template, pointer, "annotations", key)
    return patch


def _replicated_jobs(jobset: Mapping[str, Any]) -> list[Any]:
    return listing(dig(jobset, "spec", "replicatedJobs"))
