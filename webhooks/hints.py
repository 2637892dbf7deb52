"""What a webhook can see of other objects but not prove: warnings, never refusals.

Objects arrive in any order and caches are a moment behind, so only the scheduler decides; but a
user who misspelt a name should hear it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.constants import COMPOSITE_POD_GROUP, MAX_DEPTH, POD_GROUP
from api.reading import dig, listing, mapping, text
from webhooks.review import Request
from webhooks.world import World

COMPARED = ("schedulingConstraints", "disruptionMode", "priorityClassName")


def of(request: Request, world: World) -> list[str]:
    """The warnings for a new group; none for anything else."""
    kind = request.kind.kind
    if request.operation != "CREATE" or kind not in {POD_GROUP.kind, COMPOSITE_POD_GROUP.kind}:
        return []
    spec = mapping(dig(request.object, "spec"))
    return [*_template(request, spec, world), *_parents(request, spec, world)]


def _template(request: Request, spec: Mapping[str, Any], world: World) -> Iterator[str]:
    reference = mapping(spec.get("workloadRef"))
    name, template_name = text(reference.get("workloadName")), text(reference.get("templateName"))
    if not name:
        return
    workload = world.workload(request.namespace, name)
    if workload is None:
        yield (
            f"spec.workloadRef.workloadName: there is no Workload {name!r} yet; "
            "the group waits until there is one"
        )
        return
    template = _named(mapping(workload.get("spec")), template_name, _list_of(request))
    if template is None:
        yield (
            f"spec.workloadRef.templateName: Workload {name!r} has no template "
            f"{template_name!r} for a {request.kind.kind}; the group waits until it has one"
        )
        return
    for key in _unlike(spec, template):
        yield (
            f"spec.{key}: it is not as in template {template_name!r} of Workload {name!r}; "
            "the group's own value counts"
        )


def _list_of(request: Request) -> str:
    if request.kind.kind == POD_GROUP.kind:
        return "podGroupTemplates"
    return "compositePodGroupTemplates"


def _named(owner: Mapping[str, Any], name: str, key: str) -> Mapping[str, Any] | None:
    """The template of that name in the lists called `key` of a whole tree."""
    for template in listing(owner.get(key)):
        if mapping(template).get("name") == name:
            return mapping(template)
    for composite in listing(owner.get("compositePodGroupTemplates")):
        found = _named(mapping(composite), name, key)
        if found is not None:
            return found
    return None


def _unlike(spec: Mapping[str, Any], template: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a group that say something else than its template. Floors may differ."""
    policies = mapping(spec.get("schedulingPolicy")), mapping(template.get("schedulingPolicy"))
    if all(policies) and policies[0].keys() != policies[1].keys():
        yield "schedulingPolicy"
    for key in COMPARED:
        # What the template leaves open, the group may say.
        if template.get(key) is not None and template[key] != spec.get(key, template[key]):
            yield key


def _parents(request: Request, spec: Mapping[str, Any], world: World) -> Iterator[str]:
    """Follows the parents that are there already."""
    path = "spec.parentCompositePodGroupName"
    name = text(spec.get("parentCompositePodGroupName"))
    composite = request.kind.kind == COMPOSITE_POD_GROUP.kind
    own = request.name if composite else ""
    # A composite needs a level below it for its children.
    level = 2 if composite else 1
    while name:
        level += 1
        if level > MAX_DEPTH:
            yield f"{path}: the tree is deeper than {MAX_DEPTH} levels; it will not be scheduled"
            return
        found = world.composite(request.namespace, name)
        name = found.parent if found else ""
        if name and name == own:
            yield f"{path}: the parents lead back to {own!r}; such a cycle is never scheduled"
            return
