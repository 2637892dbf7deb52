"""The group of a pod: the forms of a reference, in order of precedence.

Where Kubernetes serves its own PodGroups (`native`), `spec.schedulingGroup` names one of these,
whatever schedules the pod. Elsewhere it names a group of Muster's.

Kubernetes' own fields and scheduler-plugins' label are foreign forms, on which other schedulers
act, too. They count only for pods that Muster schedules. A namespace may opt in
(`LABEL_FOREIGN_GROUPS`): admission then assigns pods that use them to Muster.

If Muster named the group of a pod (`managed`), this is its group. From Kubernetes 1.36 on, the Job
controller may create groups for Jobs with the field, whatever schedules their pods.

Pods that name their group by Muster's label may add the key of another label (`group_by`). Each of
its values is a group of its own. With `key,other=value`, pods with that value of the other label
are one more group.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from api import names
from api.constants import (
    ANNOTATION_GROUP_BY,
    ANNOTATION_MANAGED_GROUP,
    KINDS,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    NATIVE_GROUP_KINDS,
)
from api.reading import annotations_of, dig, labels_of, mapping, text, texts
from api.scheduler_names import USUAL, SchedulerNames


class Form(IntEnum):
    """The form in which a pod names its group; the lower value takes precedence."""

    NATIVE = 0  # spec.schedulingGroup.podGroupName where Kubernetes' own PodGroups are served
    FIELD = 1  # spec.schedulingGroup.podGroupName, Kubernetes 1.36+ with the gate
    LABEL = 2  # label scheduling.muster.dev/pod-group
    WORKLOAD = 3  # KEP-4671: Workload, template and replica key
    COSCHEDULING = 4  # KEP-3370: label scheduling.x-k8s.io/pod-group


class WorkloadForm(NamedTuple):
    """`spec.workloadRef` of a pod on Kubernetes 1.35."""

    name: str
    pod_group: str
    replica_key: str = ""


class GroupBy(NamedTuple):
    """The label that separates the groups of a name, and the pods of each value that form another.

    The latter have the label `other_label` with the value `value`. An empty key means that there
    are none.
    """

    key: str
    other_label: str = ""
    value: str = ""

    @classmethod
    def read(cls, text: str) -> "GroupBy":
        """Parse `key` or `key,other_label=value`, without validation."""
        key, _, rest = text.partition(",")
        other_label, _, value = rest.partition("=")
        return cls(key, other_label, value)

    def text(self) -> str:
        """Return the annotation's value."""
        return f"{self.key},{self.other_label}={self.value}" if self.other_label else self.key

    def group_of(self, name: str, labels: Mapping[str, str]) -> str:
        """Return the PodGroup of a pod with these labels that names `name`."""
        value = labels.get(self.key, "")
        if self.other_label and labels.get(self.other_label, "") == self.value:
            return _group_of_value(name, self.text(), value)
        return _group_of_value(name, self.key, value)


class GroupReference(NamedTuple):
    """The PodGroup `name` in the pod's own namespace, and the form of the reference.

    With Form.NATIVE it is one of Kubernetes' own, else one of Muster's.
    """

    name: str
    form: Form


def groups_of_pod(
    labels: Mapping[str, str],
    *,
    ours: bool,
    scheduling_group: str = "",
    workload: WorkloadForm | None = None,
    managed: str = "",
    group_by: str = "",
    native: bool = False,
) -> Iterator[GroupReference]:
    """Yield all references of a pod, the one that takes precedence first.

    Foreign forms count if the pod is `ours`. `native` means that Kubernetes' own PodGroups are
    served. `scheduling_group` is `spec.schedulingGroup.podGroupName`, and `workload` is
    `spec.workloadRef`. `managed` is the group that Muster named, and `group_by` the key of the
    label that separates groups, both from the pod's annotations.
    """
    # A generator: most pods name one group, and most callers need only the first.
    label = labels.get(LABEL_POD_GROUP, "")
    # Where native groups are served, the Job controller may add the field to the pods of any Job.
    by_label = label and ours and (native or managed == label)
    named = _by_label(label, labels, managed, group_by) if label else ""
    # If Muster created the native group, both have its name.
    if scheduling_group and (ours or native) and (not by_label or named == scheduling_group):
        yield GroupReference(scheduling_group, Form.NATIVE if native else Form.FIELD)
    if named:
        yield GroupReference(named, Form.LABEL)
    template = workload_form(labels, workload if ours else None)
    if template is not None:
        yield GroupReference(_implicit_pod_group(*template), Form.WORKLOAD)
    coscheduling = _by_coscheduling(labels) if ours else ""
    if coscheduling:
        yield GroupReference(coscheduling, Form.COSCHEDULING)


