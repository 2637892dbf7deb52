"""Pods that name a group; the match conditions let no other pod reach the webhook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api import causes
from api.causes import Cause
from api.constants import (
    DEFAULT_SCHEDULER_NAME,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from api.groups import Form, GroupReference, groups_of_object
from api.reading import dig, labels_of, mapping, text
from webhooks.informers import Lister
from webhooks.review import ALLOWED, AdmissionRequest, AdmissionResponse


def mutate(request: AdmissionRequest, _lister: Lister) -> AdmissionResponse:
    """Give a new pod that names a group to Muster's scheduler, unless it chose another."""
    pod = request.object or {}
    # A pod without a spec is refused by the API server; there is nothing to complete in it.
    if request.operation != "CREATE" or not isinstance(pod.get("spec"), Mapping):
        return ALLOWED
    chosen = text(pod["spec"].get("schedulerName")) or DEFAULT_SCHEDULER_NAME
    if chosen != DEFAULT_SCHEDULER_NAME or not groups_of_object(pod):
        return ALLOWED
    return AdmissionResponse(
        [{"op": "add", "path": "/spec/schedulerName", "value": SCHEDULER_NAME}]
    )


def validate(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """A pod of Muster's names exactly one group, never another, and none that is being deleted."""
    pod = request.object or {}
    if text(dig(pod, "spec", "schedulerName")) != SCHEDULER_NAME:
        return ALLOWED
    groups = groups_of_object(pod)
    if request.operation == "UPDATE":
        return AdmissionResponse(causes=[*_changed_group(groups, request.old_object or {}, pod)])
    if request.operation != "CREATE":
        return ALLOWED
    several = _conflicting_references(groups, pod)
    gone = _deleting(groups, pod, request.namespace, lister)
    return AdmissionResponse(
        causes=[*gone, *several], warnings=_incomplete_reference(pod, groups), forbidden=bool(gone)
    )


def _conflicting_references(groups: list[GroupReference], pod: Mapping[str, Any]) -> list[Cause]:
    """A cause for every reference to another group than the one that takes precedence."""
    return [
        causes.invalid(
            _path(reference, pod),
            reference.name,
            f"the pod also names group {groups[0].name!r} by {_path(groups[0], pod)}; "
            "a pod belongs to one group: remove one of the two",
        )
        for reference in groups[1:]
        if reference.name != groups[0].name
    ]


def _changed_group(
    groups: list[GroupReference], old: Mapping[str, Any], pod: Mapping[str, Any]
) -> list[Cause]:
    """The group of a pod is immutable; errors that the old pod had already are not reported."""
    before = groups_of_object(old)
    if _name(before) != _name(groups):
        place = groups[0] if groups else before[0]
        text_ = f"the group of a pod cannot change: it is {_name(before) or 'none'}"
        return [causes.invalid(_path(place, pod if groups else old), _name(groups), text_)]
    known = _conflicting_references(before, old)
    return [cause for cause in _conflicting_references(groups, pod) if cause not in known]


def _deleting(
    groups: list[GroupReference], pod: Mapping[str, Any], namespace: str, lister: Lister
) -> list[Cause]:
    if not groups or not lister.pod_group_is_deleting(namespace, groups[0].name):
        return []
    problem = f"PodGroup {groups[0].name!r} is being deleted; wait until it is gone"
    return [causes.forbidden(_path(groups[0], pod), problem)]


def _incomplete_reference(pod: Mapping[str, Any], groups: list[GroupReference]) -> list[str]:
    """A warning for a Workload without a template, or the reverse: it names no group."""
    if any(reference.form is Form.WORKLOAD for reference in groups):
        return []
    present = [label for label in (LABEL_WORKLOAD, LABEL_TEMPLATE) if labels_of(pod).get(label)]
    if len(present) != 1:
        return []
    (missing,) = {LABEL_WORKLOAD, LABEL_TEMPLATE} - {present[0]}
    return [f"metadata.labels[{present[0]}]: it names a group only together with {missing}"]


def _name(groups: list[GroupReference]) -> str:
    return groups[0].name if groups else ""


def _path(reference: GroupReference, pod: Mapping[str, Any]) -> str:
    """The field path of the reference."""
    if reference.form is Form.FIELD:
        return "spec.schedulingGroup.podGroupName"
    if reference.form is Form.LABEL:
        return f"metadata.labels[{LABEL_POD_GROUP}]"
    if reference.form is Form.COSCHEDULING:
        return f"metadata.labels[{LABEL_COSCHEDULING}]"
    field = text(mapping(dig(pod, "spec", "workloadRef")).get("name"))
    return "spec.workloadRef" if field else f"metadata.labels[{LABEL_WORKLOAD}]"
