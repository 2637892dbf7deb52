"""The merge rules of a kind's lists and maps, for strategic merge patch and apply."""

import functools
from typing import Any

from localcluster.base.merge_node import MergeNode
from localcluster.base.resources import CRDS
from localcluster.definitions import builtin
from localcluster.definitions.notation import inline

METADATA = MergeNode(
    fields={"ownerReferences": MergeNode("map", ("uid",)), "finalizers": MergeNode("set")}
)
_CONDITIONS = MergeNode("map", ("type",))
GENERAL = MergeNode(
    fields={"metadata": METADATA, "status": MergeNode(fields={"conditions": _CONDITIONS})}
)


@functools.cache
def built_in_rules(collection: tuple[str, str]) -> MergeNode:
    """Return the merge rules of a built-in kind."""
    name = builtin.type_name(*collection)
    if name is None or name == CRDS.kind:  # a schema contains schemas and has no own rules
        return GENERAL
    return schema_rules(inline(builtin.types(), name))


def schema_rules(raw: dict[str, Any]) -> MergeNode:
    """Return the rules of an OpenAPI schema: lists are atomic unless declared sets or maps."""
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
