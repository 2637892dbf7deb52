"""The parsed form of an openAPIV3Schema: one immutable node for each value in an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from localcluster.schemas.patterns import Pattern, compile_pattern


class Unset:
    """The type of UNSET: no value at all, unlike null."""


UNSET: Final = Unset()

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of x-kubernetes-validations."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    optional_old_self: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """One value in an object.

    `additional` is None (closed), True (open) or the values' schema.

    The `any_default`, `any_list` and `any_rule` flags are set if this node or a descendant needs
    the pass of that name, so that a pass can skip subtrees.
    """

    type: str = ""
    format: str = ""
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    properties: Mapping[str, Schema] = field(default_factory=dict)
    additional: Schema | bool | None = None
    items: Schema | None = None
    default: Any = UNSET
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: Pattern | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    negated: Schema | None = None
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    any_default: bool = False
    any_list: bool = False
    any_rule: bool = False

    @property
    def values(self) -> Schema | None:
        """The schema of a map's values, if it has one."""
        return self.additional if isinstance(self.additional, Schema) else None

    def child(self, key: str) -> Schema | None:
        """Return the schema of the value at `key`, or None."""
        return self.properties.get(key) or self.values


def _all(raw: Any) -> tuple[Schema, ...]:
    return tuple(parse(one) for one in raw or ())


def _additional(raw: Any) -> Schema | bool | None:
    if raw is None or raw is False:
        return None
    return True if raw is True else parse(raw)


def _rules(raw: Any) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            rule=one["rule"],
            message=one.get("message", ""),
            message_expression=one.get("messageExpression", ""),
            reason=one.get("reason") or "FieldValueInvalid",
            field_path=one.get("fieldPath", ""),
            optional_old_self=bool(one.get("optionalOldSelf")),
        )
        for one in raw or ()
    )


def parse(raw: JSON) -> Schema:
    """Parse a schema that `structural.check` accepted."""
    properties = {name: parse(one) for name, one in (raw.get("properties") or {}).items()}
    additional = _additional(raw.get("additionalProperties"))
    items = parse(raw["items"]) if raw.get("items") else None
    below = [*properties.values()]
    below += [one for one in (additional, items) if isinstance(one, Schema)]
    rules = _rules(raw.get("x-kubernetes-validations"))
    list_type = raw.get("x-kubernetes-list-type") or ""
    default = raw.get("default", UNSET)
    return Schema(
        type=raw.get("type") or "",
        format=raw.get("format") or "",
        nullable=bool(raw.get("nullable")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        preserve_unknown=bool(raw.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(raw.get("x-kubernetes-embedded-resource")),
        properties=properties,
        additional=additional,
        items=items,
        default=default,
        required=tuple(raw.get("required") or ()),
        enum=tuple(raw["enum"]) if raw.get("enum") is not None else None,
        minimum=raw.get("minimum"),
        maximum=raw.get("maximum"),
        exclusive_minimum=bool(raw.get("exclusiveMinimum")),
        exclusive_maximum=bool(raw.get("exclusiveMaximum")),
        multiple_of=raw.get("multipleOf"),
        min_length=raw.get("minLength"),
        max_length=raw.get("maxLength"),
        pattern=compile_pattern(raw["pattern"]) if raw.get("pattern") else None,
        min_items=raw.get("minItems"),
        max_items=raw.get("maxItems"),
        unique_items=bool(raw.get("uniqueItems")),
        min_properties=raw.get("minProperties"),
        max_properties=raw.get("maxProperties"),
        all_of=_all(raw.get("allOf")),
        any_of=_all(raw.get("anyOf")),
        one_of=_all(raw.get("oneOf")),
        negated=parse(raw["not"]) if raw.get("not") else None,
        list_type=list_type,
        list_map_keys=tuple(raw.get("x-kubernetes-list-map-keys") or ()),
        rules=rules,
        any_default=default is not UNSET or any(one.any_default for one in below),
        any_list=list_type in {"set", "map"} or any(one.any_list for one in below),
        any_rule=bool(rules) or any(one.any_rule for one in below),
    )
