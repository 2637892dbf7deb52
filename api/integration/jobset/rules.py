"""Rules of JobSets: bounds, exclusions, order, priority, and immutable options."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_CONSUMES_REQUEST,
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_SHARED_CLAIMS,
    ANNOTATION_TREE,
    JOB,
    JOBSET,
    MAX_TEMPLATES,
)
from api.integration.common.managed_by import warnings_for
from api.integration.common.options import (
    ALL,
    BASIC,
    COMPOSITE,
    GANG,
    OFF,
    SINGLE,
    Options,
    annotation_path,
)
from api.integration.common.rules import (
    CONSUMES_TEXT,
    GROUPED_TEXT,
    check_minimum,
    check_schedulers,
    check_slices,
    check_tree,
    frozen,
    no_slices,
    one_priority,
    unused,
)
from api.integration.common.shared_claims import Sharer, consumer_faults, entry_faults
from api.integration.jobset import expected
from api.integration.jobset.exclusive_topology import FIRST_POD_TEXT
from api.integration.jobset.view import (
    SCOPE_JOB,
    SCOPE_JOBSET,
    SCOPE_REPLICATED_JOB,
    JobSetView,
    ReplicatedJob,
    read_jobset,
)
from api.integration.pods.references import check_pod_template
from api.reading import annotations_of
from api.scheduler_names import USUAL, SchedulerNames

ORDER_TEXT: Final = (
    "the gang of the JobSet would wait for pods that this order creates later: use gang-mode on "
    "the replicatedJobs instead"
)
NOT_HERE_TEXT: Final = (
    "the JobSet is one owner in a tree: set this annotation, and gang-mode, on the JobSet"
)
COMPOSITE_SLICES_TEXT: Final = (
    "gang-mode Composite creates a PodGroup for each Job: set this annotation on the Job templates"
)
COMPOSITE_CLAIMS_TEXT: Final = (
    "a ResourceClaim belongs to one PodGroup, and gang-mode Composite creates a PodGroup for "
    "each Job: set this annotation on the Job templates"
)


def faults(
    view: JobSetView, schedulers: SchedulerNames = USUAL, *, expects: bool = False
) -> list[Cause]:
    """Return all faults of a new JobSet; with `expects`, groups may wait for later pods."""
    # The other rules visit each replicatedJob and Job, which can take seconds for so many.
    if view.oversize is not None:
        return [*view.faults, view.oversize]
    pod_specs = [(job.pod_spec_path, job.pod_spec) for job in view.wanted]
    return [
        *view.faults,
        *_exclusion(view),
        *_tree(view),
        *(expected.faults(view) if expects else _order(view)),
        *_exclusive_topology(view),
        *_template_count(view),
        *_minimums(view),
        *_disruption(view),
        # The group of one replicatedJob is a tree of its own, and may have its own priority.
        *(one_priority(pod_specs) if view.options.asks else ()),
        *check_schedulers(pod_specs, schedulers, one_gang=view.options.asks),
        *_references(view.replicated_jobs, schedulers),
        *_other_requests(view),
        *_shared_claims(view),
    ]


def changes(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Return causes for changed immutable fields, and for new faults in mutable ones."""
    after, before = read_jobset(new), read_jobset(old)
    if before.managed_by:
        return []
    found = list(frozen(after.options, before.options))
    # By name, as an update may reorder the list.
    known = {job.name: job for job in before.replicated_jobs}
    for job in after.replicated_jobs:
        if job.name in known:
            found += frozen(job.options, known[job.name].options)
            found += frozen(job.outer, known[job.name].outer)
    # Faults that the old object had already must not block an unrelated update.
    had = {*before.faults, *_mutable(before)}
    wrong = (*after.faults, *_mutable(after))
    found += [fault for fault in wrong if fault not in had]
    if after.oversize is not None and before.oversize is None:
        found.append(after.oversize)
    return list(dict.fromkeys(found))


def _mutable(view: JobSetView) -> Iterator[Cause]:
    """Yield the faults in mutable fields."""
    yield from _minimums(view)
    yield from _shared_claims(view)
    yield from _exclusive_topology(view)


