"""Writes the CustomResourceDefinitions from the models: `python -m api.crd DIRECTORY`.

The output depends on the models alone, so a difference to the committed files means they are
stale. Structural schemas know no recursion: composite templates are unrolled to the deepest level
a tree may have. On that level both child lists keep whatever they hold, so that a tree too deep
reaches the webhook and is refused there, instead of being silently pruned.
"""

import inspect
import sys
import types
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from api.constants import (
    CATEGORY,
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    GROUP,
    KINDS,
    MAX_DEPTH,
    RESERVATION,
    VERSION,
    KindName,
)
from api.models import MODELS, CompositePodGroupTemplate, Empty, ListMap, PodGroupTemplate

Json = dict[str, Any]

HEADER: Final = "# Made from api/models.py by `make generate`; do not edit.\n"
DEFINED: Final = (*KINDS, RESERVATION)
_SHORT_NAMES: Final = {
    "Workload": "mwl",
    "PodGroup": "mpg",
    "CompositePodGroup": "mcpg",
    "Reservation": "mrsv",
}
_SCALARS: Final[dict[Any, Json]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32"},
    datetime: {"type": "string", "format": "date-time"},
}


def crd(kind: KindName) -> Json:
    """The CustomResourceDefinition of one of our kinds."""
    model = MODELS[kind.kind]
    version: Json = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root_schema(model)},
        "additionalPrinterColumns": _COLUMNS[kind.kind],
    }
    if "status" in model.model_fields:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [_SHORT_NAMES[kind.kind]],
                **_categories(kind),
            },
            "versions": [version],
        },
    }


def _categories(kind: KindName) -> Json:
    """`kubectl get muster` must not need rights on what belongs to the whole cluster."""
    return {"categories": [CATEGORY]} if kind.namespaced else {}


def write(directory: Path) -> list[Path]:
    """Writes one file for each kind and returns their paths. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in DEFINED:
        path = directory / f"{GROUP}_{kind.plural}.yaml"
        path.write_text(HEADER + yaml.dump(crd(kind), Dumper=_Dumper, sort_keys=False, width=100))
        written.append(path)
    return written


class _Dumper(yaml.SafeDumper):
    """Writes equal parts out in full: anchors are no business of a manifest's reader."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class asks per value
        return True


def _root_schema(model: type[BaseModel]) -> Json:
    properties: Json = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {"type": "object"},
    }
    schema = _model_schema(model, level=0)
    schema["properties"] = properties | schema["properties"]
    return schema


def _model_schema(model: type[BaseModel], level: int) -> Json:
    """`level` is the level in the tree of templates on which the model stands, 0 outside."""
    schema: Json = {"type": "object", "description": _prose(model.__doc__ or "")}
    if model is Empty:
        return schema
    schema["properties"] = {
        name: _field_schema(field, level) for name, field in model.model_fields.items()
    }
    return schema


def _prose(docstring: str) -> str:
    """A docstring as one text, a line to a paragraph."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _field_schema(field: FieldInfo, level: int) -> Json:
    schema = _type_schema(_without_none(field.annotation), level)
    schema["description"] = field.description
    if isinstance(field.json_schema_extra, dict):
        schema |= field.json_schema_extra
    for mark in field.metadata:
        if isinstance(mark, ListMap) and "properties" in schema["items"]:
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = [mark.key]
            # A key needs a value before an item can be told apart; the rules refuse the empty one.
            schema["items"]["properties"][mark.key]["default"] = ""
    return schema


def _type_schema(annotation: Any, level: int) -> Json:
    if annotation in _SCALARS:
        return dict(_SCALARS[annotation])
    if get_origin(annotation) is list:
        return {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": _item_schema(get_args(annotation)[0], level),
        }
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return _model_schema(annotation, level)
    raise TypeError(f"no schema for {annotation!r}")


def _item_schema(item: Any, level: int) -> Json:
    if level >= MAX_DEPTH and item in {PodGroupTemplate, CompositePodGroupTemplate}:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _type_schema(item, level + (item is CompositePodGroupTemplate))


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(arg for arg in get_args(annotation) if arg is not type(None))
    return annotation


def _column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> Json:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | {"priority": 1} if wide else column


def _group_columns(condition: str, floor: str, members: str, scheduled: str) -> list[Json]:
    of_condition = f'.status.conditions[?(@.type=="{condition}")]'
    policy = ".spec.schedulingPolicy"
    parent = ".spec.parentCompositePodGroupName"
    return [
        _column("Policy", "string", policy, "The scheduling policy."),
        _column("Floor", "integer", f"{policy}.gang.{floor}", "What must be placed together."),
        _column("Members", "integer", f".status.{members}", "Members there are."),
        _column("Scheduled", "integer", f".status.{scheduled}", "Members that have their place."),
        _column("Status", "string", f"{of_condition}.status", "Whether the floor was placed."),
        _column("Reason", "string", f"{of_condition}.reason", "Why it was not."),
        _column("Blocker", "string", ".status.blocker.summary", "What it waits for.", wide=True),
        _column("Parent", "string", parent, "The parent in the tree."),
        _AGE,
    ]


_API_VERSION: Final = "The version of this object's schema, group/version."
_KIND: Final = "The kind of this object."
_AGE: Final = _column("Age", "date", ".metadata.creationTimestamp", "Time since creation.")
_COLUMNS: Final = {
    "Workload": [
        _column("Owner-Kind", "string", ".spec.controllerRef.kind", "The kind of its owner."),
        _column("Owner", "string", ".spec.controllerRef.name", "Whose Workload it is."),
        _AGE,
    ],
    "PodGroup": _group_columns(
        CONDITION_POD_GROUP_SCHEDULED, "minCount", "members", "scheduledPods"
    ),
    "CompositePodGroup": _group_columns(
        CONDITION_COMPOSITE_SCHEDULED, "minGroupCount", "children", "scheduledChildren"
    ),
    "Reservation": [
        _column("Kind", "string", ".spec.intents[0].root.kind", "The first root's kind."),
        _column("Namespace", "string", ".spec.intents[0].root.namespace", "Its namespace."),
        _column("Root", "string", ".spec.intents[0].root.name", "Its name."),
        _AGE,
    ],
}

if __name__ == "__main__":
    write(Path(sys.argv[1]))
