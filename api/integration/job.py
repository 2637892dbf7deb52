"""Job: how admission names its group in the pod template, and the objects a Job gets.

The group is written twice, as the label on the pod template and as the annotation `managed-group`
on the Job. Muster creates the group only where both agree; a pod template that names a group of the
user's is not changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api import causes, groups, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT_BASIS,
    DEFAULT_SCHEDULER_NAME,
    JOB,
    JOBSET_LABEL_NAME,
    LABEL_POD_GROUP,
    POD_GROUP,
    SCHEDULER_NAME,
)
from api.integration import jobset_rules, objects
from api.integration.admission import (
    Admission,
    Operation,
    Taken,
    drop_entry,
    no_name_taken,
    set_entry,
)
from api.integration.delegation import Delegation, read_delegation
from api.integration.jobset import group_of_jobset_job
from api.integration.options import JOB_MODES, Options, annotation_path, read_options
from api.integration.view import members_of
from api.reading import annotations_of, dig, integer, labels_of, mapping, text

_TEMPLATE = "/spec/template"
_POD_SPEC = "spec.template.spec"

DELEGATED_TEXT = f"leave this out: {ANNOTATION_GROUP_TEMPLATE} says what the group is"


@dataclass(frozen=True, slots=True)
class JobView:
    """What one Job asks for; `managed` is the group that label and annotation agree on."""

    name: str
    namespace: str
    uid: str
    options: Options
    spec: Mapping[str, Any]
    from_jobset: bool
    managed: str
    names_other_group: bool
    delegation: Delegation | None
    faults: tuple[Cause, ...]

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """The pod template's spec."""
        return mapping(dig(self.spec, "template", "spec"))

    @property
    def asks(self) -> bool:
        """Whether the Job itself (not its JobSet) asks for a group that Muster is to make."""
        return self.options.asks and not self.from_jobset and not self.names_other_group


def read_job(job: Mapping[str, Any]) -> JobView:
    """Reads a Job (raw JSON of any structure)."""
    faults: list[Cause] = []
    spec = mapping(job.get("spec"))
    annotations, labels = annotations_of(job), labels_of(job)
    from_jobset = bool(labels.get(JOBSET_LABEL_NAME))
    pod_template = mapping(spec.get("template"))
    named = {reference.name for reference in groups.groups_of_object(pod_template)}
    managed = text(annotations.get(ANNOTATION_MANAGED_GROUP))
    agreed = managed if managed and labels_of(pod_template).get(LABEL_POD_GROUP) == managed else ""
    options = Options() if from_jobset else read_options(job, "", JOB_MODES, faults)
    delegation = read_delegation(job, faults)
    if delegation is not None and options.asks:
        faults.append(causes.forbidden(options.mode_path, DELEGATED_TEXT))
    return JobView(
        name=text(dig(job, "metadata", "name")),
        namespace=text(dig(job, "metadata", "namespace")),
        uid=text(dig(job, "metadata", "uid")),
        options=options,
        spec=spec,
        from_jobset=from_jobset,
        managed=agreed,
        names_other_group=bool(named - {agreed}),
        delegation=delegation,
        faults=tuple(faults),
    )


def job_admission(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    operation: str,
    *,
    request_uid: str = "",
    namespace: str = "",
    taken: Taken = no_name_taken,
) -> Admission:
    """Validates a Job and names its group (raw JSON of any structure).

    `request_uid` and `namespace` are those of the admission request: a Job made with generateName
    has no name yet, and an object may leave its namespace to the URL. A usual name that is `taken`
    is avoided. On UPDATE the marks of the old object are applied again, whatever the new one says.
    """
    if operation == "CREATE" or old is None:
        return _creation(new, request_uid, namespace, taken)
    if operation != "UPDATE":
        return Admission()
    return _update(new, old)


def job_groups(
    job: Mapping[str, Any], *, workload: str | None = None, succeeded: int = 0
) -> list[dict[str, Any]]:
    """Workload and PodGroup of a Job, in this order; empty unless it has a group of ours.

    `succeeded` is the Job's `status.succeeded`: fewer members are left to come. `workload` is the
    Workload's name where the usual one was taken.
    """
    view = read_job(job)
    if not view.managed or not view.asks:
        return []
    owner = objects.Owner(JOB, view.namespace, view.name, view.uid)
    name = workload or names.workload_name(JOB.kind, view.name, view.namespace)
    made_from = objects.template(
        names.template_name("pg-job", view.name, view.namespace),
        view.options,
        members_of(view.spec),
        objects.priority_of(view.pod_spec),
    )
    group = objects.group_object(POD_GROUP, owner, view.managed, name, made_from)
    if "gang" in group["spec"]["schedulingPolicy"]:
        group["spec"]["schedulingPolicy"] = {"gang": {"minCount": minimum_of(view, succeeded)}}
        group["metadata"]["annotations"][ANNOTATION_MIN_COUNT_BASIS] = minimum_basis(view)
    return [
        objects.workload_object(owner, name, {"podGroupTemplates": [made_from]}),
        group,
    ]