def warnings(view: JobSetView) -> list[str]:
    """Return warnings about options that have no effect."""
    mode = view.options.mode
    found = [] if view.options.asks else list(unused(view.options))
    for job in view.replicated_jobs:
        if job.managed_by and (view.options.asks or job.options.asks) and job.options.mode != OFF:
            found += warnings_for(JOB.kind, f"{job.path}.template.spec", job.managed_by, [])
        if mode != COMPOSITE:
            found += unused(job.outer)
        if not job.scope or job.scope == SCOPE_JOBSET:
            found += unused(job.options)
        elif mode == COMPOSITE:
            found += _unused_below_root(job.options)
        if job.is_grouped and job.options.asks:
            found.append(f"{job.options.mode_path}: {GROUPED_TEXT}")
        if job.is_grouped and job.exclusive and job.members > 1:
            found.append(f"{job.exclusive}: {FIRST_POD_TEXT}")
    return found


def unmanaged_warnings(
    view: JobSetView, schedulers: SchedulerNames = USUAL, *, expects: bool = False
) -> list[str]:
    """Return the warnings for a JobSet that another controller runs, which is never rejected."""
    if not (view.options.asks or any(job.options.asks for job in view.replicated_jobs)):
        return []
    wrong = faults(replace(view, managed_by=""), schedulers, expects=expects)
    return warnings_for(JOBSET.kind, "spec", view.managed_by, wrong)


def _exclusion(view: JobSetView) -> Iterator[Cause]:
    if not view.options.asks:
        return
    composite = view.options.mode == COMPOSITE
    allowed = "Off and Basic" if composite else "Off"
    for job in view.replicated_jobs:
        if job.options.asks and not (composite and job.options.mode == BASIC):
            yield causes.forbidden(
                job.options.mode_path,
                f"may not be set together with {view.options.mode_path}, except to {allowed}: use "
                "the gang of the JobSet, or the gangs of its replicatedJobs",
            )


def _tree(view: JobSetView) -> Iterator[Cause]:
    yield from check_tree(view.options)
    for job in view.replicated_jobs:
        if job.options.tree is not None:
            yield causes.forbidden(job.options.at(ANNOTATION_TREE), NOT_HERE_TEXT)


def _order(view: JobSetView) -> Iterator[Cause]:
    members = {job.name for job in view.wanted}
    if view.options.mode not in {GANG, COMPOSITE} or len(members) < 2:
        return
    if view.in_order:
        yield causes.invalid("spec.startupPolicy.startupPolicyOrder", "InOrder", ORDER_TEXT)
    for job in view.wanted:
        if members.intersection(job.depends_on):
            yield causes.invalid(f"{job.path}.dependsOn", list(job.depends_on), ORDER_TEXT)


def _exclusive_topology(view: JobSetView) -> Iterator[Cause]:
    """Yield causes for a gang that needs pods which JobSet creates after others have a node."""
    alone = [job for job in view.wanted if job.scope != SCOPE_JOBSET]
    shared = [job for job in view.wanted if job.scope == SCOPE_JOBSET]
    gangs = [(view.options, shared), *((job.options, [job]) for job in alone)]
    for options, jobs in gangs:
        late = [job for job in jobs if job.exclusive and job.members > 1 and job.replicas]
        pods = sum(_jobs(job) * job.members for job in jobs)
        lacking = sum(_jobs(job) * (job.members - 1) for job in late)
        needed = pods if options.min_count is None else options.min_count
        if options.mode != BASIC and pods - lacking < needed:
            for path in dict.fromkeys(job.exclusive for job in late):
                yield causes.forbidden(path, FIRST_POD_TEXT)


def _jobs(job: ReplicatedJob) -> int:
    """Return the number of Jobs of a replicatedJob in one PodGroup."""
    return 1 if job.scope == SCOPE_JOB else job.replicas


def _template_count(view: JobSetView) -> Iterator[Cause]:
    count = sum(job.scope != SCOPE_JOBSET for job in view.wanted)
    if count > MAX_TEMPLATES:
        yield causes.too_many("spec.replicatedJobs", count, MAX_TEMPLATES)


