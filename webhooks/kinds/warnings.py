"""Warnings about references between objects: a mistake is likely, but never certain.

Objects arrive in any order and caches lag behind, so only the scheduler decides. But a user who
misspelt a name should see it immediately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.constants import COMPOSITE_POD_GROUP, MAX_DEPTH, POD_GROUP
from api.integration.common.templates import find_template
from api.reading import dig, mapping, text
from webhooks.cache.informers import Lister
from webhooks.reviews.review import AdmissionRequest

COMPARED = ("schedulingConstraints", "disruptionMode", "priorityClassName")


def of_group(request: AdmissionRequest, lister: Lister) -> list[str]:
    """Return the warnings for a new group; none for other requests."""
    kind = request.kind.kind
    if request.operation != "CREATE" or kind not in {POD_GROUP.kind, COMPOSITE_POD_GROUP.kind}:
        return []
    spec = mapping(dig(request.object, "spec"))
    return [*_template(request, spec, lister), *_parents(request, spec, lister)]


def _template(request: AdmissionRequest, spec: Mapping[str, Any], lister: Lister) -> Iterator[str]:
    reference = mapping(spec.get("workloadRef"))
    name, template_name = text(reference.get("workloadName")), text(reference.get("templateName"))
    if not name:
        return
    workload = lister.workload(request.namespace, name)
    if workload is None:
        yield (
            f"spec.workloadRef.workloadName: Workload {name!r} not found. The group waits until "
            "it exists"
        )
        return
    template = find_template(workload, template_name, request.kind.kind)
    if template is None:
        yield (
            f"spec.workloadRef.templateName: Workload {name!r} has no template {template_name!r} "
            f"for a {request.kind.kind}. The group waits until it has one"
        )
        return
    for key in _differing_fields(spec, template.fields):
        yield (
            f"spec.{key}: differs from template {template_name!r} of Workload {name!r}. The "
            "scheduler does not schedule such a group"
        )


def _differing_fields(spec: Mapping[str, Any], template: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a group that differ from its template; its minimums may."""
    policies = mapping(spec.get("schedulingPolicy")), mapping(template.get("schedulingPolicy"))
    # minCount and minGroupCount may differ, so compare only the kind of policy.
    if all(policies) and policies[0].keys() != policies[1].keys():
        yield "schedulingPolicy"
    for key in COMPARED:
        # A group may set a field that its template leaves unset.
        if template.get(key) is not None and template[key] != spec.get(key, template[key]):
            yield key


def _parents(request: AdmissionRequest, spec: Mapping[str, Any], lister: Lister) -> Iterator[str]:
    """Yield warnings about the existing part of the chain of parents."""
    path = "spec.parentCompositePodGroupName"
    name = text(spec.get("parentCompositePodGroupName"))
    composite = request.kind.kind == COMPOSITE_POD_GROUP.kind
    own = request.name if composite else ""
    # A CompositePodGroup needs one more level for its children.
    level = 2 if composite else 1
    while name:
        level += 1
        # The bound on levels also ends the walk through a cycle that does not contain the new
        # group.
        if level > MAX_DEPTH:
            yield (
                f"{path}: the tree has more than {MAX_DEPTH} levels. The scheduler does not "
                "schedule it: remove a level"
            )
            return
        found = lister.composite(request.namespace, name)
        name = found.parent if found else ""
        if name and name == own:
            yield (
                f"{path}: the parents form a cycle through {own!r}. The scheduler does not "
                "schedule such a tree"
            )
            return
