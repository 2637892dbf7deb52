"""Our own kinds: Workload, PodGroup, CompositePodGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api import conversion, inherit, priority
from api.causes import Cause
from api.constants import POD_GROUP
from api.defaults import defaults
from api.reading import annotations_of, dig, mapping, text
from api.rules import table, validate
from kube.patch import Operation
from webhooks import hints
from webhooks.review import ALLOWED, Answer, Request
from webhooks.world import World

PARENT = "spec.parentCompositePodGroupName"


def mutate(request: Request, world: World) -> Answer:
    """Completes a group when it is made, and a PodGroup whose template's values come later.

    An update that an older version cannot say in full keeps the rest as it was.
    """
    if request.object is None:
        return ALLOWED
    if request.operation == "CREATE":
        return _created(request, request.object, world)
    if request.operation != "UPDATE":
        return ALLOWED
    kept = keep(request, world)
    return _filled(request, request.object, world) if kept is ALLOWED else kept


def keep(request: Request, _world: World) -> Answer:
    """What the client's version cannot say stays as it was when that says nothing of it."""
    new, old, asked = request.object, request.old_object, request.request_kind
    if request.operation != "UPDATE" or new is None or old is None or asked is None:
        return ALLOWED
    meant = conversion.completed(request.kind.kind, asked.version, new, old)
    operations: list[Operation] = [
        {"op": "add", "path": f"/{place}", "value": meant[place]}
        for place in ("spec", "status")
        if place in meant and meant[place] != new.get(place)
    ]
    if annotations_of(meant) != annotations_of(new):
        value = dict(annotations_of(meant))
        operations.append({"op": "add", "path": "/metadata/annotations", "value": value})
    return Answer(operations) if operations else ALLOWED


def _filled(request: Request, obj: Mapping[str, Any], world: World) -> Answer:
    """Completes a group that waited once it has its template's values.

    Any other change is refused as it was sent, not with fields that its sender never wrote.
    """
    old, new = mapping(dig(request.old_object, "spec")), mapping(obj.get("spec"))
    if not _waits(request, old):
        return ALLOWED
    filled = inherit.filled_fields(old, new, _template(request, new, world))
    return _completed(request, obj, world) if filled else ALLOWED


def judge(request: Request, world: World) -> Answer:
    """All faults of a group or a Workload; 403 when its parent is being deleted."""
    new = request.object or {}
    result = validate(
        request.kind.kind,
        new,
        request.old_object,
        request.operation,
        group=request.kind.group,
        subresource=request.sub_resource,
        template=_template(request, mapping(new.get("spec")), world)
        if request.operation == "UPDATE"
        else None,
    )
    gone = _deleting_parent(request, world)
    causes = [*gone, *result.causes]
    warnings = [*result.warnings, *(() if causes else hints.of(request, world))]
    return Answer(causes=causes, warnings=warnings, forbidden=bool(gone))


def _created(request: Request, obj: Mapping[str, Any], world: World) -> Answer:
    """Finalizer, the template's values, mode, priority; a group that must wait gets the first."""
    spec = mapping(obj.get("spec"))
    taken: list[Operation] = []
    if _waits(request, spec):
        template = _template(request, spec, world)
        values = inherit.fill(spec, template) if template else {}
        if not inherit.is_incomplete({**spec, **values}):
            taken = [
                {"op": "add", "path": f"/spec/{key}", "value": value}
                for key, value in values.items()
            ]
            spec = {**spec, **values}
    completed = _completed(request, {**obj, "spec": spec} if taken else obj, world)
    if completed.causes:
        return completed
    return Answer([*taken, *completed.operations])


def _completed(request: Request, obj: Mapping[str, Any], world: World) -> Answer:
    """Defaults, and the priority as number, or why it has none (alone, 403)."""
    operations = defaults(request.kind.kind, obj)
    spec = mapping(obj.get("spec"))
    # A group that waits for its template takes the template's priority then, not a default now.
    if not isinstance(obj.get("spec"), Mapping) or _waits(request, spec):
        return Answer(operations)
    resolved = priority.resolve(spec, world.priority_classes())
    if isinstance(resolved, Cause):
        return Answer(causes=[resolved], forbidden=True)
    return Answer([*operations, *resolved.operations(spec)])


def _waits(request: Request, spec: Mapping[str, Any]) -> bool:
    return request.kind.kind == POD_GROUP.kind and inherit.is_incomplete(spec)


def _template(request: Request, spec: Mapping[str, Any], world: World) -> Mapping[str, Any] | None:
    """The live template that a PodGroup names; None for other kinds."""
    workload = text(dig(spec, "workloadRef", "workloadName"))
    if request.kind.kind != POD_GROUP.kind or not workload:
        return None
    name = text(dig(spec, "workloadRef", "templateName"))
    return inherit.template_of(world.workload(request.namespace, workload), name)


def _deleting_parent(request: Request, world: World) -> list[Cause]:
    name = text(dig(request.object, "spec", "parentCompositePodGroupName"))
    if request.operation != "CREATE" or not name:
        return []
    parent = world.composite(request.namespace, name)
    return [table.PARENT_DELETING.at(PARENT)] if parent and parent.deleting else []
