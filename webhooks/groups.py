"""Our own kinds: Workload, PodGroup, CompositePodGroup."""

from __future__ import annotations

from api import priority
from api.causes import Cause
from api.constants import POD_GROUP
from api.defaults import defaults
from api.inherit import is_incomplete
from api.reading import dig, mapping, text
from api.rules import table, validate
from webhooks.review import ALLOWED, Answer, Request
from webhooks.world import World

PARENT = "spec.parentCompositePodGroupName"


def mutate(request: Request, world: World) -> Answer:
    """Defaults of a new group; its priority as number, or why it has none (alone, 403)."""
    if request.operation != "CREATE" or request.object is None:
        return ALLOWED
    operations = defaults(request.kind.kind, request.object)
    spec = mapping(request.object.get("spec"))
    # A group that waits for its template takes the template's priority then, not a default now.
    waits = request.kind.kind == POD_GROUP.kind and is_incomplete(spec)
    if not spec or waits:
        return Answer(operations)
    resolved = priority.resolve(spec, world.priority_classes())
    if isinstance(resolved, Cause):
        return Answer(causes=[resolved], forbidden=True)
    return Answer([*operations, *resolved.operations(spec)])


def judge(request: Request, world: World) -> Answer:
    """All faults of a group or a Workload; 403 when its parent is being deleted."""
    verdict = validate(
        request.kind.kind,
        request.object or {},
        request.old_object,
        request.operation,
        subresource=request.sub_resource,
    )
    gone = _deleting_parent(request, world)
    return Answer(causes=[*gone, *verdict.causes], warnings=verdict.warnings, forbidden=bool(gone))


def _deleting_parent(request: Request, world: World) -> list[Cause]:
    parent = text(dig(request.object, "spec", "parentCompositePodGroupName"))
    if request.operation != "CREATE" or not parent:
        return []
    deleting = world.composite_is_deleting(request.namespace, parent)
    return [table.PARENT_DELETING.at(PARENT)] if deleting else []