def is_ours(pod: Mapping[str, Any], schedulers: SchedulerNames = USUAL) -> bool:
    """Return True if Muster schedules the pod (raw JSON of any structure)."""
    return dig(pod, "spec", "schedulerName") in schedulers


def is_native(obj: Mapping[str, Any]) -> bool:
    """Return True for a group or Workload of Kubernetes' own, as raw JSON of any structure.

    Those of Kubernetes 1.36 and earlier do not count: Muster does not know their versions.
    """
    return text(obj.get("apiVersion")) in _NATIVE and text(obj.get("kind")) in _KINDS


def groups_of_object(
    pod: Mapping[str, Any], *, ours: bool, native: bool = False
) -> list[GroupReference]:
    """Return all references of a pod or a pod template, as raw JSON of any structure."""
    annotations = texts(annotations_of(pod))
    return list(
        groups_of_pod(
            texts(labels_of(pod)),
            ours=ours,
            scheduling_group=text(dig(pod, "spec", "schedulingGroup", "podGroupName")),
            workload=_workload_field(pod),
            managed=annotations.get(ANNOTATION_MANAGED_GROUP, ""),
            group_by=annotations.get(ANNOTATION_GROUP_BY, ""),
            native=native,
        )
    )


def workload_form_of(pod: Mapping[str, Any]) -> WorkloadForm | None:
    """Return the Workload and template that a pod (raw JSON of any structure) names."""
    return workload_form(texts(labels_of(pod)), _workload_field(pod))


def workload_form(labels: Mapping[str, str], said: WorkloadForm | None) -> WorkloadForm | None:
    """Return the Workload, template and replica key of a pod: its field if set, else its labels."""
    if said is None or not said.name:
        said = WorkloadForm(
            labels.get(LABEL_WORKLOAD, ""),
            labels.get(LABEL_TEMPLATE, ""),
            labels.get(LABEL_REPLICA_KEY, ""),
        )
    return said if said.name and said.pod_group else None


def incomplete_reference(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Return a label that names a group only with another, and that other one; None without one.

    Such a pod would otherwise be one without a group, and start alone (KEP-4671).
    """
    for label, other in (
        (LABEL_WORKLOAD, LABEL_TEMPLATE),
        (LABEL_TEMPLATE, LABEL_WORKLOAD),
        (LABEL_REPLICA_KEY, LABEL_WORKLOAD),
    ):
        if labels.get(label) and not labels.get(other):
            return label, other
    return None


def incomplete_text(labels: Mapping[str, str]) -> str:
    """Return the message for labels with an `incomplete_reference`."""
    label, other = incomplete_reference(labels) or (LABEL_WORKLOAD, LABEL_TEMPLATE)
    return f"label {label} names a group only with label {other}: set both, or remove it"


_NATIVE: Final = frozenset(kind.api_version for kind in NATIVE_GROUP_KINDS)
_KINDS: Final = frozenset(kind.kind for kind in KINDS)

# The pods of a group arrive one after the other, so a small cache saves most hashes.
_group_of_value: Final = lru_cache(maxsize=4096)(names.pod_group_of_value)
"""`names.pod_group_of_value` with a cache."""

_implicit_pod_group: Final = lru_cache(maxsize=4096)(names.implicit_pod_group)
"""`names.implicit_pod_group` with a cache."""

_subset_pod_group: Final = lru_cache(maxsize=4096)(names.subset_pod_group)
"""`names.subset_pod_group` with a cache."""

_group_by: Final = lru_cache(maxsize=1024)(GroupBy.read)


def _workload_field(pod: Mapping[str, Any]) -> WorkloadForm:
    reference = mapping(dig(pod, "spec", "workloadRef"))
    fields = (reference.get(key) for key in ("name", "podGroup", "podGroupReplicaKey"))
    return WorkloadForm(*map(text, fields))


def _by_label(label: str, labels: Mapping[str, str], managed: str, group_by: str) -> str:
    # The group that Muster named is never divided by another label.
    if not group_by or managed == label:
        return label
    return _group_by(group_by).group_of(label, labels)


def _by_coscheduling(labels: Mapping[str, str]) -> str:
    group = labels.get(LABEL_COSCHEDULING, "")
    return _subset_pod_group(group, labels.get(LABEL_SUBSET, "")) if group else ""
