"""Admission of Jobs, which names the group in the pod template, and the objects of a Job.

The group's name is in the label of the pod template and in the annotation `managed-group` of the
Job. Muster creates the group only if both agree. A pod template that names a user's group is not
changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from api import causes, groups, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_CLAIM_TEMPLATES,
    ANNOTATION_CONSUMES_REQUEST,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_PROVISIONING_CLASS,
    ANNOTATION_SHARED_CLAIMS,
    JOB,
    JOB_CONTROLLER,
    JOBSET,
    JOBSET_LABEL_NAME,
    LABEL_POD_GROUP,
    POD_GROUP,
)
from api.integration.common import objects
from api.integration.common.autoscalers import (
    Level,
    affinity,
    group_labels,
    kept_affinity,
    kept_annotations,
    missing_annotations,
)
from api.integration.common.managed_by import other_controller, warnings_for
from api.integration.common.minimum import (
    CountedPods,
    GroupJob,
    GroupPodCounts,
    Progress,
    group_pod_counts,
)
from api.integration.common.native import (
    OWN,
    WORKLOAD_TEXT,
    Choice,
    group_in_field,
    name_in_field,
    note_choice,
)
from api.integration.common.options import (
    JOB_MODES,
    REPLICATED_JOB_MODES,
    Options,
    annotation_path,
    read_options,
)
from api.integration.common.owner_kind import Review
from api.integration.common.result import Admission, Operation, drop_entry, set_entries
from api.integration.common.rules import (
    CONSUMES_TEXT,
    GROUPED_TEXT,
    check_minimum,
    check_scheduler,
    check_slices,
    check_tree,
    frozen,
)
from api.integration.common.shared_claims import (
    Sharer,
    consumer_faults,
    entry_faults,
    kept_claims,
    named_claims,
    noted_templates,
    unshared,
)
from api.integration.common.workloads import OwnerName, Workloads
from api.integration.job.delegation import Delegation, read_delegation
from api.integration.jobset.admission import group_of_jobset_job, request_of_jobset_job
from api.integration.jobset.levels import jobset_options, levels_of, levels_of_template
from api.integration.jobset.view import SCOPE_JOBSET, members_of, parallelism_of, read_scope
from api.integration.pods.references import check_pod_template
from api.ownership import Owner
from api.provisioning import class_name, consumed
from api.reading import (
    annotations_of,
    controller_of,
    dig,
    integer,
    labels_of,
    mapping,
    text,
)
from api.scheduler_names import USUAL, SchedulerNames, is_open

_TEMPLATE = "/spec/template"
_OF_REQUEST = (ANNOTATION_CONSUMES_REQUEST, ANNOTATION_PROVISIONING_CLASS)
POD_SPEC = "spec.template.spec"

KEPT_TEXT = (
    "field is immutable, and Muster restored its value: to run the Job without its group, or in "
    "another group, delete and recreate the Job"
)
NO_GROUP_TEXT = "has no effect: no gang-mode creates a group at this level"
NATIVE_TEXT = (
    "has no effect, because {request} puts the pods into a group of Muster: remove one of them"
)
DELEGATED_TEXT = (
    f"may not be set together with annotation {ANNOTATION_GROUP_TEMPLATE}, whose template defines "
    "the group: remove one of them"
)


@dataclass(frozen=True, slots=True)
class JobView:
    """The options of one Job; `managed` is the group on which label and annotation agree.

    `managed_by` is a controller other than Kubernetes' own, which then creates no pods for it.
    `native` is True if `managed` is a PodGroup of Kubernetes' own.
    """

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
    managed_by: str = ""
    native: bool = False
    schedulers: SchedulerNames = USUAL

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """Spec of the pod template."""
        return mapping(dig(self.spec, "template", "spec"))

    @property
    def asks(self) -> bool:
        """True if the Job itself (not its JobSet) requests a group that Muster creates."""
        own = self.options.asks and not self.from_jobset
        return own and not self.names_other_group and not self.managed_by


def read_job(job: Mapping[str, Any], schedulers: SchedulerNames = USUAL) -> JobView:
    """Parse a Job (raw JSON of any structure); `schedulers` are Muster's names."""
    faults: list[Cause] = []
    spec = mapping(job.get("spec"))
    annotations, labels = annotations_of(job), labels_of(job)
    from_jobset = bool(labels.get(JOBSET_LABEL_NAME))
    pod_template = mapping(spec.get("template"))
    # A foreign form on the template counts, too: Muster's pods must not name a second group.
    named = {it.name for it in groups.groups_of_object(pod_template, ours=True)}
    managed = text(annotations.get(ANNOTATION_MANAGED_GROUP))
    agreed = managed if managed and labels_of(pod_template).get(LABEL_POD_GROUP) == managed else ""
    options = Options() if from_jobset else read_options(job, "", JOB_MODES, faults)
    delegation = read_delegation(job, faults, schedulers)
    managed_by = other_controller(spec, JOB_CONTROLLER)
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
        delegation=None if managed_by else delegation,
        faults=tuple(faults),
        managed_by=managed_by,
        native=bool(agreed) and group_in_field(pod_template) == agreed,
        schedulers=schedulers,
    )


