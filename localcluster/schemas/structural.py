"""Validation of schemas: only structural schemas are stored.

A structural schema specifies the type of every value outside of its junctors (allOf, anyOf, oneOf,
not), which may only restrict values. Features that this server cannot enforce are rejected here,
never ignored.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import forbidden, invalid, not_supported, required
from localcluster.schemas import rules
from localcluster.schemas.defaulting import default
from localcluster.schemas.patterns import UNKNOWN_HERE, PatternError, compile_pattern
from localcluster.schemas.pruning import prune
from localcluster.schemas.schema import parse
from localcluster.schemas.validation import validate

JSON = dict[str, Any]
Level = Literal["root", "item", "field"]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_MISSING_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_REFUSED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems")


def check(raw: JSON, path: str) -> list[Cause]:
    """Return every reason to reject the schema at `path` (`spec.versions[0].schema...`)."""
    causes = _check_node(raw, path, "root")
    if not causes:
        causes = _check_defaults(raw, path)
    return causes


def _check_node(raw: JSON, path: str, level: Level) -> list[Cause]:
    causes = _check_type(raw, path, level) + _check_extensions(raw, path)
    causes += _check_own_words(raw, path) + _check_list_type(raw, path)
    for name, below in (raw.get("properties") or {}).items():
        causes += _check_node(below, f"{path}.properties[{name}]", "field")
    if isinstance(raw.get("additionalProperties"), dict):
        here = f"{path}.additionalProperties"
        causes += _check_node(raw["additionalProperties"], here, "field")
    if raw.get("additionalProperties") is not None and raw.get("properties"):
        causes.append(
            forbidden(
                f"{path}.additionalProperties",
                "additionalProperties and properties are mutual exclusive",
            )
        )
    if raw.get("additionalProperties") is not None and level == "root":
        causes.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if isinstance(raw.get("items"), dict):
        causes += _check_node(raw["items"], f"{path}.items", "item")
    if level == "root" or raw.get("x-kubernetes-embedded-resource"):
        causes += _check_metadata(raw, path, level)
    return causes + _check_junctors(raw, path)


def _check_type(raw: JSON, path: str, level: Level) -> list[Cause]:
    kind = raw.get("type") or ""
    here = f"{path}.type"
    if kind and kind not in TYPES:
        return [not_supported(here, kind, TYPES)]
    embedded = "must be object if x-kubernetes-embedded-resource is true"
    if raw.get("x-kubernetes-embedded-resource") and kind != "object":
        return [invalid(here, kind, embedded) if kind else required(here, embedded)]
    untyped = raw.get("x-kubernetes-int-or-string") or raw.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if not kind and not untyped:
        return [required(here, _MISSING_TYPE[level])]
    if level == "root" and kind and kind != "object":
        return [invalid(here, kind, "must be object at the root")]
    if kind == "array" and not isinstance(raw.get("items"), dict):
        return [required(f"{path}.items", "must be specified")]
    return []


def _check_extensions(raw: JSON, path: str) -> list[Cause]:
    causes = []
    preserve = "x-kubernetes-preserve-unknown-fields"
    embedded = "x-kubernetes-embedded-resource"
    if raw.get("x-kubernetes-int-or-string"):
        causes += [
            invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")
            for name in (preserve, embedded)
            if raw.get(name)
        ]
        if raw.get("type"):
            detail = "must be empty if x-kubernetes-int-or-string is true"
            causes.append(invalid(f"{path}.type", raw["type"], detail))
    if raw.get(preserve) is False:
        causes.append(invalid(f"{path}.{preserve}", False, "must be true or undefined"))
    if raw.get(embedded) and not raw.get(preserve) and not raw.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        )
        causes.append(required(f"{path}.properties", detail))
    return causes


def _check_own_words(raw: JSON, path: str) -> list[Cause]:
    """Return the errors of patterns, formats, CEL rules, and unsupported keywords."""
    causes = [
        forbidden(f"{path}.{name}", f"{name} is not supported") for name in _REFUSED if name in raw
    ]
    if raw.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{path}.uniqueItems", detail))
    if raw.get("pattern"):
        try:
            compile_pattern(raw["pattern"])
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            causes.append(invalid(f"{path}.pattern", raw["pattern"], detail))
    if str(raw.get("format", "")).replace("-", "") in UNKNOWN_HERE:
        causes.append(
            invalid(f"{path}.format", raw["format"], "this server cannot check this format")
        )
    for index, rule in enumerate(raw.get("x-kubernetes-validations") or ()):
        causes += _check_rule(rule, f"{path}.x-kubernetes-validations[{index}]")
    return causes


def _check_rule(raw: JSON, path: str) -> list[Cause]:
    if not str(raw.get("rule") or "").strip():
        return [required(f"{path}.rule", "rule is not specified")]
    parsed = parse({"x-kubernetes-validations": [raw]}).rules[0]
    return rules.check_source(parsed, path)


def _check_list_type(raw: JSON, path: str) -> list[Cause]:
    kind, keys = raw.get("x-kubernetes-list-type"), raw.get("x-kubernetes-list-map-keys") or []
    here, where = f"{path}.x-kubernetes-list-type", f"{path}.x-kubernetes-list-map-keys"
    if kind is None:
        return (
            [required(here, "must be map if x-kubernetes-list-map-keys is non-empty")]
            if keys
            else []
        )
    if kind not in {"atomic", "set", "map"}:
        return [not_supported(here, kind, ("atomic", "map", "set"))]
    if raw.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        return [invalid(f"{path}.type", raw.get("type") or "", detail)]
    if kind == "set":
        return _check_set(raw, path)
    if kind != "map":
        return (
            [forbidden(where, "must be empty if x-kubernetes-list-type is not map")] if keys else []
        )
    return _check_map_keys(raw, path, keys, where)


def _check_set(raw: JSON, path: str) -> list[Cause]:
    items = raw.get("items") or {}
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    where, word = f"{path}.items", ""
    if items.get("type") == "array":
        word = "x-kubernetes-list-type"
    elif items.get("type") == "object":
        word = "x-kubernetes-map-type"
    if not word or items.get(word) == "atomic":
        return []
    return [invalid(f"{where}.{word}", items.get(word), detail)]


def _check_map_keys(raw: JSON, path: str, keys: list[str], where: str) -> list[Cause]:
    if not keys:
        return [required(where, "must not be empty if x-kubernetes-list-type is map")]
    items = raw.get("items") or {}
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        return [invalid(f"{path}.items.type", items.get("type") or "", detail)]
    causes = []
    for index, key in enumerate(keys):
        key_schema = (items.get("properties") or {}).get(key)
        if key_schema is None:
            detail = "entries must all be names of item properties"
            causes.append(invalid(f"{where}[{index}]", key, detail))
        elif key not in (items.get("required") or []) and "default" not in key_schema:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a"
                " required property"
            )
            causes.append(required(f"{path}.items.properties[{key}].default", detail))
    return causes


def _check_metadata(raw: JSON, path: str, level: Level) -> list[Cause]:
    causes = []
    properties = raw.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            here = f"{path}.properties[{name}].type"
            causes.append(invalid(here, properties[name].get("type") or "", "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return causes
    here = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        causes.append(invalid(f"{here}.type", metadata.get("type") or "", "must be object"))
    allowed = {"name", "generateName"}
    extra = set(metadata) - {"type", "properties", "description"}
    if level == "root" and (extra or set(metadata.get("properties") or ()) - allowed):
        detail = (
            "must not specify anything other than name and generateName, but metadata is"
            " implicitly specified"
        )
        causes.append(forbidden(here, detail))
    return causes


def _check_junctors(raw: JSON, path: str) -> list[Cause]:
    causes = []
    skip = set()
    if raw.get("x-kubernetes-int-or-string"):
        if raw.get("anyOf") == _INT_OR_STRING:
            skip.add(f"{path}.anyOf")
        elif raw.get("allOf") and raw["allOf"][0].get("anyOf") == _INT_OR_STRING:
            skip.add(f"{path}.allOf[0].anyOf")
    for word in _JUNCTORS:
        if f"{path}.{word}" in skip:
            continue
        for index, nested in enumerate(raw.get(word) or ()):
            causes += _check_nested(nested, raw, f"{path}.{word}[{index}]", skip)
    if raw.get("not"):
        causes += _check_nested(raw["not"], raw, f"{path}.not", skip)
    return causes


def _check_nested(nested: JSON, spine: JSON, path: str, skip: set[str]) -> list[Cause]:
    """Check a schema under a junctor: it may only restrict values that the main schema declares."""
    causes = [
        forbidden(f"{path}.{name}", detail)
        for name, detail in _NOT_NESTED.items()
        if nested.get(name) not in (None, "", False, [])
    ]
    for name, below in (nested.get("properties") or {}).items():
        here = f"{path}.properties[{name}]"
        declared = (spine.get("properties") or {}).get(name)
        if name == "metadata":
            causes.append(forbidden(here, "must not be specified in a nested context"))
        if declared is None:
            where = here.replace(path, path.rsplit(".", 1)[0], 1)
            causes.append(required(where, f"because it is defined in {here}"))
        else:
            causes += _check_nested(below, declared, here, skip)
    for word in _JUNCTORS:
        for index, below in enumerate(nested.get(word) or ()):
            if f"{path}.{word}" not in skip:
                causes += _check_nested(below, spine, f"{path}.{word}[{index}]", skip)
    if isinstance(nested.get("items"), dict):
        causes += _check_nested(nested["items"], spine.get("items") or {}, f"{path}.items", skip)
    if nested.get("not"):
        causes += _check_nested(nested["not"], spine, f"{path}.not", skip)
    return causes


def _check_defaults(raw: JSON, path: str) -> list[Cause]:
    """Check that each default is valid, unpruned, by its own schema."""
    causes: list[Cause] = []
    if "default" in raw:
        causes += _check_default(raw, f"{path}.default")
    for name, below in (raw.get("properties") or {}).items():
        causes += _check_defaults(below, f"{path}.properties[{name}]")
    for name in ("additionalProperties", "items"):
        if isinstance(raw.get(name), dict):
            causes += _check_defaults(raw[name], f"{path}.{name}")
    return causes


def _check_default(raw: JSON, path: str) -> list[Cause]:
    schema = parse(raw)
    value = {"value": copy.deepcopy(raw["default"])}
    holder = parse({"type": "object", "properties": {"value": raw}})
    default(value, holder)
    if prune(value, holder):
        return [invalid(path, raw["default"], "must not have unknown fields")]
    return [
        Cause(path + cause.field.removeprefix("<nil>"), cause.reason, cause.message)
        for cause in validate(value["value"], schema)
    ]
