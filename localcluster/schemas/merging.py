"""The merge rules that a schema declares for server-side apply."""

from typing import Any

from localcluster.mergekeys import MergeNode


def merge_node(raw: dict[str, Any]) -> MergeNode:
    """Return the rules of an openAPIV3Schema: lists are atomic unless declared sets or maps."""
    items = raw.get("items")
    below = merge_node(items) if isinstance(items, dict) else None
    if items is not None:
        return _list_node(raw, items, below)
    if raw.get("x-kubernetes-map-type") == "atomic":
        return MergeNode("atomic")
    values = raw.get("additionalProperties")
    return MergeNode(
        fields={name: merge_node(one) for name, one in (raw.get("properties") or {}).items()},
        items=merge_node(values) if isinstance(values, dict) else None,
    )


def _list_node(raw: dict[str, Any], items: Any, below: MergeNode | None) -> MergeNode:
    kind = raw.get("x-kubernetes-list-type")
    if kind == "set":
        return MergeNode("set")
    if kind != "map":
        return MergeNode("atomic")
    keys = tuple(raw["x-kubernetes-list-map-keys"])
    properties = items.get("properties") or {}
    defaults = {
        key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})
    }
    return MergeNode("map", keys, items=below, key_defaults=defaults)