def job_admission(job: Mapping[str, Any], review: Review) -> Admission:
    """Validate a Job and name its group (raw JSON of any structure).

    Autoscalers get the group's constraints, which may come from a Workload. `review.native` decides
    whether the group is one of Kubernetes' own. On UPDATE the old object's labels and annotations
    are applied again, whatever the new one has.
    """
    view, old = read_job(job, review.schedulers), review.old
    if review.operation == "CREATE" or old is None:
        return _creation(job, view, review)
    if review.operation != "UPDATE":
        return Admission()
    before = read_job(old, review.schedulers)
    levels = _levels(old, before, review.namespace, review.workloads) if before.managed else []
    return _update(job, old, before, view, levels)


def job_groups(job: Mapping[str, Any], *, workload: str | None = None) -> list[dict[str, Any]]:
    """Return Workload and PodGroup of a Job at its start; none without a group of ours or pods.

    `workload` is the Workload's name if the usual one was taken.
    """
    view = read_job(job)
    size = members_of(view.spec)
    if not (view.managed and view.asks and size):
        return []
    owner = Owner(JOB, view.namespace, view.name, view.uid)
    name = workload or names.workload_name(JOB.kind, view.name)
    made_from = objects.template(
        names.template_name("pg-job", view.name, view.namespace),
        view.options,
        size,
        objects.priority_of(view.pod_spec),
        claims=noted_templates(job),
    )
    group = objects.group_object(POD_GROUP, owner, view.managed, name, made_from)
    return [
        objects.workload_object(owner, name, {"podGroupTemplates": [made_from]}),
        objects.as_root(group, view.options),
    ]


def job_pod_counts(job: Mapping[str, Any], progress: Progress, pods: CountedPods) -> GroupPodCounts:
    """Return the standing of a Job's group with these pods."""
    spec = mapping(job.get("spec"))
    part = GroupJob(parallelism_of(spec), integer(spec.get("completions")), progress, pods)
    return group_pod_counts([part])


def _creation(job: Mapping[str, Any], view: JobView, review: Review) -> Admission:
    # Another controller creates the pods, perhaps in another cluster, where the annotations count.
    if view.managed_by:
        return Admission(_remove_annotations(job, view.managed), [], _unmanaged_warnings(view))
    choice = _choice(job, view, review)
    group = _wanted_group(job, view, review, choice)
    if group is None:
        return Admission(_remove_annotations(job), _faults(view), _warnings(view))
    consumes = _consumed(job, view, group, view.namespace or review.namespace)
    faults = [*_faults(view), *_other_request(view, consumes)]
    patch = _annotate_new(job, view, group, review, consumes)
    copied_from = text(annotations_of(job).get(ANNOTATION_MANAGED_GROUP))
    patch += name_in_field(
        view.spec.get("template"), _TEMPLATE, group if choice.native else "", copied_from
    )
    patch += note_choice(job, OWN if view.from_jobset else choice)
    return Admission(patch, faults, [*_warnings(view), *choice.warnings])


def _choice(job: Mapping[str, Any], view: JobView, review: Review) -> Choice:
    """Return the API of a new Job's group. A JobSet chose for all of its Jobs."""
    if view.from_jobset:
        scope = read_scope(text(annotations_of(job).get(ANNOTATION_GROUP_SCOPE)))
        return Choice(native=scope.is_native)
    # The template of a delegated Job is in a Workload of Muster's.
    if not view.asks:
        return OWN
    named = OwnerName(JOB.group, JOB.kind, view.name)
    lacks = [WORKLOAD_TEXT] if review.workloads.of_user(named) is not None else []
    lacks += review.native.lacking([view.options], [view.pod_spec])
    return review.native.choose(lacks)


