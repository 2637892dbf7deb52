"""Attribute values of each node's devices, for topology keys that name a device attribute.

A node has a value if all of its devices that have the attribute agree on it. Only attributes that
a group's topology names have a column, which is then updated node by node. An attribute that no
device has needs no column.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.devices.contents import Contents, Seen
from scheduler.core.nodes.node_labels import LabelColumn
from scheduler.core.values.devices import Attribute

MOST_COLUMNS: Final = 64
"""Limit of attributes with a column; the least recently used is dropped first."""


@dataclass(slots=True)
class AttributeColumn:
    """Column of one attribute: the value of each row; `mixed` has the rows with several values."""

    column: LabelColumn
    mixed: set[int] = field(default_factory=set)


class NodeAttributes:
    """Attributes of the devices that each node can use; `version` changes with any value.

    A name is qualified: `domain/name`. A name that a driver writes without a domain is in its own
    domain. A value is text, as with a label. Incomplete and invalid pools have no values.
    """

    def __init__(self) -> None:
        self.version = 0
        self._columns: OrderedDict[str, AttributeColumn] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of attributes with a column."""
        return len(self._columns)

    def column(
        self, name: str, seen_of: Mapping[int, Seen], contents: Contents, size: int
    ) -> AttributeColumn | None:
        """Return the column of an attribute with at least `size` rows, or None if no node has it.

        `seen_of` has the devices that each row sees, numbered by `contents`.
        """
        found = self._columns.get(name)
        if found is None:
            # Groups may name any key: one that no device has gets no column.
            if not contents.names(name):
                return None
            found = self._columns[name] = AttributeColumn(LabelColumn(size))
            self._set(name, found, seen_of, contents, seen_of)
            self._forget()
        self._columns.move_to_end(name)
        _grow(found.column, size)
        return found if found.mixed or len(found.column) else None

    def rows_changed(
        self, rows: Iterable[int], seen_of: Mapping[int, Seen], contents: Contents, size: int
    ) -> None:
        """Update the columns for rows that see other devices now."""
        changed = sorted(rows) if self._columns else ()
        for name, found in self._columns.items():
            _grow(found.column, size)
            if self._set(name, found, changed, contents, seen_of):
                self.version += 1

    def _set(
        self,
        name: str,
        found: AttributeColumn,
        rows: Iterable[int],
        contents: Contents,
        seen_of: Mapping[int, Seen],
    ) -> bool:
        """Set the rows' values; return True if one of them changed."""
        codes = contents.compared(name)
        # Most nodes have equal devices, so their value is computed once for each content.
        known: dict[tuple[int, tuple[int, ...]], tuple[str | None, bool]] = {}
        changed = False
        for row in rows:
            value, mixed = None, False
            if seen := seen_of.get(row):
                key = (seen.frame.number, seen.contents)
                if key not in known:
                    known[key] = _value(name, seen, codes, contents)
                value, mixed = known[key]
            if found.column.value(row) != value:
                found.column.set(row, value)
                changed = True
            if (row in found.mixed) != mixed:
                found.mixed ^= {row}
                changed = True
        return changed

    def _forget(self) -> None:
        """Drop the least recently used column beyond the limit."""
        if len(self._columns) > MOST_COLUMNS:
            self._columns.popitem(last=False)
            # Later changes of the dropped column go unnoticed, so no caller may rely on it.
            self.version += 1


def _value(name: str, seen: Seen, codes: list[int], contents: Contents) -> tuple[str | None, bool]:
    """Return the one value of a node's devices, and whether they have several values instead."""
    visible, value, code = seen.frame.view.visible, None, 0
    for at, number in enumerate(seen.contents):
        if not codes[number] or codes[number] == code or not visible >> at & 1:
            continue
        if code:
            return None, True
        code, value = codes[number], contents.attribute(name, number)
    return (None if value is None else text_of(value)), False


def text_of(attribute: Attribute) -> str:
    """Return the value in the form of a label value."""
    value = attribute.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _grow(column: LabelColumn, size: int) -> None:
    """Grow the column to `size` rows, and at least double it."""
    if len(column.codes) < size:
        column.grow(max(size - len(column.codes), len(column.codes)))
