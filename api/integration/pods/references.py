"""Rules of a pod's reference to a group: a possible name, and no second group."""

from collections.abc import Mapping
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import (
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
)
from api.groups import (
    Form,
    GroupReference,
    groups_of_object,
    incomplete_reference,
    incomplete_text,
    workload_form_of,
)
from api.integration.pods.groups_from_pods import check_pod
from api.names import is_dns_label, is_dns_subdomain
from api.reading import dig, labels_of, mapping, text, texts
from api.rules.table import DNS_LABEL_TEXT, DNS_SUBDOMAIN_TEXT
from api.scheduler_names import USUAL, SchedulerNames

# The parts of KEP-4671's reference: the field of 1.35, the label, and the KEP's rule.
_PARTS: Final = {
    "name": ("name", LABEL_WORKLOAD),
    "pod_group": ("podGroup", LABEL_TEMPLATE),
    "replica_key": ("podGroupReplicaKey", LABEL_REPLICA_KEY),
}
_WANTED: Final = {
    "name": (is_dns_subdomain, DNS_SUBDOMAIN_TEXT),
    "pod_group": (is_dns_label, DNS_LABEL_TEXT),
    "replica_key": (is_dns_label, DNS_LABEL_TEXT),
}
IMPOSSIBLE_TEXT: Final = f"no PodGroup can have this name: a name {DNS_SUBDOMAIN_TEXT}"


def check_pod_template(
    template: Mapping[str, Any], path: str, schedulers: SchedulerNames = USUAL
) -> list[Cause]:
    """Return the faults for which every pod of the template at `path` would be rejected.

    There are none if Muster does not schedule the pods.
    """
    scheduler = text(dig(template, "spec", "schedulerName"))
    if not schedulers.allow(scheduler):
        return []
    # Foreign forms count only for pods that chose Muster's scheduler.
    groups = groups_of_object(template, ours=scheduler in schedulers)
    wrong = check_references(groups, template, f"{path}.")
    return [*wrong, *check_pod(groups, template, path)]


def check_references(
    groups: list[GroupReference], pod: Mapping[str, Any], prefix: str = ""
) -> list[Cause]:
    """Return the faults of a pod's `groups`; `prefix` is the path of a template, with its dot."""
    return [
        *_incomplete(groups, pod, prefix),
        *(_wrong_parts(groups, pod, prefix) or _impossible_name(groups, pod, prefix)),
        *conflicting_references(groups, pod, prefix),
    ]


def _incomplete(groups: list[GroupReference], pod: Mapping[str, Any], prefix: str) -> list[Cause]:
    """Return a cause for labels that name no group without another one: the pod would run alone."""
    labels = texts(labels_of(pod))
    missing = None if groups else incomplete_reference(labels)
    if missing is None:
        return []
    return [causes.required(f"{prefix}metadata.labels[{missing[1]}]", incomplete_text(labels))]


def conflicting_references(
    groups: list[GroupReference], pod: Mapping[str, Any], prefix: str = ""
) -> list[Cause]:
    """Return a cause for every reference to another group than the one that takes precedence."""
    return [
        causes.invalid(
            prefix + reference_path(reference, pod),
            reference.name,
            f"the pod also names group {groups[0].name!r} in {reference_path(groups[0], pod)}, "
            "and a pod belongs to one group: remove one of the two",
        )
        for reference in groups[1:]
        if reference.name != groups[0].name
    ]


def reference_path(reference: GroupReference, pod: Mapping[str, Any]) -> str:
    """Return the field path of the reference."""
    if reference.form in (Form.FIELD, Form.NATIVE):
        return "spec.schedulingGroup.podGroupName"
    if reference.form is Form.LABEL:
        return f"metadata.labels[{LABEL_POD_GROUP}]"
    if reference.form is Form.COSCHEDULING:
        return f"metadata.labels[{LABEL_COSCHEDULING}]"
    return "spec.workloadRef" if _by_field(pod) else f"metadata.labels[{LABEL_WORKLOAD}]"


def part_path(pod: Mapping[str, Any], part: str) -> str:
    """Return the field path of a part of KEP-4671's reference, a field of `WorkloadForm`."""
    field, label = _PARTS[part]
    return f"spec.workloadRef.{field}" if _by_field(pod) else f"metadata.labels[{label}]"


def _by_field(pod: Mapping[str, Any]) -> bool:
    return bool(text(mapping(dig(pod, "spec", "workloadRef")).get("name")))


def _wrong_parts(groups: list[GroupReference], pod: Mapping[str, Any], prefix: str) -> list[Cause]:
    """Return causes for invalid parts of KEP-4671's reference: no Workload has such a template."""
    form = workload_form_of(pod)
    if form is None or not groups or groups[0].form is not Form.WORKLOAD:
        return []
    return [
        causes.invalid(prefix + part_path(pod, part), value, wanted)
        for part, value in form._asdict().items()
        for is_right, wanted in (_WANTED[part],)
        if value and not is_right(value)
    ]


def _impossible_name(
    groups: list[GroupReference], pod: Mapping[str, Any], prefix: str
) -> list[Cause]:
    """Return a cause for a label value that cannot be a name: the pod would wait forever."""
    return [
        causes.invalid(prefix + reference_path(reference, pod), reference.name, IMPOSSIBLE_TEXT)
        for reference in groups[:1]
        if not is_dns_subdomain(reference.name)
    ]
