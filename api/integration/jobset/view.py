"""A JobSet in the form that the integration uses: options of each level, and pod counts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from api import causes, groups
from api.causes import Cause
from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_SCOPE,
    JOB_CONTROLLER,
    JOBSET_CONTROLLER,
    MAX_JOBS,
    MAX_REPLICATED_JOBS,
)
from api.integration.common.managed_by import other_controller
from api.integration.common.options import (
    BASIC,
    COMPOSITE,
    GANG,
    JOBSET_MODES,
    OFF,
    REPLICATED_GANG,
    REPLICATED_JOB_MODES,
    Options,
    read_options,
    read_outer_options,
)
from api.integration.jobset.exclusive_topology import exclusive_path
from api.names import HASHED, JOINED, UNIQUE, is_dns_label, request_digits
from api.reading import annotations_of, count, dig, integer, listing, mapping, mappings, text

# The scope of a group: the pods that it contains. The annotation on each Job template states it, so
# that a Job's group can be computed from the Job alone.
SCOPE_JOBSET: Final = "JobSet"
SCOPE_REPLICATED_JOB: Final = "ReplicatedJob"
SCOPE_JOB: Final = "Job"
_NATIVE: Final = "Native="

JOBS_TEXT: Final = (
    f"the JobSet has {{}} Jobs with gang-mode, and must have at most {MAX_JOBS}: lower replicas, "
    "use more pods in each Job, or use several JobSets"
)


class GroupScope(NamedTuple):
    """The annotation of a Job template: the scope of its pods' group, and the form of its name.

    The form is empty for the usual names, HASHED, JOINED or UNIQUE (`api.names`), or `Native=` with
    the digits in the names of native groups.
    """

    scope: str = ""
    form: str = ""

    @property
    def is_native(self) -> bool:
        """True if the groups are Kubernetes' own."""
        return self.form.startswith(_NATIVE)

    def annotation(self) -> str:
        """Return the annotation's value, empty without a scope."""
        return f"{self.scope}/{self.form}" if self.scope and self.form else self.scope


def native_names(request_uid: str) -> str:
    """Return the form of names that no other JobSet's native groups have."""
    return f"{_NATIVE}{request_digits(request_uid)}"


def read_scope(text: str) -> GroupScope:
    """Parse the annotation of a Job template."""
    scope, _, form = text.partition("/")
    native = form.startswith(_NATIVE) and is_dns_label(form.removeprefix(_NATIVE))
    return GroupScope(scope, form if native or form in {HASHED, JOINED, UNIQUE} else "")


NO_GROUP: Final = GroupScope()


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """An entry of `spec.replicatedJobs`; `members` is the number of pods of one of its Jobs.

    `indexes` are those of its Jobs, up to `MAX_JOBS` in the JobSet: code that visits Jobs one by
    one must use these. `depends_on` are the names of those it starts after, and
    `depends_on_complete` those that have ended by then. `is_grouped` is True if its pod template
    names a user's group. `exclusive` is the path of the annotation that delays pods of its Jobs
    until the first one has a node.
    """

    name: str
    path: str
    replicas: int
    indexes: range
    parallelism: int
    completions: int | None
    members: int
    options: Options
    outer: Options
    pod_template: Mapping[str, Any]
    depends_on: tuple[str, ...]
    noted: GroupScope
    scope: str
    managed_by: str = ""
    is_grouped: bool = False
    depends_on_complete: tuple[str, ...] = ()
    exclusive: str = ""

    @property
    def is_empty(self) -> bool:
        """True if it has no pods, so that nothing can wait for them."""
        return not (self.replicas and self.members)

    @property
    def indexes_of_job(self) -> int:
        """Number of completion indexes of each of its Jobs."""
        return self.parallelism if self.completions is None else self.completions

    @property
    def group_scope(self) -> str:
        """Scope of its pods' group: the annotation if set, else the requested one."""
        return self.noted.scope or self.scope

    @property
    def composite_options(self) -> Options:
        """The options of its composite in a tree: that of basic groups is basic, too."""
        return replace(self.outer, mode=self.options.mode)

    @property
    def pod_spec_path(self) -> str:
        """Path of the pod template's spec."""
        return f"{self.path}.template.spec.template.spec"

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """Spec of the pod template."""
        return mapping(self.pod_template.get("spec"))


@dataclass(frozen=True, slots=True)
class JobSetView:
    """The options of one JobSet, with invalid values in `faults`.

    `managed_by` is a controller other than JobSet's own, which then creates no Jobs for it.
    `noted` states the form of the names of its groups. `oversize` is the fault of a JobSet with
    groups that has too many replicatedJobs or Jobs.
    """

    name: str
    namespace: str
    uid: str
    options: Options
    replicated_jobs: tuple[ReplicatedJob, ...]
    in_order: bool
    faults: tuple[Cause, ...]
    managed_by: str = ""
    noted: GroupScope = NO_GROUP
    oversize: Cause | None = None

    @property
    def native(self) -> bool:
        """True if its groups are Kubernetes' own."""
        return self.noted.is_native

    @property
    def wanted(self) -> list[ReplicatedJob]:
        """The replicatedJobs whose pods belong in a group, by the options of the JobSet."""
        return [] if self.managed_by else [job for job in self.replicated_jobs if job.scope]

    @property
    def annotated(self) -> list[ReplicatedJob]:
        """The replicatedJobs whose pods are in a group, by the annotations set at creation."""
        if self.managed_by:
            return []
        return [job for job in self.replicated_jobs if job.noted.scope and not job.managed_by]