def _annotate_new(
    job: Mapping[str, Any],
    view: JobView,
    group: str,
    review: Review,
    consumes: Mapping[str, str],
) -> list[Operation]:
    """Return the operations that name a new Job's group, with the settings for autoscalers."""
    template = dig(job, "spec", "template")
    levels = _levels(job, view, review.namespace, review.workloads)
    said = missing_annotations(template, review.autoscalers.annotations(levels))
    # A Job copied from another one has that Job's request in its pod template, which must not stay.
    copied = _is_copied(annotations_of(template))
    said |= consumes if copied else missing_annotations(template, consumes)
    stale = [key for key in _OF_REQUEST if copied and key not in consumes]
    of_jobset = _jobset_scope(job, view) != ""
    labels = group_labels(template, group)
    terms = review.autoscalers.terms(levels, labels, of_jobset=of_jobset)
    copied_from = text(annotations_of(job).get(ANNOTATION_MANAGED_GROUP))
    claims, note = named_claims(job, _shared_claims(job, view), group, copied_from)
    return [
        *_annotate(job, view, group, said, note=note),
        *([] if note else drop_entry(job, "", "annotations", ANNOTATION_CLAIM_TEMPLATES)),
        *claims,
        *(op for key in stale for op in drop_entry(template, _TEMPLATE, "annotations", key)),
        *affinity(template, _TEMPLATE, terms),
    ]


def _jobset_scope(job: Mapping[str, Any], view: JobView) -> str:
    """Return the scope of the JobSet's group that a Job is in; empty for a group of its own."""
    if not view.from_jobset or group_of_jobset_job(view.namespace, job) is None:
        return ""
    return read_scope(text(annotations_of(job).get(ANNOTATION_GROUP_SCOPE))).scope


def _shared_claims(job: Mapping[str, Any], view: JobView) -> tuple[str, ...]:
    """Return the entries for which the group has one claim, by the annotation of Job or JobSet."""
    if not view.from_jobset:
        return view.options.claims
    if _jobset_scope(job, view) == SCOPE_JOBSET:
        return jobset_options(job).claims
    return read_options(job, "", REPLICATED_JOB_MODES, []).claims


def _levels(
    job: Mapping[str, Any], view: JobView, namespace: str, workloads: Workloads
) -> list[Level]:
    """Return the constraints at each level of the Job's groups.

    They come from its annotations or a user's Workload.
    """
    scope = _jobset_scope(job, view)
    if not scope and view.delegation is not None:
        workload = workloads.of_delegated(_controller(job))
        return levels_of_template(workload, view.delegation.template) if workload else []
    kind = JOBSET if scope else JOB
    name = text(labels_of(job).get(JOBSET_LABEL_NAME)) if scope else view.name
    workload = workloads.of_user(OwnerName(kind.group, kind.kind, name))
    return levels_of(job, scope, view.namespace or namespace, workload)


def _controller(job: Mapping[str, Any]) -> OwnerName:
    """Return the Job's own owner; all fields are empty without one."""
    owner = controller_of(job)
    group = text(owner.get("apiVersion")).rpartition("/")[0]
    return OwnerName(group, text(owner.get("kind")), text(owner.get("name")))


def _wanted_group(
    job: Mapping[str, Any], view: JobView, review: Review, choice: Choice
) -> str | None:
    namespace = view.namespace or review.namespace
    # Do not trust the annotation of a new Job: it may be a copy of another Job.
    if view.names_other_group:
        return None
    if view.from_jobset:
        named = group_of_jobset_job(namespace, job)
        if named is not None:
            return named
    if not view.options.asks and view.delegation is None:
        return None
    prefix = text(dig(job, "metadata", "generateName"))
    if choice.native:
        return names.generated_job_pod_group(view.name or prefix, review.uid)
    if prefix:
        # Validation runs after the name is generated, and must find the name that mutation wrote.
        kept = view.managed if view.name else ""
        return kept or names.generated_job_pod_group(prefix, review.uid)
    usual = names.job_pod_group(namespace, view.name)
    # A group of that name may belong to another owner, and the pods must not join it.
    if not review.taken(POD_GROUP.kind, usual):
        return usual
    return names.job_pod_group(namespace, view.name, taken=True)


