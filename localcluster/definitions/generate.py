"""Generates kubernetes.txt, the fields of the built-in kinds, from Kubernetes' published OpenAPI.

`python -m localcluster.definitions.generate FOLDER`, where FOLDER is `api/openapi-spec/v3` of the
Go module k8s.io/kubernetes (README.md explains where to find it). Only the first sentence of each
description is kept.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localcluster.base.resources import ResourceInfo
from localcluster.definitions.builtin import DESCRIBED, FILE

Schema = dict[str, Any]

# Types that the schema does not describe, in the notation.
_SPECIAL = {
    "Quantity": "quantity",
    "IntOrString": "intOrString",
    "Time": "time",
    "MicroTime": "time",
    "JSON": "json",
    "FieldsV1": "any",
    "RawExtension": "any",
    "JSONSchemaPropsOrArray": "JSONSchemaProps",
    "JSONSchemaPropsOrBool": "JSONSchemaProps|bool",
    "JSONSchemaPropsOrStringArray": "any",
}
# Two types share one short name; the one that is not a kind gets its group as suffix.
_QUALIFIED = {"io.k8s.api.core.v1.ResourceClaim": "ResourceClaim_core"}
_SCALARS = {"string": "string", "boolean": "bool", "integer": "int32", "number": "number"}


def documents(folder: Path) -> dict[str, Schema]:
    """Return all schemas of the groups and versions of these kinds, by their full names."""
    schemas: dict[str, Schema] = {}
    for where in sorted({(info.group, info.version) for info in DESCRIBED}):
        group, version = where
        name = f"apis__{group}__{version}" if group else f"api__{version}"
        document = json.loads((folder / f"{name}_openapi.json").read_text())
        schemas |= document["components"]["schemas"]
    return schemas


def root(schemas: dict[str, Schema], info: ResourceInfo) -> str:
    """Return the full name of the schema of a kind."""
    wanted = {"group": info.group, "version": info.version, "kind": info.kind}
    return next(
        name
        for name, schema in schemas.items()
        if wanted in schema.get("x-kubernetes-group-version-kind", ())
    )


def lines(schemas: dict[str, Schema]) -> Iterator[str]:
    """Yield all types of all kinds in the notation, each after its first user.

    Raises ValueError if two types share a name but not their fields.
    """
    todo = [root(schemas, info) for info in reversed(DESCRIBED)]
    done: dict[str, str] = {}
    while todo:
        full = todo.pop()
        short = _short(full)
        if short in _SPECIAL:
            continue
        schema = schemas[full]
        required = schema.get("required", ())
        fields = [
            _field(name, one, atomic=_atomic(schemas, one), required=name in required)
            for name, one in schema.get("properties", {}).items()
        ]
        shape = re.sub(": .*", "", "\n".join(fields))
        if short in done:
            if done[short] != shape:
                raise ValueError(f"{full}: another type has its short name")
            continue
        done[short] = shape
        yield f"{short}: {_sentence(schema)}"
        yield from fields
        todo += reversed(
            [ref for one in schema.get("properties", {}).values() for ref in _references(one)]
        )


def _short(full: str) -> str:
    return _QUALIFIED.get(full) or full.rpartition(".")[2]


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for name, one in value.items():
            if name != "default":
                yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _atomic(schemas: dict[str, Schema], field: Schema) -> bool:
    """Return True if the field's type is always replaced completely (atomic)."""
    names = _references(field) if field.get("type") is None else ()
    return any(schemas[name].get("x-kubernetes-map-type") == "atomic" for name in names)


def _field(name: str, schema: Schema, *, atomic: bool, required: bool) -> str:
    options = list(_options(schema, required=required))
    if atomic and "atomic" not in options:
        options.insert(0, "atomic")
    words = [name + "!" * required, _type(schema), *options]
    return f"  {' '.join(words)}: {_sentence(schema)}"


def _type(schema: Schema) -> str:
    if "allOf" in schema:
        return _type(schema["allOf"][0])
    if "$ref" in schema:
        short = _short(str(schema["$ref"]).rpartition("/")[2])
        return _SPECIAL.get(short, short)
    if schema["type"] == "array":
        return f"[{_type(schema['items'])}]"
    if "additionalProperties" in schema:
        return f"{{{_type(schema['additionalProperties'])}}}"
    form = schema.get("format", "")
    return str(form) if form in {"int32", "int64"} else _SCALARS[str(schema["type"])]


def _options(schema: Schema, *, required: bool) -> Iterator[str]:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    kind = schema.get("x-kubernetes-list-type") or schema.get("x-kubernetes-map-type")
    if keys:
        yield f"key={','.join(keys)}"
    elif kind in {"set", "atomic"}:
        yield kind
    patch_key = schema.get("x-kubernetes-patch-merge-key")
    if patch_key and patch_key not in keys[:1]:
        yield f"patch={patch_key}"
    default = schema.get("default")
    if default is not None and not required and not isinstance(default, (dict, list)):
        yield f"default={default if isinstance(default, str) else json.dumps(default)}"


def _sentence(schema: Schema) -> str:
    text = schema.get("description", "").strip().split("\n")[0]
    return re.split(r"(?<=\.)(?<!e\.g\.)(?<!i\.e\.)\s", text)[0] or "Not described."


if __name__ == "__main__":
    FILE.write_text("\n".join(lines(documents(Path(sys.argv[1])))) + "\n")
