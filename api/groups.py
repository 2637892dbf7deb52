"""Which group a pod belongs to: the four forms of a reference, in order of precedence."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from api import names
from api.constants import (
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
)


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


@dataclass(frozen=True, slots=True)
class GroupReference:
    """The PodGroup `name` in the pod's own namespace, and the form of the reference."""

    name: str
    form: Form


def group_of_pod(
    labels: Mapping[str, str],
    *,
    scheduling_group: str = "",
    workload: WorkloadForm | None = None,
) -> GroupReference | None:
    """The group a pod belongs to, None for a pod that names none.

    `scheduling_group` is `spec.schedulingGroup.podGroupName`, `workload` is `spec.workloadRef`.
    """
    found = groups_of_pod(labels, scheduling_group=scheduling_group, workload=workload)
    return found[0] if found else None


def groups_of_pod(
    labels: Mapping[str, str],
    *,
    scheduling_group: str = "",
    workload: WorkloadForm | None = None,
) -> list[GroupReference]:
    """Every reference of a pod, the one that takes precedence first."""
    references = (
        (Form.FIELD, scheduling_group),
        (Form.LABEL, labels.get(LABEL_POD_GROUP, "")),
        (Form.WORKLOAD, _by_workload(labels, workload)),
        (Form.COSCHEDULING, _by_coscheduling(labels)),
    )
    return [GroupReference(name, form) for form, name in references if name]


def groups_of_object(pod: Mapping[str, Any]) -> list[GroupReference]:
    """The same for a pod, or a pod template, as raw JSON of any structure."""
    spec = _mapping(pod.get("spec"))
    labels = {
        key: value
        for key, value in _mapping(_mapping(pod.get("metadata")).get("labels")).items()
        if isinstance(value, str)
    }
    reference = _mapping(spec.get("workloadRef"))
    workload = WorkloadForm(
        _text(reference.get("name")),
        _text(reference.get("podGroup")),
        _text(reference.get("podGroupReplicaKey")),
    )
    group = _text(_mapping(spec.get("schedulingGroup")).get("podGroupName"))
    return groups_of_pod(labels, scheduling_group=group, workload=workload)


def workload_form(labels: Mapping[str, str], said: WorkloadForm | None) -> WorkloadForm | None:
    """The Workload, template and replica key of a pod: its field if set, else its labels."""
    if said is None or not said.name:
        said = WorkloadForm(
            labels.get(LABEL_WORKLOAD, ""),
            labels.get(LABEL_TEMPLATE, ""),
            labels.get(LABEL_REPLICA_KEY, ""),
        )
    return said if said.name and said.pod_group else None


def _by_workload(labels: Mapping[str, str], said: WorkloadForm | None) -> str:
    workload = workload_form(labels, said)
    return names.implicit_pod_group(*workload) if workload else ""


def _by_coscheduling(labels: Mapping[str, str]) -> str:
    parts = (labels.get(LABEL_COSCHEDULING, ""), labels.get(LABEL_SUBSET, ""))
    return "-".join(part for part in parts if part) if parts[0] else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