def _update(
    new: Mapping[str, Any],
    old: Mapping[str, Any],
    before: JobView,
    after: JobView,
    levels: list[Level],
) -> Admission:
    patch = _restore_annotations(new, after, old, before.managed, levels) if before.managed else []
    kept = _kept(new, before.managed) if before.managed else []
    if before.managed_by:
        return Admission(patch, [], kept)
    found = list(frozen(after.options, before.options))
    if before.managed and after.delegation != before.delegation:
        found.append(causes.immutable(annotation_path("", ANNOTATION_GROUP_TEMPLATE), None))
    # Faults that the old object had already must not block an unrelated update.
    had = {*before.faults, *_minimum_faults(before)}
    fewer = set(_consumer_faults(before))
    found += [fault for fault in _consumer_faults(after) if fault not in fewer]
    resized = after.options.slices and after.spec != before.spec
    if after.options.min_count != before.options.min_count or resized:
        found += [fault for fault in _minimum_faults(after) if fault not in had]
    found += [fault for fault in after.faults if fault not in had]
    return Admission(patch, list(dict.fromkeys(found)), kept)


def _kept(job: Mapping[str, Any], group: str) -> list[str]:
    """Return warnings about values that are restored."""
    label = f"spec.template.metadata.labels[{LABEL_POD_GROUP}]"
    noted, named = annotations_of(job), labels_of(dig(job, "spec", "template"))
    said = {
        annotation_path("", ANNOTATION_MANAGED_GROUP): noted.get(ANNOTATION_MANAGED_GROUP),
        label: named.get(LABEL_POD_GROUP),
    }
    # A manifest from before admission has neither value, so its user tried to change nothing.
    if not any(said.values()):
        return []
    return [f"{path}: {KEPT_TEXT}" for path, value in said.items() if value != group]


def _restore_annotations(
    new: Mapping[str, Any], view: JobView, old: Mapping[str, Any], group: str, levels: list[Level]
) -> list[Operation]:
    """Return the operations that restore the old Job's labels and annotations."""
    # Pod templates are immutable, so the current configuration does not matter.
    template, before = dig(new, "spec", "template"), dig(old, "spec", "template")
    said = kept_annotations(before) if any(level.all_or_none for level in levels) else {}
    said |= _consumed_before(before)
    # A template without the annotation is from an earlier version of Muster.
    noted = ANNOTATION_MANAGED_GROUP in annotations_of(before)
    note = text(annotations_of(old).get(ANNOTATION_CLAIM_TEMPLATES))
    patch = _annotate(
        new, view, group, missing_annotations(template, said), on_pods=noted, note=note
    )
    patch += kept_claims(new, old, group)
    native = group if group_in_field(before) == group else ""
    patch += name_in_field(template, _TEMPLATE, native, "")
    patch += note_choice(new, Choice.of(old))
    terms = kept_affinity(before)
    return [*patch, *affinity(template, _TEMPLATE, terms)] if terms else patch


def _consumed(job: Mapping[str, Any], view: JobView, group: str, namespace: str) -> dict[str, str]:
    """Return the annotations of pods for which a ProvisioningRequest stands; empty for none."""
    # The pods need them at their creation: an autoscaler acts on a pod as soon as it sees it.
    root, asked = group, view.options.request if view.asks else ""
    if view.from_jobset:
        root, asked = request_of_jobset_job(namespace, job, group)
    return consumed(root, asked) if class_name(asked) else {}


def _consumed_before(template: Any) -> dict[str, str]:
    said = annotations_of(template)
    return {key: text(said[key]) for key in _OF_REQUEST if key in said}


def _is_copied(said: Mapping[str, Any]) -> bool:
    """Return True if a pod template's annotations come from the Job that was copied."""
    named = said.get(ANNOTATION_CONSUMES_REQUEST)
    return named is not None and named == said.get(ANNOTATION_MANAGED_GROUP)


def _other_request(view: JobView, consumes: Mapping[str, str]) -> Iterator[Cause]:
    """Yield causes for a pod template that names another request than its root's."""
    said = annotations_of(view.spec.get("template"))
    for key, value in consumes.items():
        if key in said and said[key] != value and not _is_copied(said):
            path = annotation_path("spec.template", key)
            yield causes.invalid(path, said[key], CONSUMES_TEXT)


