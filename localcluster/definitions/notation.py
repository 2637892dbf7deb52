"""A short notation for object types, and the two schemas that are generated from it.

```
JobSpec: The desired state of a Job.
  parallelism int32 min=0: The maximum number of pods that run at once.
  template! PodTemplateSpec: The template of the pods.
  tolerations [Toleration] atomic: The taints that pods tolerate.
```
A type is a line with its name; its fields follow, indented: name (`!` if required), type, options.
Types: string, bool, int32, int64, number, time, quantity, intOrString, any (an object with open
fields), json (any value), the name of another type, `A|B` for one or the other, `[T]` for a list
and `{T}` for a map of T.
Options: `key=a,b` (a list map), `patch=a` (the merge key of strategic merge patch, if different),
`set`, `atomic`, `default=x`, `enum=a|b`, `min=`, `max=`, `minLength=`, `maxLength=`, `maxItems=`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_TYPE = re.compile(r"(?P<name>[A-Z]\w*): (?P<text>.+)")
_FIELD = re.compile(
    r"  (?P<name>[\w$-]+)(?P<required>!?) (?P<type>[^\s:]+)"
    r"(?P<options>(?: \w+(?:=[^\s:]*)?)*): (?P<text>.+)"
)
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"
    r"([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "time": {"type": "string", "format": "date-time"},
    "json": {"x-kubernetes-preserve-unknown-fields": True},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "intOrString": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
    "quantity": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": QUANTITY,
    },
}
_LIMITS = {
    "min": "minimum",
    "max": "maximum",
    "minLength": "minLength",
    "maxLength": "maxLength",
    "maxItems": "maxItems",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type."""

    name: str
    type: str
    required: bool
    options: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Type:
    """One object type."""

    name: str
    text: str
    fields: tuple[Field, ...]


def read(*texts: str) -> dict[str, Type]:
    """Parse types by name. Raises ValueError for an invalid line."""
    types: dict[str, Type] = {}
    current: Type | None = None
    for line in "\n".join(texts).splitlines():
        if not line.strip():
            continue
        if found := _TYPE.fullmatch(line):
            current = Type(found["name"], found["text"], ())
        elif current is not None and (found := _FIELD.fullmatch(line)):
            current = Type(current.name, current.text, (*current.fields, _field(found)))
        else:
            raise ValueError(f"no type and no field: {line!r}")
        types[current.name] = current
    return types


def _field(found: re.Match[str]) -> Field:
    pairs = (word.partition("=") for word in found["options"].split())
    options = {key: value for key, _, value in pairs}
    return Field(found["name"], found["type"], bool(found["required"]), options, found["text"])


def inline(types: Mapping[str, Type], name: str) -> Schema:
    """Return a structural schema with all types expanded in place."""
    return _object(types[name], lambda word: inline(types, word))


def components(types: Mapping[str, Type], prefix: str) -> dict[str, Schema]:
    """Return OpenAPI components, one per type, that refer to each other by `prefix` and name."""

    def reference(word: str) -> Schema:
        return {"allOf": [{"$ref": f"#/components/schemas/{prefix}{word}"}]}

    return {prefix + one.name: _object(one, reference) for one in types.values()}


Resolve = Callable[[str], Schema]


def _object(one: Type, resolve: Resolve) -> Schema:
    schema: Schema = {"description": one.text, "type": "object"}
    if one.fields:
        schema["properties"] = {field.name: _property(field, resolve) for field in one.fields}
    required = [field.name for field in one.fields if field.required]
    return schema | ({"required": required} if required else {})


def _property(field: Field, resolve: Resolve) -> Schema:
    schema = {**_value(field.type, resolve), "description": field.text}
    options = field.options
    if "key" in options:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = options["key"].split(",")
    if "patch" in options:
        schema["x-kubernetes-patch-merge-key"] = options["patch"]
    for word in ("set", "atomic"):
        if word in options:
            is_list = field.type.startswith("[")
            schema["x-kubernetes-list-type" if is_list else "x-kubernetes-map-type"] = word
    if "enum" in options:
        schema["enum"] = options["enum"].split("|")
    if "default" in options:
        is_text = field.type == "string"
        schema["default"] = options["default"] if is_text else json.loads(options["default"])
    for word, limit in _LIMITS.items():
        if word in options:
            schema[limit] = int(options[word])
    return schema


def _value(word: str, resolve: Resolve) -> Schema:
    if word.startswith("["):
        return {"type": "array", "items": _value(word[1:-1], resolve)}
    if word.startswith("{"):
        return {"type": "object", "additionalProperties": _value(word[1:-1], resolve)}
    if "|" in word:
        return dict(_SCALARS["json"])
    scalar = _SCALARS.get(word)
    return {**scalar} if scalar is not None else resolve(word)
