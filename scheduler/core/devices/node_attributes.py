"""What the devices of each node say: the value of an attribute that all that have it agree on.

Only attributes that somebody asks for have a column; it is then kept up to date node by node. An
attribute that no device has needs none.
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
"""So many attributes have a column; the one asked for the longest ago gives way."""


@dataclass(slots=True)
class AttributeColumn:
    """One attribute. `column` has the value of each row, `mixed` the rows with several values."""

    column: LabelColumn
    mixed: set[int] = field(default_factory=set)


class NodeAttributes:
    """The attributes of the devices that each node can use; `version` changes with any value.

    A name is qualified: `domain/name`. One that a driver writes without a domain is in its own. As
    with a label, a value is text. Pools that are incomplete or invalid say nothing.
    """

    def __init__(self) -> None:
        self.version = 0
        self._columns: OrderedDict[str, AttributeColumn] = OrderedDict()

    def __len__(self) -> int:
        """How many attributes have a column."""
        return len(self._columns)

    def column(
        self, name: str, seen_of: Mapping[int, Seen], contents: Contents, size: int
    ) -> AttributeColumn | None:
        """The column of an attribute, with at least `size` rows; None if no node has the attribute.

        `seen_of` is what each row sees, of these `contents`.
        """
        found = self._columns.get(name)
        if found is None:
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
        """These rows see other devices."""
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
        """Set the rows' values; whether one is not as before."""
        codes = contents.compared(name)
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
        """What was made of the column that goes would not be known to be outdated."""
        if len(self._columns) > MOST_COLUMNS:
            self._columns.popitem(last=False)
            self.version += 1


def _value(name: str, seen: Seen, codes: list[int], contents: Contents) -> tuple[str | None, bool]:
    """The one value of what a node sees, and whether there are several instead."""
    visible, value, code = seen.frame.view.visible, None, 0
    for at, number in enumerate(seen.contents):
        if not codes[number] or codes[number] == code or not visible >> at & 1:
            continue
        if code:
            return None, True
        code, value = codes[number], contents.attribute(name, number)
    return (None if value is None else text_of(value)), False


def text_of(attribute: Attribute) -> str:
    """The value as a label would have it."""
    value = attribute.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _grow(column: LabelColumn, size: int) -> None:
    """Double the number of rows until there are enough."""
    if len(column.codes) < size:
        column.grow(max(size - len(column.codes), len(column.codes)))
