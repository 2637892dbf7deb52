"""Strategic merge patch: a merge patch that knows which lists are maps or sets."""

from typing import Any

from localcluster.base.errors import bad_request
from localcluster.base.merge_node import MergeNode

_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"
_DIRECTIVE = "$patch"


def strategic_merge(target: Any, patch: Any, node: MergeNode) -> Any:
    """Return the target after a strategic merge patch. Raises StatusError 400 if malformed."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive not in {None, "merge"}:
        raise bad_request(f"Unknown patch type found: {directive}")
    merged = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_RETAIN]}
    _merge_fields(merged, patch, node)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            if isinstance(merged.get(name), list):
                merged[name] = _reorder(merged[name], value, node.child(name))
    return merged


def _merge_fields(merged: dict[str, Any], patch: dict[str, Any], node: MergeNode) -> None:
    for key, value in patch.items():
        if key.startswith("$"):
            _apply_directive(merged, key, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, node.child(key))


def _apply_directive(merged: dict[str, Any], key: str, value: Any) -> None:
    if key.startswith(_DELETE_PRIMITIVES):
        name = key.removeprefix(_DELETE_PRIMITIVES)
        if name in merged:
            merged[name] = [item for item in merged[name] if item not in value]
    elif not key.startswith(_ORDER) and key not in {_DIRECTIVE, _RETAIN}:
        raise bad_request(f"Unknown patch directive: {key}")


def _merge_value(current: Any, value: Any, node: MergeNode) -> Any:
    if isinstance(value, dict):
        base = current if isinstance(current, dict) else {}
        return strategic_merge(base, value, node)
    if isinstance(value, list) and node.merge_key:
        return _merge_list(current or [], value, node)
    if isinstance(value, list) and node.type == "set":
        have = current or []
        return have + [item for item in value if item not in have]
    return value


def _merge_list(current: list[Any], patch: list[Any], node: MergeNode) -> list[Any]:
    key = node.merge_key
    merged = list(current)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif place is None:
            merged.append(strategic_merge({}, item, node.item))
        else:
            merged[place] = strategic_merge(merged[place], item, node.item)
    return merged


def _reorder(items: list[Any], order: list[Any], node: MergeNode) -> list[Any]:
    """Put the items named in the order into that order; the others keep their positions."""
    key = node.merge_key
    wanted = [entry[key] if isinstance(entry, dict) else entry for entry in order]

    def name_of(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    named = sorted(
        (item for item in items if name_of(item) in wanted),
        key=lambda item: wanted.index(name_of(item)),
    )
    supply = iter(named)
    return [next(supply) if name_of(item) in wanted else item for item in items]
