"""The groups of a JobSet: one for all of it, for each replicatedJob or each Job, or a tree.

Mode Composite is Muster's own tree of JobSet, replicatedJobs and Jobs. A replicatedJob with mode
Basic is a stage of it that starts as soon as one of its pods can (KEP-6012, user story of stages).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from api import names
from api.constants import (
    ANNOTATION_PLAIN_NAME,
    COMPOSITE_POD_GROUP,
    JOBSET,
    JOBSET_LABEL_JOB_INDEX,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    POD_GROUP,
)
from api.integration.common.objects import (
    as_root,
    group_object,
    in_slices,
    priority_of,
    template,
    workload_object,
)
from api.integration.common.options import ALL, COMPOSITE, Options
from api.integration.common.shared_claims import templates_of
from api.integration.jobset.view import (
    NO_GROUP,
    SCOPE_JOB,
    SCOPE_JOBSET,
    GroupScope,
    JobSetView,
    ReplicatedJob,
)
from api.ownership import Owner
from api.reading import text

Json = dict[str, Any]


def jobset_objects(view: JobSetView, workload: str | None = None) -> list[Json]:
    """Return Workload, composites from the root down, PodGroups; none without annotated pods."""
    # Skip a replicatedJob without pods: the others would wait for it forever.
    jobs = [job for job in view.annotated if not job.is_empty]
    if not jobs:
        return []
    owner = Owner(JOBSET, view.namespace, view.name, view.uid)
    workload = workload or names.workload_name(JOBSET.kind, view.name)
    if view.options.mode == COMPOSITE:
        made = _composite_objects(owner, workload, view, jobs)
    elif view.options.asks:
        made = _wide_objects(owner, workload, view, jobs)
    else:
        made = _separate_objects(owner, workload, view, jobs)
    if view.noted.form == names.JOINED:
        _note_plain_names(view, jobs, made)
    return made


def _note_plain_names(view: JobSetView, jobs: list[ReplicatedJob], made: list[Json]) -> None:
    # During an upgrade, a webhook of 0.2 may admit the Jobs of a JobSet that this version admitted.
    usual = replace(view, noted=NO_GROUP)
    plain: dict[str, str] = {}
    for job in jobs:
        same = replace(job, noted=GroupScope(job.group_scope))
        plain |= zip(pod_group_names(view, job), pod_group_names(usual, same), strict=True)
    for obj in made:
        name = obj["metadata"]["name"]
        if obj["kind"] == POD_GROUP.kind and plain[name] != name:
            obj["metadata"]["annotations"][ANNOTATION_PLAIN_NAME] = plain[name]


def pod_group_names(view: JobSetView, job: ReplicatedJob) -> list[str]:
    """Return the names of the PodGroups of one replicatedJob."""
    if job.group_scope == SCOPE_JOB:
        return [pod_group_name(view, job, index) for index in job.indexes]
    return [pod_group_name(view, job, 0)]


def pod_group_name(view: JobSetView, job: ReplicatedJob, index: int) -> str:
    """Return the PodGroup of the replicatedJob's Job of this index."""
    scope = view.noted._replace(scope=job.group_scope)
    return named_group(view.namespace, view.name, scope, job.name, index)


def named_group(
    namespace: str, jobset: str, scope: GroupScope, replicated_job: str, index: int | None
) -> str:
    """Return the PodGroup of this scope of a JobSet, a replicatedJob, or its Job of the index."""
    made = partial(names.jobset_pod_group, namespace, jobset, form=scope.form)
    if scope.scope == SCOPE_JOBSET:
        return made()
    return made(replicated_job, index if scope.scope == SCOPE_JOB else None)


def group_names(view: JobSetView) -> list[tuple[str, str]]:
    """Return kind and name of every group that a new JobSet requests."""
    leaves = [(POD_GROUP.kind, name) for job in view.wanted for name in pod_group_names(view, job)]
    if view.options.mode != COMPOSITE or not leaves:
        return leaves
    above = ["", *(job.name for job in view.wanted)]
    made = [
        names.jobset_composite(view.namespace, view.name, job, view.noted.form) for job in above
    ]
    return [*((COMPOSITE_POD_GROUP.kind, name) for name in made), *leaves]


def has_plain_names(view: JobSetView) -> bool:
    """Return True if the usual names of a new JobSet's groups are those of no other object."""
    if view.options.mode == COMPOSITE:
        return not view.wanted
    return all(
        names.is_plain(view.name)
        if job.scope == SCOPE_JOBSET
        else names.is_plain(view.name, job.name, "0" if job.scope == SCOPE_JOB else "")
        for job in view.wanted
    )


