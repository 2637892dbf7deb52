"""Field sets in the format of FieldsV1, and the differences between two objects in that format.

A set is a nested dict: `f:NAME` for a field, `k:{...}` for an item of a keyed list, `v:...` for a
value of a set. A `.` inside a node marks the node itself as a member; an empty node is a leaf.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from localcluster.base.merge_node import MergeNode

FieldSet = dict[str, Any]
Path = tuple[str, ...]

SYSTEM_META = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "selfLink",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def item_key(item: Any, node: MergeNode) -> str:
    """Return the path element of a list item: `k:` and its keys, or `v:` and its value.

    An item that is not an object has no keys; its schema rejects it later.
    """
    if node.type == "set" or not isinstance(item, dict):
        return "v:" + _encode(item).decode()
    keys = {name: item.get(name, node.key_defaults.get(name)) for name in node.keys}
    return (
        "k:" + _encode({name: value for name, value in keys.items() if value is not None}).decode()
    )


def by_key(items: Any, node: MergeNode) -> dict[str, Any]:
    """Return the items of a keyed list or set by their path elements."""
    return {item_key(item, node): item for item in items or ()}


def owned(value: Any, node: MergeNode) -> FieldSet:
    """Return the set of all leaves of a value."""
    if node.type in {"map", "set"} and isinstance(value, list):
        out: FieldSet = {}
        for key, item in by_key(value, node).items():
            out[key] = {".": {}, **owned(item, node.item)} if isinstance(item, dict) else {}
        return out
    if isinstance(value, dict) and node.type != "atomic":
        return {
            f"f:{name}": owned(item, node.child(name))
            for name, item in value.items()
            if item or name != "metadata"  # a template's empty metadata is not owned
        }
    return {}


def owned_by_object(obj: dict[str, Any], node: MergeNode) -> FieldSet:
    """Return the set of all leaves of an object except its identity and server-written fields."""
    out: FieldSet = {}
    for name, value in obj.items():
        if name in {"apiVersion", "kind"}:
            continue
        rules = node.child(name)
        if name == "metadata":
            value = {key: item for key, item in value.items() if key not in SYSTEM_META}  # noqa: PLW2901
            if not value:
                continue
        out[f"f:{name}"] = owned(value, rules)
    return out


class Differences:
    """Paths of the added or changed leaves, and of the removed ones."""

    def __init__(self, old: dict[str, Any], new: dict[str, Any], node: MergeNode) -> None:
        """Compare two objects except for their identity and server-written fields."""
        self.changed: list[Path] = []
        self.removed: list[Path] = []
        for name in {**old, **new}:
            if name in {"apiVersion", "kind"}:
                continue
            before, after = old.get(name), new.get(name)
            if name == "metadata":
                before, after = _user_meta(before), _user_meta(after)
            self._compare(before, after, node.child(name), (f"f:{name}",))

    def _compare(self, old: Any, new: Any, node: MergeNode, path: Path) -> None:
        if old == new:
            return
        if node.type != "atomic" and isinstance(old or new, dict):
            self._compare_maps(old, new, node, path)
        elif node.type in {"map", "set"} and isinstance(old or new, list):
            self._compare_lists(old, new, node, path)
        elif new is None:
            self.removed.append(path)
        else:
            self.changed.append(path)

    def _compare_maps(self, old: Any, new: Any, node: MergeNode, path: Path) -> None:
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        if new is None:
            self.removed.append(path)
        elif old is None and not after and path[-1] != "f:metadata":
            self.changed.append(path)
        for name in {**before, **after}:
            inner = before.get(name), after.get(name)
            self._compare(*inner, node.child(name), (*path, f"f:{name}"))

    def _compare_lists(self, old: Any, new: Any, node: MergeNode, path: Path) -> None:
        before, after = by_key(old, node), by_key(new, node)
        for key in {**before, **after}:
            way = (*path, key)
            if key not in after:
                self.removed.append(way)
            elif key not in before:
                self.changed.append(way)
            if node.type == "map":
                self._compare(before.get(key), after.get(key), node.item, way)


def _user_meta(meta: Any) -> Any:
    return {key: value for key, value in (meta or {}).items() if key not in SYSTEM_META}


def insert(fields: FieldSet, path: Path) -> None:
    """Add a path to the set."""
    at = fields
    for element in path:
        if element not in at:
            at[element] = {}
        at = at[element]
    if at or path[-1][:2] == "k:":
        at["."] = {}


def discard(fields: FieldSet, path: Path) -> None:
    """Remove a path from the set; members below it remain."""
    trail = []
    at = fields
    for element in path:
        if element not in at:
            return
        trail.append((at, element))
        at = at[element]
    at.pop(".", None)
    while trail and not trail[-1][0][trail[-1][1]]:
        parent, element = trail.pop()
        del parent[element]


def members(fields: FieldSet, path: Path = ()) -> Iterator[Path]:
    """Yield all member paths."""
    for element, inner in fields.items():
        if element == ".":
            yield path
        elif not inner:
            yield (*path, element)
        else:
            yield from members(inner, (*path, element))


def contains(fields: FieldSet, path: Path) -> bool:
    """Return True if a path is a member."""
    at = fields
    for element in path:
        if element not in at:
            return False
        at = at[element]
    return not at or "." in at


def touches(fields: FieldSet, path: Path) -> bool:
    """Return True if a path or anything below it is a member."""
    at = fields
    for element in path:
        if element not in at:
            return False
        at = at[element]
    return True


def shown(path: Path) -> str:
    """Format a path for messages: `.spec.containers[name="x"].image`."""
    out = ""
    for element in path:
        kind, text = element[:2], element[2:]
        if kind == "f:":
            out += f".{text}"
        elif kind == "k:":
            pairs = _decode(text).items()
            out += "[" + ",".join(f"{k}={_encode(v).decode()}" for k, v in pairs) + "]"
        else:
            out += f"[={text}]"
    return out
