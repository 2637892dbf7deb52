"""Rules of a Workload: the tree of templates, and its controllerRef."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api import names
from api.constants import LABEL_VALUE_LENGTH, MAX_DEPTH, MAX_TEMPLATES
from api.reading import Reader
from api.rules import parts, table


@dataclass(slots=True)
class _TemplateWalk:
    """State of the walk over one Workload's templates."""

    reader: Reader
    names: set[str] = field(default_factory=set)
    # The template whose priority all others must share.
    first: Mapping[str, Any] | None = None


def check_workload(reader: Reader, name: str, spec: Mapping[str, Any]) -> None:
    """Check the name of a Workload, and all rules of its spec."""
    if len(name) > LABEL_VALUE_LENGTH:
        reader.report.append(table.WORKLOAD_TOO_LONG.at("metadata.name", name))
    _check_controller(reader, spec)
    tree = _TemplateWalk(reader)
    composites = reader.items(spec, "compositePodGroupTemplates", "spec.compositePodGroupTemplates")
    leaves = reader.items(spec, "podGroupTemplates", "spec.podGroupTemplates")
    if not composites and not leaves:
        reader.report.append(table.TEMPLATES_MISSING.at("spec"))
    if composites and leaves:
        reader.report.append(table.TEMPLATES_BOTH.at("spec", spec))
    _check_list(tree, composites, "spec.compositePodGroupTemplates", 1, composite=True)
    _check_list(tree, leaves, "spec.podGroupTemplates", 1, composite=False)


def _check_controller(reader: Reader, spec: Mapping[str, Any]) -> None:
    if spec.get("controllerRef") is None:
        return
    path = "spec.controllerRef"
    controller = reader.mapping(spec, "controllerRef", path)
    for key, missing in (
        ("kind", table.CONTROLLER_KIND_REQUIRED),
        ("name", table.CONTROLLER_NAME_REQUIRED),
    ):
        value = reader.text(controller, key, f"{path}.{key}")
        if not value:
            reader.report.append(missing.at(f"{path}.{key}"))
        elif not names.is_path_segment(value):
            reader.report.append(table.CONTROLLER_SEGMENT.at(f"{path}.{key}", value))
    group = reader.text(controller, "apiGroup", f"{path}.apiGroup")
    if group and not names.is_dns_subdomain(group):
        reader.report.append(table.CONTROLLER_GROUP.at(f"{path}.apiGroup", group))


def _check_list(
    tree: _TemplateWalk,
    templates: list[Mapping[str, Any]],
    path: str,
    level: int,
    *,
    composite: bool,
) -> None:
    if len(templates) > MAX_TEMPLATES:
        tree.reader.report.append(table.TEMPLATES_TOO_MANY.at(path, len(templates)))
    for at, template in enumerate(templates):
        _check_template(tree, template, f"{path}[{at}]", composite=composite)
        if composite:
            _check_children(tree, template, f"{path}[{at}]", level)


def _check_template(
    tree: _TemplateWalk, template: Mapping[str, Any], path: str, *, composite: bool
) -> None:
    reader = tree.reader
    _check_name(tree, template, f"{path}.name")
    parts.check_policy(reader, template, path, composite=composite)
    parts.check_topology(reader, template, path)
    parts.check_mode(reader, template, path)
    parts.check_priority(reader, template, path)
    _check_same_priority(tree, template, path)
    if not composite:
        parts.check_claims(reader, template, path)


def _check_name(tree: _TemplateWalk, template: Mapping[str, Any], path: str) -> None:
    name = tree.reader.text(template, "name", path)
    if not name:
        tree.reader.report.append(table.TEMPLATE_NAME_REQUIRED.at(path))
    elif not names.is_dns_label(name):
        tree.reader.report.append(table.TEMPLATE_NAME.at(path, name))
    elif name in tree.names:
        tree.reader.report.append(table.TEMPLATE_NAME_DUPLICATE.at(path, name))
    tree.names.add(name)


def _check_same_priority(tree: _TemplateWalk, template: Mapping[str, Any], path: str) -> None:
    if tree.first is None:
        tree.first = template
        return
    name, priority = template.get("priorityClassName"), template.get("priority")
    # An empty class name and an absent one mean the same.
    if (name or None) != (tree.first.get("priorityClassName") or None):
        tree.reader.report.append(
            table.PRIORITY_CLASS_DIFFERS.at(f"{path}.priorityClassName", name)
        )
    if priority != tree.first.get("priority"):
        tree.reader.report.append(table.PRIORITY_DIFFERS.at(f"{path}.priority", priority))


def _check_children(
    tree: _TemplateWalk, template: Mapping[str, Any], path: str, level: int
) -> None:
    # Report a template that is too deep and skip its children, as users decide how deep they nest.
    if level >= MAX_DEPTH:
        tree.reader.report.append(table.TREE_DEPTH.at(path, template))
        return
    composite_path = f"{path}.compositePodGroupTemplates"
    leaf_path = f"{path}.podGroupTemplates"
    composites = tree.reader.items(template, "compositePodGroupTemplates", composite_path)
    leaves = tree.reader.items(template, "podGroupTemplates", leaf_path)
    if not composites and not leaves:
        tree.reader.report.append(table.COMPOSITE_EMPTY.at(path, template))
    _check_list(tree, composites, composite_path, level + 1, composite=True)
    _check_list(tree, leaves, leaf_path, level + 1, composite=False)
    if parts.is_all(template):
        _check_all_below(tree, composites, composite_path)
        _check_all_below(tree, leaves, leaf_path)


def _check_all_below(tree: _TemplateWalk, children: list[Mapping[str, Any]], path: str) -> None:
    for at, child in enumerate(children):
        if not parts.is_all(child):
            tree.reader.report.append(
                table.MODE_UNDER_ALL.at(f"{path}[{at}].disruptionMode", child.get("disruptionMode"))
            )