def jobset_labels(labels: Mapping[str, Any]) -> tuple[str, str, int | None]:
    """Return JobSet, replicatedJob and Job index, from the labels of a JobSet's Job."""
    index = text(labels.get(JOBSET_LABEL_JOB_INDEX))
    return (
        text(labels.get(JOBSET_LABEL_NAME)),
        text(labels.get(JOBSET_LABEL_REPLICATED_JOB)),
        int(index) if index.isascii() and index.isdigit() else None,
    )


def _wide_objects(
    owner: Owner, workload: str, view: JobSetView, jobs: list[ReplicatedJob]
) -> list[Json]:
    """Return one PodGroup for the complete JobSet, with its Workload."""
    made_from = template(
        names.template_name("pg", view.name, view.namespace),
        view.options,
        sum(job.replicas * job.members for job in jobs),
        priority_of(*(job.pod_spec for job in jobs)),
        claims=templates_of(job.pod_spec for job in jobs),
    )
    name = pod_group_name(view, jobs[0], 0)
    return [
        workload_object(owner, workload, {"podGroupTemplates": [made_from]}),
        in_slices(
            as_root(group_object(POD_GROUP, owner, name, workload, made_from), view.options),
            view.options,
            indexes_of_jobs(jobs),
        ),
    ]


def _separate_objects(
    owner: Owner, workload: str, view: JobSetView, jobs: list[ReplicatedJob]
) -> list[Json]:
    """Return a PodGroup for each replicatedJob, or for each of its Jobs, with their Workload."""
    templates: list[Json] = []
    groups: list[Json] = []
    # One Workload has one priority. If those of the trees differ, only the groups state theirs.
    shared = priority_of(*(job.pod_spec for job in jobs))
    for job in jobs:
        members = job.members if job.group_scope == SCOPE_JOB else job.replicas * job.members
        made_from = _leaf(view, job, members, shared)
        templates.append(made_from)
        own = made_from | priority_of(job.pod_spec)
        groups += [
            in_slices(
                as_root(group_object(POD_GROUP, owner, name, workload, own), job.options),
                job.options,
                0 if job.group_scope == SCOPE_JOB else job.indexes_of_job,
            )
            for name in pod_group_names(view, job)
        ]
    return [workload_object(owner, workload, {"podGroupTemplates": templates}), *groups]


def _composite_objects(
    owner: Owner, workload: str, view: JobSetView, jobs: list[ReplicatedJob]
) -> list[Json]:
    """Return a composite for the JobSet and for each replicatedJob, and a PodGroup for each Job."""
    priority = priority_of(*(job.pod_spec for job in jobs))
    root = template(
        _root_template_name(view, jobs), view.options, len(jobs), priority, composite=True
    )
    composite = partial(names.jobset_composite, view.namespace, view.name, form=view.noted.form)
    root_name = composite()
    children: list[Json] = []
    made = group_object(COMPOSITE_POD_GROUP, owner, root_name, workload, root)
    composites = [as_root(made, view.options)]
    leaves: list[Json] = []
    for job in jobs:
        outer = _inherited(job.composite_options, view.options)
        name = names.template_name("cpg", job.name, view.namespace)
        child = template(name, outer, job.replicas, priority, composite=True)
        leaf = _leaf(view, job, job.members, priority, above=outer)
        children.append(child | {"podGroupTemplates": [leaf]})
        parent = composite(job.name)
        composites.append(
            group_object(COMPOSITE_POD_GROUP, owner, parent, workload, child, parent=root_name)
        )
        leaves += [
            in_slices(
                group_object(POD_GROUP, owner, group, workload, leaf, parent=parent), job.options
            )
            for group in pod_group_names(view, job)
        ]
    templates = {"compositePodGroupTemplates": [root | {"compositePodGroupTemplates": children}]}
    return [workload_object(owner, workload, templates), *composites, *leaves]


def indexes_of_jobs(jobs: list[ReplicatedJob]) -> int:
    """Return how many indexes each Job of the replicatedJobs has; 0 if they differ."""
    counts = {job.indexes_of_job for job in jobs}
    return counts.pop() if len(counts) == 1 else 0


def _leaf(
    view: JobSetView, job: ReplicatedJob, members: int, priority: Json, above: Options | None = None
) -> Json:
    options = _inherited(job.options, above) if above else job.options
    name = names.template_name("pg", job.name, view.namespace)
    return template(name, options, members, priority, claims=templates_of([job.pod_spec]))


def _root_template_name(view: JobSetView, jobs: list[ReplicatedJob]) -> str:
    name = names.template_name("cpg", view.name, view.namespace)
    # Template names are unique in a tree, and a replicatedJob with the JobSet's name has this one.
    if any(job.name == view.name for job in jobs):
        return names.hashed(name, "Template", view.namespace)
    return name


def _inherited(options: Options, above: Options) -> Options:
    """Return the options, with mode All from above if they have no disruption mode."""
    if options.disruption or above.disruption != ALL:
        return options
    return replace(options, disruption=ALL)