def minimum_of(view: JobView, succeeded: int = 0) -> int:
    """The minCount of a Job's gang: min(parallelism, completions - succeeded), at least 1.

    An explicit min-count is kept as long as the Job can still have so many members.
    """
    completions = integer(view.spec.get("completions"))
    members = parallelism_of(view)
    if completions is not None:
        members = min(members, completions - succeeded)
    if view.options.min_count is not None:
        members = min(members, view.options.min_count)
    return max(1, members)


def minimum_basis(view: JobView) -> str:
    """What a minCount was computed from, noted on the PodGroup.

    It is recomputed only when this changes: a Job near its end needs no write for every pod that
    succeeds, as succeeded pods count for minCount.
    """
    basis = f"parallelism={parallelism_of(view)}"
    count = view.options.min_count
    return basis if count is None else f"{basis},min-count={count}"


def parallelism_of(view: JobView) -> int:
    """`spec.parallelism`, 1 when unset."""
    parallelism = integer(view.spec.get("parallelism"))
    return 1 if parallelism is None else parallelism


def _creation(job: Mapping[str, Any], request_uid: str, namespace: str, taken: Taken) -> Admission:
    view = read_job(job)
    namespace = view.namespace or namespace
    group = _wanted_group(job, view, request_uid, namespace, taken)
    if group is None:
        return Admission(_unmark(job), _faults(view), _warnings(view))
    return Admission(_mark(job, group), _faults(view), _warnings(view))


def _wanted_group(
    job: Mapping[str, Any], view: JobView, request_uid: str, namespace: str, taken: Taken
) -> str | None:
    """The group of a new Job; a mark it already carries was copied from another Job."""
    if view.names_other_group:
        return None
    if view.from_jobset:
        named = group_of_jobset_job(namespace, job)
        if named is not None:
            return named
    if not view.options.asks and view.delegation is None:
        return None
    prefix = text(dig(job, "metadata", "generateName"))
    if prefix:
        # Validation runs after the name is generated, and must find what mutation wrote.
        kept = view.managed if view.name else ""
        return kept or names.generated_job_pod_group(prefix, request_uid)
    usual = names.job_pod_group(namespace, view.name)
    if not taken(POD_GROUP.kind, usual):
        return usual
    return names.job_pod_group(namespace, view.name, taken=True)


def _update(new: Mapping[str, Any], old: Mapping[str, Any]) -> Admission:
    before, after = read_job(old), read_job(new)
    patch = _mark(new, before.managed) if before.managed else []
    found = list(jobset_rules.frozen(after.options, before.options))
    if before.managed and after.delegation != before.delegation:
        found.append(causes.immutable(annotation_path("", ANNOTATION_GROUP_TEMPLATE), None))
    had = {*before.faults, *_minimum_faults(before)}
    if after.options.min_count != before.options.min_count:
        found += [fault for fault in _minimum_faults(after) if fault not in had]
    found += [fault for fault in after.faults if fault not in had]
    return Admission(patch, list(dict.fromkeys(found)), [])


def _mark(job: Mapping[str, Any], group: str) -> list[Operation]:
    template = dig(job, "spec", "template")
    return [
        *set_entry(job, "", "annotations", ANNOTATION_MANAGED_GROUP, group),
        *set_entry(template, _TEMPLATE, "labels", LABEL_POD_GROUP, group),
        *_scheduler(template),
    ]


def _scheduler(template: Any) -> list[Operation]:
    spec = mapping(template).get("spec")
    if not isinstance(spec, Mapping):
        return []
    if spec.get("schedulerName") not in {None, "", DEFAULT_SCHEDULER_NAME}:
        return []
    return [{"op": "add", "path": f"{_TEMPLATE}/spec/schedulerName", "value": SCHEDULER_NAME}]


def _unmark(job: Mapping[str, Any]) -> list[Operation]:
    return drop_entry(job, "", "annotations", ANNOTATION_MANAGED_GROUP)


def _faults(view: JobView) -> list[Cause]:
    found = [*view.faults, *_minimum_faults(view)]
    if view.asks:
        found += jobset_rules.check_scheduler(view.pod_spec, _POD_SPEC)
    return found


def _minimum_faults(view: JobView) -> Iterator[Cause]:
    if view.asks:
        yield from jobset_rules.check_minimum(view.options, max(1, members_of(view.spec)), "pods")


def _warnings(view: JobView) -> list[str]:
    if view.options.asks and view.names_other_group:
        return ["the pod template already names a group: gang-mode has no effect"]
    return []