def _minimums(view: JobSetView) -> Iterator[Cause]:
    if not view.wanted:
        return
    if view.options.mode == COMPOSITE:
        count = sum(not job.is_empty for job in view.wanted)
        yield from check_minimum(view.options, max(1, count), "replicatedJobs with pods")
        yield from no_slices(view.options, COMPOSITE_SLICES_TEXT)
    elif view.options.asks:
        pods = sum(job.replicas * job.members for job in view.wanted)
        yield from check_minimum(view.options, max(1, pods), "pods")
        yield from _slices(view.options, view.wanted, pods)
    for job in view.wanted:
        yield from _job_minimums(job)


def _job_minimums(job: ReplicatedJob) -> Iterator[Cause]:
    if job.scope == SCOPE_JOB:
        yield from check_minimum(job.options, max(1, job.members), "pods of a Job")
        yield from check_slices(job.options, job.members, "pods of a Job")
        yield from check_minimum(job.composite_options, max(1, job.replicas), "Jobs")
    elif job.scope == SCOPE_REPLICATED_JOB:
        yield from check_minimum(job.options, max(1, job.replicas * job.members), "pods")
        yield from _slices(job.options, [job], job.replicas * job.members)


def _slices(options: Options, jobs: list[ReplicatedJob], pods: int) -> Iterator[Cause]:
    """Yield causes for slices of a group with the pods of these replicatedJobs."""
    yield from check_slices(options, pods, "pods")
    # Otherwise a slice would have pods of two Jobs, whose indexes do not follow each other.
    if len({job.indexes_of_job for job in jobs}) > 1:
        for job in jobs:
            yield from check_slices(
                replace(options, min_count=None), job.members, f"pods of each Job of {job.name}"
            )


def _disruption(view: JobSetView) -> Iterator[Cause]:
    """Yield causes for mode Single below mode All, which a level without a mode inherits."""
    if view.options.mode != COMPOSITE:
        return
    for job in view.wanted:
        levels = (view.options, job.outer, job.options)
        for at, level in enumerate(levels):
            if level.disruption == SINGLE and any(up.disruption == ALL for up in levels[:at]):
                yield causes.invalid(
                    level.at(ANNOTATION_DISRUPTION_MODE),
                    SINGLE,
                    "must be All or unset, because a level above has All",
                )


def _references(jobs: Iterable[ReplicatedJob], schedulers: SchedulerNames) -> Iterator[Cause]:
    for job in jobs:
        if not job.managed_by:
            path = job.pod_spec_path.removesuffix(".spec")
            yield from check_pod_template(job.pod_template, path, schedulers)


def _other_requests(view: JobSetView) -> Iterator[Cause]:
    """Yield causes for pods of a root with a request that name another request."""
    for job in view.wanted:
        asked = view.options.request if view.options.asks else job.options.request
        said = annotations_of(job.pod_template).get(ANNOTATION_CONSUMES_REQUEST)
        if asked and said is not None:
            path = annotation_path(
                job.pod_spec_path.removesuffix(".spec"), ANNOTATION_CONSUMES_REQUEST
            )
            yield causes.invalid(path, said, CONSUMES_TEXT)


def _shared_claims(view: JobSetView) -> Iterator[Cause]:
    """Yield causes for the annotation `shared-claims` of the JobSet or of a replicatedJob."""
    if view.options.claims and view.options.mode == COMPOSITE:
        yield causes.forbidden(view.options.at(ANNOTATION_SHARED_CLAIMS), COMPOSITE_CLAIMS_TEXT)
    elif view.options.asks:
        yield from _claim_faults(view.options, view.wanted)
    for job in view.wanted:
        if job.scope != SCOPE_JOBSET:
            yield from _claim_faults(job.options, [job])


def _claim_faults(options: Options, jobs: list[ReplicatedJob]) -> Iterator[Cause]:
    if not jobs:
        return
    path, sharers = options.at(ANNOTATION_SHARED_CLAIMS), []
    for job in jobs:
        pods = job.members if job.scope == SCOPE_JOB else job.replicas * job.members
        sharers.append(Sharer(job.pod_spec_path, job.pod_spec, pods))
    yield from entry_faults(options.claims, path, sharers)
    yield from consumer_faults(options.claims, path, sharers)


def _unused_below_root(options: Options) -> Iterator[str]:
    for key, value in options.of_root.items():
        if value:
            yield f"{options.at(key)}: has no effect: set it on the JobSet, for all its groups"
