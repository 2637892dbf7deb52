"""Admission of Muster's own kinds: Workload, PodGroup and CompositePodGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api import conversion, features, inherit, priority
from api.causes import Cause
from api.constants import POD_GROUP, WORKLOAD
from api.defaults import defaults
from api.integration.common.templates import find_template
from api.reading import annotations_of, dig, mapping, text
from api.rules import table, validation
from api.rules.feature_use import uses_of
from kube.client.patch import Operation
from webhooks.cache.informers import Lister
from webhooks.kinds import warnings
from webhooks.reviews.review import ALLOWED, AdmissionRequest, AdmissionResponse

PARENT = "spec.parentCompositePodGroupName"


def mutate(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Complete a new group, or a PodGroup that takes its template's values in an update.

    Fields that the client's API version does not have keep their values.
    """
    if request.object is None:
        return ALLOWED
    if request.operation == "CREATE":
        return _created(request, request.object, lister)
    if request.operation != "UPDATE":
        return ALLOWED
    kept = keep_unknown_fields(request, lister)
    late = _completed_late(request, _meant(request, request.object), lister)
    return late if late.causes else AdmissionResponse([*kept.operations, *late.operations])


def keep_unknown_fields(request: AdmissionRequest, _lister: Lister) -> AdmissionResponse:
    """Restore fields that the client's API version cannot express and its update left out."""
    new = request.object
    if request.operation != "UPDATE" or new is None:
        return ALLOWED
    # Without this a replace by an older client would unset these fields, and validation would
    # reject a change of an immutable field that the client did not intend.
    meant = _meant(request, new)
    operations: list[Operation] = [
        {"op": "add", "path": f"/{place}", "value": meant[place]}
        for place in ("spec", "status")
        if place in meant and meant[place] != new.get(place)
    ]
    # The patch replaces the map, as a JSON patch cannot add to a map that does not exist.
    if annotations_of(meant) != annotations_of(new):
        value = dict(annotations_of(meant))
        operations.append({"op": "add", "path": "/metadata/annotations", "value": value})
    return AdmissionResponse(operations) if operations else ALLOWED


def _meant(request: AdmissionRequest, new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the updated object with the fields that the client's API version does not have."""
    old, asked = request.old_object, request.request_kind
    if old is None or asked is None:
        return new
    return conversion.with_hidden_fields(request.kind.kind, asked.version, new, old)


def _completed_late(
    request: AdmissionRequest, obj: Mapping[str, Any], lister: Lister
) -> AdmissionResponse:
    """Complete a group that waited for its template and gets its values in this update."""
    old, new = mapping(dig(request.old_object, "spec")), mapping(obj.get("spec"))
    # Any other update stays as it was sent: a rejection must not name fields that its sender never
    # wrote.
    if not _waits(request, old):
        return ALLOWED
    filled = inherit.filled_fields(old, new, _template(request, new, lister))
    return _completed(request, obj, lister) if filled else ALLOWED


def validate(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Return all errors of a group or a Workload.

    The status is 403 if the parent is being deleted, or if a template would preempt although its
    PriorityClass never does.
    """
    new = request.object or {}
    result = validation.validate(
        request.kind.kind,
        new,
        request.old_object,
        request.operation,
        group=request.kind.group,
        subresource=request.sub_resource,
        # In an update a waiting PodGroup may take the values of its template, and no others.
        template=_template(request, mapping(new.get("spec")), lister)
        if request.operation == "UPDATE"
        else None,
    )
    denied = _deleting_parent(request, lister)
    if not denied and not result.causes and request.kind.kind == WORKLOAD.kind:
        denied = _preempting_templates(request, lister)
    causes = [*denied, *_off(request, lister), *result.causes]
    # A rejected object gets no warnings about references, as its user has to change it anyway.
    said = [*result.warnings, *(() if causes else warnings.of_group(request, lister))]
    return AdmissionResponse(causes=causes, warnings=said, forbidden=bool(denied))


def _off(request: AdmissionRequest, lister: Lister) -> list[Cause]:
    """Return the causes for features that a new object uses and that are off."""
    # A stored object keeps what it has, as Kubernetes keeps fields of disabled features. Its
    # labels, finalizers and late template values can still change.
    if request.operation != "CREATE":
        return []
    kind = request.kind
    return features.refused(uses_of(kind.group, kind.kind, request.object or {}), lister.gates)


def _created(
    request: AdmissionRequest, obj: Mapping[str, Any], lister: Lister
) -> AdmissionResponse:
    """Set the finalizer, the template's values, the disruption mode and the priority.

    A group that waits for its template gets only the finalizer.
    """
    spec = mapping(obj.get("spec"))
    taken: list[Operation] = []
    if _waits(request, spec):
        template = _template(request, spec, lister)
        values = inherit.inherited_values(spec, template) if template else {}
        # All values or none: without a policy in the template the group stays incomplete, and takes
        # its values later.
        if not inherit.is_incomplete({**spec, **values}):
            taken = [
                {"op": "add", "path": f"/spec/{key}", "value": value}
                for key, value in values.items()
            ]
            spec = {**spec, **values}
    completed = _completed(request, {**obj, "spec": spec} if taken else obj, lister)
    if completed.causes:
        return completed
    return AdmissionResponse([*taken, *completed.operations])


def _completed(
    request: AdmissionRequest, obj: Mapping[str, Any], lister: Lister
) -> AdmissionResponse:
    """Return the defaults and the priority value, or the cause for which there is none (403)."""
    operations = defaults(request.kind.kind, obj)
    spec = mapping(obj.get("spec"))
    # A group that waits for its template will take the priority of the template, not a default.
    if not isinstance(obj.get("spec"), Mapping) or _waits(request, spec):
        return AdmissionResponse(operations)
    resolved = priority.resolve(spec, lister.priority_classes())
    if isinstance(resolved, Cause):
        return AdmissionResponse(causes=[resolved], forbidden=True)
    return AdmissionResponse([*operations, *resolved.operations(spec)])


def _waits(request: AdmissionRequest, spec: Mapping[str, Any]) -> bool:
    return request.kind.kind == POD_GROUP.kind and inherit.is_incomplete(spec)


def _template(
    request: AdmissionRequest, spec: Mapping[str, Any], lister: Lister
) -> Mapping[str, Any] | None:
    """Return the live template that a PodGroup names; None for other kinds."""
    workload = text(dig(spec, "workloadRef", "workloadName"))
    if request.kind.kind != POD_GROUP.kind or not workload:
        return None
    found = lister.workload(request.namespace, workload) or {}
    template = find_template(found, text(dig(spec, "workloadRef", "templateName")))
    return None if template is None else template.fields


def _preempting_templates(request: AdmissionRequest, lister: Lister) -> list[Cause]:
    """Return causes for templates whose groups would be rejected, as their class never preempts."""
    if request.operation != "CREATE":
        return []
    spec = mapping(dig(request.object, "spec"))
    return list(priority.check_templates(spec, lister.priority_classes()))


def _deleting_parent(request: AdmissionRequest, lister: Lister) -> list[Cause]:
    name = text(dig(request.object, "spec", "parentCompositePodGroupName"))
    # On creation only: a child that exists already must be able to change while its parent is being
    # deleted.
    if request.operation != "CREATE" or not name:
        return []
    parent = lister.composite(request.namespace, name)
    return [table.PARENT_DELETING.at(PARENT)] if parent and parent.deleting else []
