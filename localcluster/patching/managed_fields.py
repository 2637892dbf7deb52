"""metadata.managedFields: the last writer of each field, for updates and for apply."""

from collections.abc import Iterable
from typing import Any

from localcluster.base.errors import Cause, apply_conflict
from localcluster.base.merge_node import MergeNode
from localcluster.patching import fields
from localcluster.patching.fields import Path
from localcluster.patching.patch import copy

Object = dict[str, Any]
BEFORE = "before-first-apply"


class ManagedFields:
    """The managers of one object and their field sets; works on copies that `write` stores."""

    def __init__(self, entries: Iterable[Object]) -> None:
        """Read the managedFields of an object."""
        self.entries: list[Object] = copy([e for e in entries if e.get("manager") is not None])

    def find(
        self, manager: str, operation: str, subresource: str, api_version: str = ""
    ) -> Object | None:
        """Return the entry of a manager; updates have one for each version they were sent in."""
        for entry in self.entries:
            same = entry["manager"] == manager and entry["operation"] == operation
            if operation == "Update" and entry.get("apiVersion") != api_version:
                continue
            if same and entry.get("subresource", "") == subresource:
                return entry
        return None

    def take(
        self, manager: str, operation: str, subresource: str, api_version: str, now: str
    ) -> Object:
        """Return the entry of a manager, creating it if there is none."""
        entry = self.find(manager, operation, subresource, api_version)
        if entry is None:
            entry = {
                "manager": manager,
                "operation": operation,
                "apiVersion": api_version,
                "time": now,
                "fieldsType": "FieldsV1",
                "fieldsV1": {},
            }
            if subresource:
                entry["subresource"] = subresource
            self.entries.append(entry)
        entry["apiVersion"] = api_version
        return entry

    def disown(self, paths: Iterable[Path], keep: Object | None = None) -> None:
        """Remove paths from every manager except one."""
        for path in paths:
            for entry in self.entries:
                if entry is not keep:
                    fields.discard(entry["fieldsV1"], path)

    def write(self, obj: Object) -> None:
        """Write the entries that own fields into the object."""
        kept = [entry for entry in self.entries if entry["fieldsV1"]]
        if kept:
            obj["metadata"]["managedFields"] = kept
        else:
            obj["metadata"].pop("managedFields", None)


def on_create(obj: Object, node: MergeNode, manager: str, api_version: str, now: str) -> None:
    """Record that the creator of a new object owns all of it."""
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields.owned_by_object(obj, node),
    }
    obj["metadata"]["managedFields"] = [entry] if entry["fieldsV1"] else []


def on_update(
    old: Object,
    new: Object,
    node: MergeNode,
    *,
    manager: str,
    subresource: str,
    api_version: str,
    now: str,
) -> None:
    """Record that the writer of an update owns the fields it changed."""
    said = new["metadata"].get("managedFields")
    if said in ([], [{}]):
        new["metadata"].pop("managedFields", None)
        return
    ledger = ManagedFields(said or old["metadata"].get("managedFields") or ())
    found = fields.Differences(old, new, node)
    changed = found.changed
    ledger.disown(found.removed)
    if changed:
        entry = ledger.take(manager, "Update", subresource, api_version, now)
        ledger.disown(changed, keep=entry)
        for path in changed:
            fields.insert(entry["fieldsV1"], path)
        entry["time"] = now
    ledger.write(new)


def apply(
    live: Object,
    config: Object,
    node: MergeNode,
    *,
    manager: str,
    subresource: str,
    force: bool,
    now: str,
) -> Object:
    """Return the live object after a server-side apply of `config`.

    Raises StatusError 409 with a cause for each field that another manager owns with another value,
    unless `force`.
    """
    ledger = ManagedFields(live["metadata"].get("managedFields") or ())
    if not ledger.entries and "uid" in live["metadata"]:
        before = ledger.take(BEFORE, "Update", "", live["apiVersion"], now)
        before["fieldsV1"] = fields.owned_by_object(live, node)
    wanted = fields.owned_by_object(config, node)
    entry = ledger.find(manager, "Apply", subresource)
    previous = entry["fieldsV1"] if entry else {}
    merged: Object = _merge(live, config, node)
    dropped = [path for path in fields.members(previous) if not fields.contains(wanted, path)]
    others = [other for other in ledger.entries if other is not entry]
    gone = [p for p in dropped if not any(fields.touches(o["fieldsV1"], p) for o in others)]
    for path in sorted(gone, key=len):
        if not fields.touches(wanted, path):
            _remove(merged, path, node)
    changed = fields.Differences(live, merged, node).changed
    _settle(others, [path for path in changed if fields.touches(wanted, path)], force=force)
    entry = ledger.take(manager, "Apply", subresource, config["apiVersion"], now)
    if entry["fieldsV1"] != wanted:
        entry["time"] = now
    entry["fieldsV1"] = wanted
    ledger.write(merged)
    return merged


def _settle(others: list[Object], changed: list[Path], *, force: bool) -> None:
    """Raise a conflict for fields that others own, or take over their ownership if forced."""
    clashes: list[tuple[Object, Path]] = []
    for other in others:
        clashes += [(other, path) for path in changed if fields.contains(other["fieldsV1"], path)]
    if clashes and not force:
        raise _conflict(clashes)
    for other, path in clashes:
        fields.discard(other["fieldsV1"], path)


def _conflict(clashes: list[tuple[Object, Path]]) -> Exception:
    causes = []
    by_manager: dict[str, list[str]] = {}
    for other, path in clashes:
        who = f'conflict with "{other["manager"]}"'
        if other.get("subresource"):
            who += f' with subresource "{other["subresource"]}"'
        if other["operation"] == "Update":
            who += f" using {other['apiVersion']}"
        by_manager.setdefault(who, []).append(fields.shown(path))
        causes.append(Cause(fields.shown(path), "FieldManagerConflict", who))
    count = len(clashes)
    if count == 1:
        who, paths = next(iter(by_manager.items()))
        message = f"Apply failed with 1 conflict: {who}: {paths[0]}"
    else:
        lines = [f"{who}:\n- " + "\n- ".join(paths) for who, paths in sorted(by_manager.items())]
        message = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return apply_conflict(causes, message)


def _merge(live: Any, config: Any, node: MergeNode) -> Any:
    if isinstance(config, dict) and isinstance(live, dict) and node.type != "atomic":
        merged = dict(live)
        for name, value in config.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = _merge(live.get(name), value, node.child(name))
        return merged
    if isinstance(config, list) and isinstance(live, list) and node.type in {"map", "set"}:
        merged_items = fields.by_key(live, node)
        for key, item in fields.by_key(config, node).items():
            merged_items[key] = _merge(merged_items.get(key), item, node.item)
        return list(merged_items.values())
    return config


def _remove(obj: Any, path: Path, node: MergeNode) -> None:
    """Remove the value at a path, and the containers that become empty."""
    element, rest = path[0], path[1:]
    if element.startswith("f:"):
        name = element[2:]
        if not isinstance(obj, dict) or name not in obj:
            return
        if not rest:
            del obj[name]
            return
        child = obj[name] = _own(obj[name])
        _remove(child, rest, node.child(name))
        if child in ({}, []) and name != "metadata":
            del obj[name]
        return
    if not isinstance(obj, list):
        return
    for index, item in enumerate(obj):
        if fields.item_key(item, node) == element:
            if rest:
                obj[index] = _own(item)
                _remove(obj[index], rest, node.item)
            else:
                del obj[index]
            return


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value
