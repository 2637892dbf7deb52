"""The result of admission of a Job or JobSet: a patch, faults, warnings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.causes import Cause

Operation = dict[str, Any]

Taken = Callable[[str, str], bool]
"""Whether the group of a kind and name, in the request's namespace, belongs to another owner."""


def no_name_taken(_kind: str, _name: str) -> bool:
    """No name is taken."""
    return False


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer of one admission: JSON patch operations, causes of refusal, warnings.

    A mutating handler applies `patch`, a validating one answers with `causes`; both are computed
    from the object alone, so the second call finds the first one's patch already applied.
    """

    patch: list[Operation] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def set_entries(
    holder: Any, pointer: str, wanted: Mapping[str, Mapping[str, str]]
) -> list[Operation]:
    """Operations that set entries of `metadata.annotations`, `metadata.labels`, or both.

    `holder` is the object or template, `pointer` the JSON pointer to it. Missing maps are made;
    nothing is done where an entry is already so, or where the structure cannot hold it.
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
    """Operations that remove one entry, none where it is not there."""
    metadata = holder.get("metadata") if isinstance(holder, Mapping) else None
    entries = metadata.get(section) if isinstance(metadata, Mapping) else None
    if not isinstance(entries, Mapping) or key not in entries:
        return []
    return [{"op": "remove", "path": f"{pointer}/metadata/{section}/{escape(key)}"}]


def escape(token: str) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}
