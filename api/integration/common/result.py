"""The result of the admission of an owner: a patch, causes, warnings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.causes import Cause

Operation = dict[str, Any]

Taken = Callable[[str, str], bool]
"""A function that returns True if another owner has the group of a kind and name."""


def no_name_taken(_kind: str, _name: str) -> bool:
    """Return False: no name is taken."""
    return False


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of one admission: JSON patch operations, causes of rejection, warnings.

    A mutating handler applies `patch`, and a validating one responds with `causes`. Both are
    computed from the object alone, so the second call sees the first one's patch.
    """

    patch: list[Operation] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def set_entries(
    holder: Any, pointer: str, wanted: Mapping[str, Mapping[str, str]]
) -> list[Operation]:
    """Return operations that set entries of `metadata.annotations`, `metadata.labels`, or both.

    `holder` is the object or template, and `pointer` the JSON pointer to it. Missing maps are
    created. There is no operation for an entry that is set already, or if the structure is invalid.
    """
    metadata = holder.get("metadata") if isinstance(holder, Mapping) else None
    if not isinstance(holder, Mapping) or not isinstance(metadata, Mapping | None):
        return []
    if metadata is None:
        made = {section: dict(entries) for section, entries in wanted.items() if entries}
        return [_add(f"{pointer}/metadata", made)] if made else []
    return [
        operation
        for section, entries in wanted.items()
        for operation in _set_in(metadata.get(section), f"{pointer}/metadata/{section}", entries)
    ]


def _set_in(known: Any, pointer: str, entries: Mapping[str, str]) -> list[Operation]:
    if known is None:
        return [_add(pointer, dict(entries))] if entries else []
    if not isinstance(known, Mapping):
        return []
    return [
        _add(f"{pointer}/{escape(key)}", value)
        for key, value in entries.items()
        if known.get(key) != value
    ]


def drop_entry(holder: Any, pointer: str, section: str, key: str) -> list[Operation]:
    """Return operations that remove one entry, none if it is not set."""
    metadata = holder.get("metadata") if isinstance(holder, Mapping) else None
    entries = metadata.get(section) if isinstance(metadata, Mapping) else None
    if not isinstance(entries, Mapping) or key not in entries:
        return []
    return [{"op": "remove", "path": f"{pointer}/metadata/{section}/{escape(key)}"}]


def escape(token: str) -> str:
    """Return a token of a JSON pointer, escaped (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}
