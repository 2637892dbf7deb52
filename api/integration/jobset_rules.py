"""What a JobSet may ask for: bounds, exclusions, order, priority; and what may change later."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    DEFAULT_SCHEDULER_NAME,
    MAX_TEMPLATES,
    SCHEDULER_NAME,
)
from api.integration.objects import pod_group_names
from api.integration.options import ALL, BASIC, COMPOSITE, GANG, SINGLE, Options
from api.integration.view import (
    SCOPE_JOB,
    SCOPE_JOBSET,
    SCOPE_REPLICATED_JOB,
    JobSetView,
    ReplicatedJob,
    read_jobset,
)
from api.reading import text

ORDER_TEXT: Final = (
    "a gang of the whole JobSet would wait for pods that this order creates later; "
    "use gang-mode on the replicatedJobs instead"
)
SCHEDULER_TEXT: Final = f"the pods of a group need {SCHEDULER_NAME}: leave schedulerName out"


def faults(view: JobSetView) -> list[Cause]:
    """Everything wrong with a new JobSet."""
    return [
        *view.faults,
        *_exclusion(view),
        *_order(view),
        *_template_count(view),
        *_minimums(view),
        *_disruption(view),
        *_priority(view),
        *_schedulers(view.wanted),
        *_name_clashes(view),
    ]


def changes(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Immutable fields that an update of a JobSet changes, and new faults in the mutable ones."""
    after, before = read_jobset(new), read_jobset(old)
    found = list(frozen(after.options, before.options))
    known = {job.name: job for job in before.replicated_jobs}
    for job in after.replicated_jobs:
        if job.name in known:
            found += frozen(job.options, known[job.name].options)
            found += frozen(job.outer, known[job.name].outer)
    had = {*before.faults, *_minimums(before)}
    found += [fault for fault in (*after.faults, *_minimums(after)) if fault not in had]
    return list(dict.fromkeys(found))


def warnings(view: JobSetView) -> list[str]:
    """Options that are set where they have no effect."""
    mode = view.options.mode
    found = [] if view.options.asks else list(_unused(view.options))
    for job in view.replicated_jobs:
        if mode != COMPOSITE:
            found += _unused(job.outer)
        if not job.scope or job.scope == SCOPE_JOBSET:
            found += _unused(job.options)
    return found


def check_minimum(options: Options, limit: int, members: str) -> Iterator[Cause]:
    """The bounds of one `min-count`: 1 to the number of members, where the mode has one."""
    if options.min_count is None:
        return
    path = options.at(ANNOTATION_MIN_COUNT)
    if options.mode == BASIC:
        yield causes.forbidden(path, "a Basic group has no minCount; use Gang or leave this out")
    elif options.min_count > limit:
        yield causes.invalid(path, str(options.min_count), f"must be 1 to {limit}, its {members}")


