"""Generator of the OpenAPI schema of one version of a kind, from a model.

Structural schemas do not allow recursion, so composite templates are unrolled to the deepest level
that a tree may have. On that level both lists of children keep any content: a tree that is too deep
reaches the webhook, which rejects it, and is not pruned silently.
"""

import inspect
import types
from datetime import datetime
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from api.constants import MAX_DEPTH
from api.models.parts import Empty, ListMap
from api.models.v1alpha3 import CompositePodGroupTemplate, PodGroupTemplate

Json = dict[str, Any]

_API_VERSION: Final = "apiVersion is the version of this object's schema, group/version."
_KIND: Final = "kind is the kind of this object."
_SCALARS: Final[dict[Any, Json]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32"},
    datetime: {"type": "string", "format": "date-time"},
}


def root_schema(model: type[BaseModel]) -> Json:
    """Return the schema of a complete object, with the fields of every object."""
    properties: Json = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {"type": "object"},
    }
    schema = _model_schema(model, level=0)
    schema["properties"] = properties | schema["properties"]
    return schema


def _model_schema(model: type[BaseModel], level: int) -> Json:
    """Return the schema of a model; `level` is its level in the tree of templates, 0 outside."""
    schema: Json = {"type": "object", "description": prose(model.__doc__ or "")}
    if model is Empty:
        return schema
    schema["properties"] = {
        name: _field_schema(field, level) for name, field in model.model_fields.items()
    }
    return schema


def prose(docstring: str) -> str:
    """Return a docstring as one text, with a line for each paragraph."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _field_schema(field: FieldInfo, level: int) -> Json:
    schema = _type_schema(without_none(field.annotation), level)
    schema["description"] = field.description
    if isinstance(field.json_schema_extra, dict):
        schema |= field.json_schema_extra
    for mark in field.metadata:
        if isinstance(mark, ListMap) and "properties" in schema["items"]:
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = [mark.key]
            # A key needs a value before items can be distinguished. The rules reject the empty one.
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
    if get_origin(annotation) is dict:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return _model_schema(annotation, level)
    raise TypeError(f"no schema for {annotation!r}")


def _item_schema(item: Any, level: int) -> Json:
    if level >= MAX_DEPTH and item in {PodGroupTemplate, CompositePodGroupTemplate}:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _type_schema(item, level + (item is CompositePodGroupTemplate))


def without_none(annotation: Any) -> Any:
    """Return the type of an optional field's value."""
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(arg for arg in get_args(annotation) if arg is not type(None))
    return annotation