def read_jobset(jobset: Mapping[str, Any]) -> JobSetView:
    """Parse a JobSet (raw JSON of any structure).

    It has no replicatedJobs in the result if there are more than `MAX_REPLICATED_JOBS`.
    """
    faults: list[Cause] = []
    spec = mapping(jobset.get("spec"))
    options = read_options(jobset, "", JOBSET_MODES, faults, field=(spec, "spec"))
    order = text(dig(spec, "startupPolicy", "startupPolicyOrder"))
    items, jobs = listing(spec.get("replicatedJobs")), list[ReplicatedJob]()
    left = MAX_JOBS
    # Reading thousands of replicatedJobs takes seconds. In this time the webhook is blocked.
    for at, item in enumerate(items if len(items) <= MAX_REPLICATED_JOBS else ()):
        path = f"spec.replicatedJobs[{at}]"
        job = _read_replicated_job(
            jobset, mapping(item), path, above=options, faults=faults, left=left
        )
        # The bound covers the complete JobSet: `replicas` of one entry may be in the millions.
        left -= len(job.indexes) if job.group_scope else 0
        jobs.append(job)
    return JobSetView(
        name=text(dig(jobset, "metadata", "name")),
        namespace=text(dig(jobset, "metadata", "namespace")),
        uid=text(dig(jobset, "metadata", "uid")),
        options=options,
        replicated_jobs=tuple(jobs),
        in_order=order == "InOrder",
        faults=tuple(faults),
        managed_by=other_controller(spec, JOBSET_CONTROLLER),
        # All of its groups are named in one form.
        noted=next((job.noted for job in jobs if job.noted.form), NO_GROUP),
        oversize=_oversize(options, items, jobs),
    )


def members_of(job_spec: Mapping[str, Any]) -> int:
    """Return the pods that a Job runs at once: its parallelism, or fewer completions."""
    members, completions = parallelism_of(job_spec), integer(job_spec.get("completions"))
    return max(0, members if completions is None else min(members, completions))


def parallelism_of(job_spec: Mapping[str, Any]) -> int:
    """Return `spec.parallelism`, 1 if it is unset."""
    parallelism = integer(job_spec.get("parallelism"))
    return 1 if parallelism is None else parallelism


def _oversize(options: Options, items: list[Any], jobs: list[ReplicatedJob]) -> Cause | None:
    if len(items) > MAX_REPLICATED_JOBS:
        if not (options.asks or any(map(_asks, items))):
            return None
        return causes.too_many("spec.replicatedJobs", len(items), MAX_REPLICATED_JOBS)
    grouped = [job for job in jobs if job.scope]
    total = sum(job.replicas for job in grouped)
    if total <= MAX_JOBS:
        return None
    largest = max(grouped, key=lambda job: job.replicas)
    return causes.invalid(f"{largest.path}.replicas", largest.replicas, JOBS_TEXT.format(total))


def _asks(job: Any) -> bool:
    """Return True if a replicatedJob requests groups."""
    noted = annotations_of(dig(job, "template")).get(ANNOTATION_GANG_MODE)
    return (noted or dig(job, "gangConfig", "gangMode") or OFF) != OFF


def _read_replicated_job(
    jobset: Mapping[str, Any],
    job: Mapping[str, Any],
    path: str,
    *,
    above: Options,
    faults: list[Cause],
    left: int,
) -> ReplicatedJob:
    template = mapping(job.get("template"))
    job_spec = mapping(template.get("spec"))
    pod_template = mapping(job_spec.get("template"))
    replicas = count(job.get("replicas"), 1)
    holder = f"{path}.template"
    options = read_options(template, holder, REPLICATED_JOB_MODES, faults, field=(job, path))
    grouped = bool(groups.groups_of_object(pod_template, ours=True))
    managed_by = other_controller(job_spec, JOB_CONTROLLER)
    noted = read_scope(text(annotations_of(template).get(ANNOTATION_GROUP_SCOPE)))
    dependencies = mappings(job, "dependsOn")
    return ReplicatedJob(
        name=text(job.get("name")),
        path=path,
        replicas=replicas,
        indexes=range(min(replicas, left)),
        parallelism=parallelism_of(job_spec),
        completions=integer(job_spec.get("completions")),
        members=members_of(job_spec),
        options=options,
        outer=read_outer_options(template, holder, faults),
        pod_template=pod_template,
        depends_on=tuple(text(it.get("name")) for it in dependencies),
        noted=noted,
        scope="" if grouped or managed_by else _scope(above.mode, options.mode),
        managed_by=managed_by,
        is_grouped=grouped,
        depends_on_complete=tuple(
            text(it.get("name")) for it in dependencies if it.get("status") == "Complete"
        ),
        exclusive=exclusive_path(jobset, template, pod_template, holder),
    )


def _scope(jobset_mode: str, mode: str) -> str:
    """Return the scope of the group of a replicatedJob's pods, empty for none."""
    if jobset_mode in {GANG, BASIC, COMPOSITE}:
        wide = SCOPE_JOB if jobset_mode == COMPOSITE else SCOPE_JOBSET
        # A replicatedJob with mode Off does not belong to the JobSet's group.
        return "" if mode == OFF else wide
    return {
        GANG: SCOPE_REPLICATED_JOB,
        BASIC: SCOPE_REPLICATED_JOB,
        REPLICATED_GANG: SCOPE_JOB,
    }.get(mode, "")
