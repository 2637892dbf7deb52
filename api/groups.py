"""Which group a pod belongs to: the four forms of a reference, in order of precedence.

Kubernetes' own fields and scheduler-plugins' label are foreign forms: other schedulers act on them
too. They count only for pods that are Muster's to schedule. A namespace may opt in
(`LABEL_FOREIGN_GROUPS`): there admission makes pods that use them Muster's.

Where Muster named the group of a pod (`managed`), that is its group: from Kubernetes 1.36 on the
Job controller may give Jobs groups of its own by the field, whoever schedules their pods.

Pods that name their group by Muster's label may add the key of another label (`group_by`): each of
its values is a group of its own. Behind it, as in `key,other=value`, may be said which pods of them
are a group beside the others.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from api import names
from api.constants import (
    ANNOTATION_GROUP_BY,
    ANNOTATION_MANAGED_GROUP,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
)
from api.scheduler_names import USUAL, SchedulerNames


class Form(IntEnum):
    """How a pod names its group; the lower form takes precedence."""

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
    """Which label tells the groups of a name apart, and which pods of each value are beside it.

    Those have the label `beside` with the value `value`; an empty key is none.
    """

    key: str
    beside: str = ""
    value: str = ""

    @classmethod
    def read(cls, text: str) -> "GroupBy":
        """From `key` or `key,beside=value`; what is wrong with either is not looked for."""
        key, _, rest = text.partition(",")
        beside, _, value = rest.partition("=")
        return cls(key, beside, value)

    def text(self) -> str:
        """The annotation's value."""
        return f"{self.key},{self.beside}={self.value}" if self.beside else self.key

    def group_of(self, name: str, labels: Mapping[str, str]) -> str:
        """The PodGroup of a pod with these labels that names `name`."""
        value = labels.get(self.key, "")
        if self.beside and labels.get(self.beside, "") == self.value:
            return _group_of_value(name, self.text(), value)
        return _group_of_value(name, self.key, value)


class GroupReference(NamedTuple):
    """The PodGroup `name` in the pod's own namespace, and the form of the reference."""

    name: str
    form: Form


def group_of_pod(
    labels: Mapping[str, str],
    *,
    ours: bool,
    scheduling_group: str = "",
    workload: WorkloadForm | None = None,
    managed: str = "",
    group_by: str = "",
) -> GroupReference | None:
    """The group a pod belongs to, None for a pod that names none.

    `ours`: it is Muster's to schedule, so that foreign forms count. `scheduling_group` is
    `spec.schedulingGroup.podGroupName`, `workload` is `spec.workloadRef`, `managed` the group that
    Muster named, and `group_by` the key of the label that tells groups apart, as the pod's
    annotations say it.
    """
    return next(_references(labels, scheduling_group, workload, managed, group_by, ours=ours), None)


def groups_of_pod(
    labels: Mapping[str, str],
    *,
    ours: bool,
    scheduling_group: str = "",
    workload: WorkloadForm | None = None,
    managed: str = "",
    group_by: str = "",
) -> list[GroupReference]:
    """Every reference of a pod, the one that takes precedence first."""
    return list(_references(labels, scheduling_group, workload, managed, group_by, ours=ours))


def is_ours(pod: Mapping[str, Any], schedulers: SchedulerNames = USUAL) -> bool:
    """Whether a pod (raw JSON of any structure) is Muster's to schedule."""
    return _mapping(pod.get("spec")).get("schedulerName") in schedulers


def groups_of_object(pod: Mapping[str, Any], *, ours: bool) -> list[GroupReference]:
    """The same for a pod, or a pod template, as raw JSON of any structure."""
    spec = _mapping(pod.get("spec"))
    labels, workload = _labels(pod), _workload_field(spec)
    group = _text(_mapping(spec.get("schedulingGroup")).get("podGroupName"))
    annotations = _strings(pod, "annotations")
    return groups_of_pod(
        labels,
        ours=ours,
        scheduling_group=group,
        workload=workload,
        managed=annotations.get(ANNOTATION_MANAGED_GROUP, ""),
        group_by=annotations.get(ANNOTATION_GROUP_BY, ""),
    )


def workload_form_of(pod: Mapping[str, Any]) -> WorkloadForm | None:
    """How a pod of Muster's (raw JSON of any structure) names a Workload and a template."""
    return workload_form(_labels(pod), _workload_field(_mapping(pod.get("spec"))))


def workload_form(labels: Mapping[str, str], said: WorkloadForm | None) -> WorkloadForm | None:
    """The Workload, template and replica key of a pod: its field if set, else its labels."""
    if said is None or not said.name:
        said = WorkloadForm(
            labels.get(LABEL_WORKLOAD, ""),
            labels.get(LABEL_TEMPLATE, ""),
            labels.get(LABEL_REPLICA_KEY, ""),
        )
    return said if said.name and said.pod_group else None


_group_of_value: Final = lru_cache(maxsize=4096)(names.pod_group_of_value)
"""The pods of a group come one after the other."""

_group_by: Final = lru_cache(maxsize=1024)(GroupBy.read)


def _labels(pod: Mapping[str, Any]) -> dict[str, str]:
    return _strings(pod, "labels")


def _strings(pod: Mapping[str, Any], field: str) -> dict[str, str]:
    found = _mapping(_mapping(pod.get("metadata")).get(field))
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _workload_field(spec: Mapping[str, Any]) -> WorkloadForm:
    reference = _mapping(spec.get("workloadRef"))
    return WorkloadForm(
        _text(reference.get("name")),
        _text(reference.get("podGroup")),
        _text(reference.get("podGroupReplicaKey")),
    )


def _references(
    labels: Mapping[str, str],
    scheduling_group: str,
    workload: WorkloadForm | None,
    managed: str,
    group_by: str,
    *,
    ours: bool,
) -> Iterator[GroupReference]:
    """As in `groups_of_pod`. Most pods name one group, and only the first is asked for."""
    label = labels.get(LABEL_POD_GROUP, "")
    if ours and scheduling_group and (not managed or managed != label):
        yield GroupReference(scheduling_group, Form.FIELD)
    if label:
        yield GroupReference(_by_label(label, labels, managed, group_by), Form.LABEL)
    template = workload_form(labels, workload if ours else None)
    if template is not None:
        yield GroupReference(names.implicit_pod_group(*template), Form.WORKLOAD)
    coscheduling = _by_coscheduling(labels) if ours else ""
    if coscheduling:
        yield GroupReference(coscheduling, Form.COSCHEDULING)


def _by_label(label: str, labels: Mapping[str, str], managed: str, group_by: str) -> str:
    if not group_by or managed == label:
        return label
    return _group_by(group_by).group_of(label, labels)


def _by_coscheduling(labels: Mapping[str, str]) -> str:
    parts = (labels.get(LABEL_COSCHEDULING, ""), labels.get(LABEL_SUBSET, ""))
    return "-".join(part for part in parts if part) if parts[0] else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
