"""The labels of nodes as columns of numbers, to evaluate an expression for all nodes at once.

Only labels that some selector uses have a column, which is then updated node by node. A label that
no node has needs none: the result is the same for all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from scheduler.core.nodes.label_expressions import integer, matches_value
from scheduler.core.values.model import Expression, NodeInfo

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_WITHOUT = -1


class LabelColumn:
    """One label. `codes` (capacity,) is the code of each row's value, -1 without the label.

    `values` are by code, None where a code is not in use.
    """

    def __init__(self, capacity: int) -> None:
        self.codes: Ints = np.full(capacity, _WITHOUT, np.int64)
        self.values: list[str | None] = []
        self._code_of: dict[str, int] = {}
        self._nodes: list[int] = []
        self._vacant: list[int] = []
        self._numbers: Ints | None = None
        self._ordered: tuple[list[str], Ints] | None = None

    @classmethod
    def of(cls, values: Sequence[str | None], capacity: int) -> Self:
        """Return the column of these values by row, None for rows without the label."""
        column = cls(capacity)
        # All at once: row by row, the hostnames of a large cluster took three times as long.
        codes = column._code_of
        found = [_WITHOUT if it is None else codes.setdefault(it, len(codes)) for it in values]
        column.codes[: len(found)] = found
        column.values = list(codes)
        column._nodes = np.bincount(column.codes + 1, minlength=len(codes) + 1)[1:].tolist()
        return column

    @property
    def ordered(self) -> tuple[list[str], Ints]:
        """The values in ascending order, and the place of each code in that order, 0 if unused."""
        if self._ordered is None:
            texts = sorted(self._code_of)
            places = np.zeros(len(self.values), np.int64)
            places[[self._code_of[text] for text in texts]] = np.arange(len(texts))
            self._ordered = (texts, places)
        return self._ordered

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._code_of)

    def set(self, row: int, value: str | None) -> None:
        """Set the row's value; None if it has none."""
        before = int(self.codes[row])
        # Add before removing: an unchanged value keeps its code.
        after = _WITHOUT if value is None else self._add(value)
        self.codes[row] = after
        if before >= 0:
            self._remove(before)

    def grow(self, extra: int) -> None:
        self.codes = np.pad(self.codes, (0, extra), constant_values=_WITHOUT)

    def value(self, row: int) -> str | None:
        """Return the row's value; None if it has none."""
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def code(self, value: str) -> int | None:
        """Return the value's code; None if no node has the value."""
        return self._code_of.get(value)

    def meets(self, expression: Expression) -> Bools:
        """Return per code whether its value meets the expression; last, for no label."""
        operator, wanted = expression.operator, expression.values
        table = np.zeros(len(self.values) + 1, np.bool_)
        if operator in ("In", "NotIn"):
            table[[code for value in wanted if (code := self.code(value)) is not None]] = True
            # As upstream, NotIn also matches nodes without the label.
            return ~table if operator == "NotIn" else table
        if operator in ("Gt", "Lt"):
            # As upstream, Gt and Lt match nothing if either value is not an integer.
            limit = integer(wanted[0]) if len(wanted) == 1 else None
            if limit is not None:
                numbers, whole = self._integers()
                table[:-1] = whole & (numbers > limit if operator == "Gt" else numbers < limit)
            return table
        # Exists and DoesNotExist depend on the label only, not on its value.
        table[:-1] = matches_value(expression, "")
        table[-1] = matches_value(expression, None)
        return table

    def _integers(self) -> tuple[Ints, Bools]:
        """Return per code the value as an integer, and whether it is one."""
        if self._numbers is None:
            found = [None if value is None else integer(value) for value in self.values]
            pairs = [(number or 0, number is not None) for number in found]
            self._numbers = np.array(pairs, np.int64).reshape(-1, 2)
        return self._numbers[:, 0], self._numbers[:, 1] != 0

    def _add(self, value: str) -> int:
        code = self._code_of.get(value)
        if code is None:
            self._numbers = self._ordered = None
            if self._vacant:
                code = self._vacant.pop()
                self.values[code] = value
            else:
                code = len(self.values)
                self.values.append(value)
                self._nodes.append(0)
            self._code_of[value] = code
        self._nodes[code] += 1
        return code

    def _remove(self, code: int) -> None:
        self._nodes[code] -= 1
        if not self._nodes[code]:
            # Hostnames come and go: reuse codes, or the table of values would only grow.
            self._numbers = self._ordered = None
            self._code_of.pop(self.values[code] or "")
            self.values[code] = None
            self._vacant.append(code)


class NodeLabels:
    """The labels of all nodes. `infos` has the nodes by row."""

    def __init__(self, infos: Sequence[NodeInfo | None], capacity: int) -> None:
        self._infos = infos
        self._capacity = capacity
        self._nodes_with: Counter[str] = Counter()
        self._columns: dict[str, LabelColumn] = {}

    def __len__(self) -> int:
        """Return the number of labels that have a column."""
        return len(self._columns)

    def set_node(self, row: int, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Change a node's labels, in time proportional to their number."""
        for key in before.keys() - now.keys():
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
                self._columns.pop(key, None)
        for key in now.keys() - before.keys():
            self._nodes_with[key] += 1
        if self._columns:
            for key in before.keys() | now.keys():
                column = self._columns.get(key)
                if column is not None and before.get(key) != now.get(key):
                    column.set(row, now.get(key))

    def grow(self) -> None:
        """Double the number of rows."""
        for column in self._columns.values():
            column.grow(self._capacity)
        self._capacity *= 2

    def column(self, key: str) -> LabelColumn | None:
        """Return the column of a label; None if no node has it."""
        column = self._columns.get(key)
        if column is None and key in self._nodes_with:
            values = [None if node is None else node.labels.get(key) for node in self._infos]
            column = self._columns[key] = LabelColumn.of(values, self._capacity)
        return column

    def meets(self, expression: Expression, rows: Ints | None = None) -> Bools:
        """Return whether the label meets the expression on each of the rows (n,).

        Without `rows`, on all nodes (N,); vacant rows have no labels.
        """
        column, size = self.column(expression.key), len(self._infos)
        if column is None:
            return np.full(size if rows is None else len(rows), matches_value(expression, None))
        codes = column.codes[:size] if rows is None else column.codes[rows]
        met: Bools = column.meets(expression)[codes]
        return met

    def numbers(self, key: str, of: Mapping[str, int], otherwise: int) -> Ints:
        """Return the number of the label's value on each node (N,), or else `otherwise`."""
        column = self.column(key)
        if column is None:
            return np.full(len(self._infos), otherwise, np.int64)
        table = np.full(len(column.values) + 1, otherwise, np.int64)
        for value, number in of.items():
            code = column.code(value)
            if code is not None:
                table[code] = number
        found: Ints = table[column.codes[: len(self._infos)]]
        return found

    def has(self, key: str) -> Bools:
        """Return the nodes (N,) that have the label."""
        return self.meets(Expression(key, "Exists", ()))