def check_scheduler(pod_spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """A pod template that asks for a third scheduler cannot be in a group."""
    name = text(pod_spec.get("schedulerName"))
    if name not in {"", DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME}:
        yield causes.invalid(f"{path}.schedulerName", name, SCHEDULER_TEXT)


def frozen(new: Options, old: Options) -> Iterator[Cause]:
    """The causes for changed options that are immutable: all but `min-count`."""
    if new.mode != old.mode:
        yield causes.immutable(new.mode_path if new.mode else old.mode_path, new.mode or None)
    if (new.topology, new.preferred) != (old.topology, old.preferred):
        said = new if new.topology else old
        key = ANNOTATION_PREFERRED_TOPOLOGY if said.preferred else ANNOTATION_TOPOLOGY
        yield causes.immutable(new.at(key), new.topology or None)
    if new.disruption != old.disruption:
        yield causes.immutable(new.at(ANNOTATION_DISRUPTION_MODE), new.disruption or None)


def _exclusion(view: JobSetView) -> Iterator[Cause]:
    if not view.options.asks:
        return
    for job in view.replicated_jobs:
        if job.options.asks:
            yield causes.forbidden(
                job.options.mode_path,
                f"may not be set beside {view.options.mode_path}, except to Off: "
                "choose the gang of the JobSet or those of its replicatedJobs",
            )


def _order(view: JobSetView) -> Iterator[Cause]:
    members = {job.name for job in view.wanted}
    if view.options.mode not in {GANG, COMPOSITE} or len(members) < 2:
        return
    if view.in_order:
        yield causes.invalid("spec.startupPolicy.startupPolicyOrder", "InOrder", ORDER_TEXT)
    for job in view.wanted:
        if members.intersection(job.depends_on):
            yield causes.invalid(f"{job.path}.dependsOn", list(job.depends_on), ORDER_TEXT)


def _template_count(view: JobSetView) -> Iterator[Cause]:
    count = sum(job.scope != SCOPE_JOBSET for job in view.wanted)
    if count > MAX_TEMPLATES:
        yield causes.too_many("spec.replicatedJobs", count, MAX_TEMPLATES)


def _minimums(view: JobSetView) -> Iterator[Cause]:
    if not view.wanted:
        return
    if view.options.mode == COMPOSITE:
        yield from check_minimum(view.options, len(view.wanted), "replicatedJobs")
    elif view.options.asks:
        pods = sum(job.replicas * job.members for job in view.wanted)
        yield from check_minimum(view.options, max(1, pods), "pods")
    for job in view.wanted:
        yield from _job_minimums(job)


def _job_minimums(job: ReplicatedJob) -> Iterator[Cause]:
    if job.scope == SCOPE_JOB:
        yield from check_minimum(job.options, max(1, job.members), "pods of a Job")
        yield from check_minimum(job.outer, max(1, job.replicas), "Jobs")
    elif job.scope == SCOPE_REPLICATED_JOB:
        yield from check_minimum(job.options, max(1, job.replicas * job.members), "pods")


def _disruption(view: JobSetView) -> Iterator[Cause]:
    """Below a level of mode All, Single is not allowed; a level without a mode inherits All."""
    if view.options.mode != COMPOSITE:
        return
    for job in view.wanted:
        levels = (view.options, job.outer, job.options)
        for at, level in enumerate(levels):
            if level.disruption == SINGLE and any(up.disruption == ALL for up in levels[:at]):
                yield causes.invalid(
                    level.at(ANNOTATION_DISRUPTION_MODE),
                    SINGLE,
                    "must be All, or left out, below a level of mode All",
                )


def _priority(view: JobSetView) -> Iterator[Cause]:
    """The pods of one tree share a priority; a group of one replicatedJob is a tree of its own."""
    if not view.options.asks or not view.wanted:
        return
    first = view.wanted[0]
    wanted = text(first.pod_spec.get("priorityClassName"))
    for job in view.wanted[1:]:
        name = text(job.pod_spec.get("priorityClassName"))
        if name != wanted:
            yield causes.invalid(
                f"{job.pod_spec_path}.priorityClassName",
                name,
                f"must be the same as {first.pod_spec_path}.priorityClassName ({wanted or 'unset'})"
                ": the pods of one gang share one priority",
            )


def _schedulers(jobs: Iterable[ReplicatedJob]) -> Iterator[Cause]:
    for job in jobs:
        yield from check_scheduler(job.pod_spec, job.pod_spec_path)


def _name_clashes(view: JobSetView) -> Iterator[Cause]:
    """Groups of different modes may get the same name (`a-1`, and Job 1 of `a`)."""
    if view.options.asks:
        return
    named = {job.path: pod_group_names(view, job) for job in view.wanted}
    counts = Counter(name for names in named.values() for name in names)
    for job in view.wanted:
        clash = next((name for name in named[job.path] if counts[name] > 1), None)
        if clash is not None:
            yield causes.invalid(
                f"{job.path}.name", job.name, f"gives two groups the name {clash}: rename it"
            )


def _unused(options: Options) -> Iterator[str]:
    said = {
        ANNOTATION_MIN_COUNT: options.min_count is not None,
        ANNOTATION_PREFERRED_TOPOLOGY: bool(options.topology) and options.preferred,
        ANNOTATION_TOPOLOGY: bool(options.topology) and not options.preferred,
        ANNOTATION_DISRUPTION_MODE: bool(options.disruption),
    }
    for key, is_said in said.items():
        if is_said:
            yield f"{options.at(key)}: has no effect: no gang-mode makes a group at this level"
