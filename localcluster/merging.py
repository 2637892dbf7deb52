"""How lists and maps of a kind merge: the rules behind strategic merge and apply."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from localcluster.definitions import builtin
from localcluster.definitions.notation import inline
from localcluster.resources import CRDS


@dataclass(frozen=True, slots=True)
class MergeNode:
    """The merge rules of one value.

    `type` is "granular" for objects that merge field by field and for scalars, "atomic" for values
    that are replaced whole (a list without further word is), "set" for lists of distinct scalars,
    "map" for lists of objects told apart by `keys`. `fields` are the rules of an object's fields,
    `items` those of a list's items or of all values of a map with free keys. A field without a
    rule is granular if an object and atomic if a list.
    """

    type: Literal["granular", "atomic", "set", "map"] = "granular"
    keys: tuple[str, ...] = ()
    fields: Mapping[str, "MergeNode"] = field(default_factory=dict)
    items: "MergeNode | None" = None
    key_defaults: Mapping[str, object] = field(default_factory=dict)
    patch_key: str = ""

    def child(self, name: str) -> "MergeNode":
        """The rules of a field."""
        return self.fields.get(name) or self.items or LEAF

    @property
    def item(self) -> "MergeNode":
        """The rules of a list's items."""
        return self.items or LEAF

    @property
    def merge_key(self) -> str:
        """The one key by which strategic merge tells items apart."""
        return self.patch_key or (self.keys[0] if self.keys else "")


LEAF = MergeNode()
METADATA = MergeNode(
    fields={"ownerReferences": MergeNode("map", ("uid",)), "finalizers": MergeNode("set")}
)
_CONDITIONS = MergeNode("map", ("type",))
GENERAL = MergeNode(
    fields={"metadata": METADATA, "status": MergeNode(fields={"conditions": _CONDITIONS})}
)


@functools.cache
def built_in_rules(collection: tuple[str, str]) -> MergeNode:
    """The rules of a built-in kind."""
    name = builtin.type_name(*collection)
    if name is None or name == CRDS.kind:  # a schema contains schemas, and has no rules of its own
        return GENERAL
    return schema_rules(inline(builtin.types(), name))


def schema_rules(raw: dict[str, Any]) -> MergeNode:
    """The rules of an OpenAPI schema: lists are atomic unless declared sets or maps."""
    items = raw.get("items")
    if items is not None:
        return _list_rules(raw, items)
    if raw.get("x-kubernetes-map-type") == "atomic":
        return MergeNode("atomic")
    values = raw.get("additionalProperties")
    return MergeNode(
        fields={name: schema_rules(one) for name, one in (raw.get("properties") or {}).items()},
        items=schema_rules(values) if isinstance(values, dict) else None,
    )


def _list_rules(raw: dict[str, Any], items: Any) -> MergeNode:
    kind, patch_key = raw.get("x-kubernetes-list-type"), raw.get("x-kubernetes-patch-merge-key", "")
    if kind == "set":
        return MergeNode("set")
    if kind != "map":
        return MergeNode("atomic", patch_key=patch_key)
    keys = tuple(raw["x-kubernetes-list-map-keys"])
    properties = items.get("properties") or {}
    defaults = {
        key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})
    }
    return MergeNode("map", keys, {}, schema_rules(items), defaults, patch_key)