def _annotate(
    job: Mapping[str, Any],
    view: JobView,
    group: str,
    on_template: Mapping[str, str],
    *,
    on_pods: bool = True,
    note: str = "",
) -> list[Operation]:
    """Return the operations that write the group's name.

    With `on_pods` the pods get the annotation that Muster named their group, too. `on_template` are
    further annotations of the pods, and `note` is the annotation about claims that they share.
    """
    template = dig(job, "spec", "template")
    named = {ANNOTATION_MANAGED_GROUP: group}
    annotations = {**(named if on_pods else {}), **on_template}
    noted = {ANNOTATION_CLAIM_TEMPLATES: note} if note else {}
    return [
        *set_entries(job, "", {"annotations": named | noted}),
        *set_entries(
            template, _TEMPLATE, {"labels": {LABEL_POD_GROUP: group}, "annotations": annotations}
        ),
        *_scheduler(template, view.schedulers.default),
    ]


def _scheduler(template: Any, name: str) -> list[Operation]:
    spec = mapping(template).get("spec")
    if not isinstance(spec, Mapping):
        return []
    if not is_open(spec.get("schedulerName")):
        return []
    return [{"op": "add", "path": f"{_TEMPLATE}/spec/schedulerName", "value": name}]


def _remove_annotations(job: Mapping[str, Any], group: str = "") -> list[Operation]:
    """Return the operations that remove the group's name; with `group` also its label."""
    template = dig(job, "spec", "template")
    # Another webhook may set `managedBy` after Muster's has named the group.
    label = drop_entry(template, _TEMPLATE, "labels", LABEL_POD_GROUP) if group else []
    return [
        *label,
        *drop_entry(job, "", "annotations", ANNOTATION_MANAGED_GROUP),
        *drop_entry(template, _TEMPLATE, "annotations", ANNOTATION_MANAGED_GROUP),
        *unshared(job),
    ]


def _faults(view: JobView) -> list[Cause]:
    template = mapping(view.spec.get("template"))
    references = check_pod_template(template, "spec.template", view.schedulers)
    found = [*view.faults, *check_tree(view.options), *_minimum_faults(view), *references]
    found += [*_claim_faults(view), *_consumer_faults(view)]
    if view.asks:
        found += check_scheduler(view.pod_spec, POD_SPEC, view.schedulers)
    return found


def _minimum_faults(view: JobView) -> Iterator[Cause]:
    if view.asks:
        yield from check_minimum(view.options, max(1, members_of(view.spec)), "pods")
        yield from check_slices(view.options, members_of(view.spec), "pods")
        # Its last pods would be no complete slice, and the Job would never end.
        yield from check_slices(
            view.options, integer(view.spec.get("completions")) or 0, "completions"
        )


def _claim_faults(view: JobView) -> Iterator[Cause]:
    if view.asks or view.delegation is not None:
        path = annotation_path("", ANNOTATION_SHARED_CLAIMS)
        yield from entry_faults(view.options.claims, path, [_sharer(view)], view.managed)


def _consumer_faults(view: JobView) -> Iterator[Cause]:
    if view.asks or view.delegation is not None:
        yield from consumer_faults(view.options.claims, "spec.parallelism", [_sharer(view)])


def _sharer(view: JobView) -> Sharer:
    return Sharer(POD_SPEC, view.pod_spec, members_of(view.spec))


def _unmanaged_warnings(view: JobView) -> list[str]:
    """Return the warnings for a Job that another controller runs."""
    usual = replace(view, managed_by="")
    if not view.options.asks:
        return []
    return warnings_for(JOB.kind, "spec", view.managed_by, _faults(usual))


def _warnings(view: JobView) -> list[str]:
    found = []
    if view.options.asks and view.names_other_group:
        found.append(f"{view.options.mode_path}: {GROUPED_TEXT}")
    elif view.options.claims and not (view.asks or view.delegation is not None):
        found.append(f"{annotation_path('', ANNOTATION_SHARED_CLAIMS)}: {NO_GROUP_TEXT}")
    request = _group_request(view)
    if request and mapping(view.spec.get("scheduling")):
        found.append(f"spec.scheduling: {NATIVE_TEXT.format(request=request)}")
    return found


def _group_request(view: JobView) -> str:
    """Return what puts the Job's pods into a group of Muster, or an empty text."""
    if view.asks:
        return f"annotation {ANNOTATION_GANG_MODE}"
    if view.delegation is not None:
        return f"annotation {ANNOTATION_GROUP_TEMPLATE}"
    template = mapping(view.spec.get("template"))
    # On pods of other schedulers the label means nothing.
    named = groups.is_ours(template, view.schedulers) and labels_of(template).get(LABEL_POD_GROUP)
    return f"label {LABEL_POD_GROUP} of the pod template" if named else ""
