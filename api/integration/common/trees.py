"""Trees of several owners that start only together, as prefill and decode of a model do (KEP-6012).

Each owner has the annotation `tree: NAME=MINIMUM`. Its groups are then below a common root, a
CompositePodGroup whose minGroupCount is MINIMUM. All groups of a tree name one Workload. Its
templates are the same for every tree: they fix no more than gang or basic on each level, so an
owner that joins later needs no new template, and their number limits the number of owners nowhere.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from api import names
from api.constants import (
    ANNOTATION_ROOT_OF,
    ANNOTATION_TREE,
    COMPOSITE_POD_GROUP,
    FINALIZER_COMPOSITE,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    MAX_DEPTH,
    MAX_TREE_OWNERS,
    WORKLOAD,
)
from api.ownership import Noted, Owner

Json = dict[str, Any]

TREE_TEXT: Final = (
    "must be NAME=MINIMUM, as in serve=2: the name of the tree in small letters, digits, - and ., "
    f"and how many of its owners start together, 1 to {MAX_TREE_OWNERS}"
)

_FORM: Final = re.compile(r"([^=]{1,253})=([1-9][0-9]{0,3})", re.ASCII)

_ROOT: Final = "tree"
_LEVELS: Final = {2: "owner", 3: "part", 4: "piece"}
"""Level of a group in its tree -> the first word of its template's name."""


class Tree(NamedTuple):
    """The annotation of an owner: the tree it is in, and how many of its owners start together."""

    name: str
    minimum: int

    def text(self) -> str:
        """Return the annotation's value."""
        return f"{self.name}={self.minimum}"


def read_tree(value: Any) -> Tree | None:
    """Return the tree in an annotation's value; None for a value of another form."""
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    if found is None or not names.is_dns_subdomain(found[1]):
        return None
    minimum = int(found[2])
    return Tree(found[1], minimum) if minimum <= MAX_TREE_OWNERS else None


def tree_of(annotations: Mapping[str, Any]) -> Tree | None:
    """Return the tree of an owner with these annotations, if it is in one."""
    return read_tree(annotations.get(ANNOTATION_TREE))


class Shared(NamedTuple):
    """What all owners of a tree have in common: the annotation, and the PriorityClass."""

    tree: Tree
    priority_class: str

    def __str__(self) -> str:
        """Return both for people."""
        named = self.priority_class
        return f"{self.tree.text()} and {f'PriorityClass {named}' if named else 'no PriorityClass'}"


def shared_below(root: Noted) -> Shared | None:
    """Return what the owners below this root of a tree share; None for any other group."""
    if root.labels.get(LABEL_MANAGED_BY) != MANAGED_BY:
        return None
    # The spec has no record of it: admission sets the global default class there.
    noted, _, priority_class = root.annotations.get(ANNOTATION_ROOT_OF, "").partition(",")
    tree = read_tree(noted)
    return None if tree is None else Shared(tree, priority_class)


def root_object(namespace: str, shared: Shared, owners: list[Json]) -> Json:
    """Return the root of a tree; `owners` are the references to its first owners."""
    tree, priority = shared.tree, _priority(shared)
    name = names.tree_root(namespace, tree.name)
    noted = ",".join(filter(None, (tree.text(), shared.priority_class)))
    return {
        "apiVersion": COMPOSITE_POD_GROUP.api_version,
        "kind": COMPOSITE_POD_GROUP.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {LABEL_MANAGED_BY: MANAGED_BY},
            "annotations": {ANNOTATION_ROOT_OF: noted},
            "finalizers": [FINALIZER_COMPOSITE],
            "ownerReferences": owners,
        },
        "spec": {
            "workloadRef": {"workloadName": name, "templateName": _ROOT},
            "schedulingPolicy": {"gang": {"minGroupCount": tree.minimum}},
            "disruptionMode": {"single": {}},
            **priority,
        },
    }


def tree_workload(root: Owner, shared: Shared) -> Json:
    """Return the Workload of a tree, which its root owns."""
    made, priority = root.generated(WORKLOAD, root.name), _priority(shared)
    gang = {"gang": {"minGroupCount": shared.tree.minimum}}
    top = {"name": _ROOT, "schedulingPolicy": gang, **priority, **_templates(2, priority)}
    return made | {"spec": {"compositePodGroupTemplates": [top]}}


def in_tree(groups: Iterable[Json], root: str) -> list[Json]:
    """Return an owner's groups, given parents first, as they are below the root of a tree."""
    levels: dict[str, int] = {}
    made = []
    for group in groups:
        spec = group["spec"]
        parent = spec.get("parentCompositePodGroupName") or root
        level = levels.get(parent, 1) + 1
        levels[group["metadata"]["name"]] = level
        reference = {"workloadName": root, "templateName": _template_name(group, level)}
        above = {"workloadRef": reference, "parentCompositePodGroupName": parent}
        made.append(group | {"spec": spec | above})
    return made


def _priority(shared: Shared) -> Json:
    return {"priorityClassName": shared.priority_class} if shared.priority_class else {}


def _template_name(group: Json, level: int) -> str:
    if group["kind"] == COMPOSITE_POD_GROUP.kind:
        return f"{_LEVELS[level]}-groups"
    return f"{_LEVELS[level]}-{'gang' if 'gang' in group['spec']['schedulingPolicy'] else 'basic'}"


def _templates(level: int, priority: Json) -> Json:
    """Return the templates for groups of a level, and of those below."""
    first = _LEVELS[level]
    made: Json = {
        "podGroupTemplates": [
            {"name": f"{first}-gang", "schedulingPolicy": {"gang": {"minCount": 1}}, **priority},
            {"name": f"{first}-basic", "schedulingPolicy": {"basic": {}}, **priority},
        ]
    }
    if level < MAX_DEPTH:
        policy = {"gang": {"minGroupCount": 1}}
        below = {"name": f"{first}-groups", "schedulingPolicy": policy, **priority}
        made["compositePodGroupTemplates"] = [below | _templates(level + 1, priority)]
    return made
