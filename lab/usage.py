"""What is used over time: sums of amount times seconds, in equal spans of time and by domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lab.errors import LabError
from scheduler.core.model import NodeInfo, Requirements
from scheduler.core.node_table import Floats

MOST_SPANS: Final = 400
"""Of the time lines in the report; spans get longer when the time gets longer."""


class Usage:
    """Amounts in use now, and their integrals. Resources are those that jobs ask for.

    `used` is (R,), `integral` and `partial_integral` (spans, R) in amount x seconds, the latter of
    pods whose job does not run. `domain_integrals` has (domains, R) for each key.
    """

    def __init__(
        self, nodes: Sequence[NodeInfo], keys: Sequence[str], resources: Sequence[str]
    ) -> None:
        """Raises LabError if jobs ask for what no node has."""
        self.resources = tuple(resources)
        self.capacity: Floats = np.array(
            [sum(float(node.allocatable.get(name, 0)) for node in nodes) for name in resources]
        )
        for name, capacity in zip(resources, self.capacity, strict=True):
            if not capacity:
                raise LabError(f"the trace asks for {name}, and no node of the cluster has any")
        self._index = {name: index for index, name in enumerate(resources)}
        self.used = np.zeros(len(resources))
        self.partial = np.zeros(len(resources))
        self.span = 1.0
        self._spans: list[Floats] = []
        self._partial_spans: list[Floats] = []
        self.domains = {key: _Domains(nodes, key, self.resources) for key in keys}
        self._now = 0.0
        self._vectors: dict[Requirements, Floats] = {}

    def vector(self, requirements: Requirements) -> Floats:
        """What one pod asks for, (R,)."""
        found = self._vectors.get(requirements)
        if found is None:
            found = np.zeros(len(self.resources))
            for name, value in requirements.requests:
                found[self._index[name]] = value
            self._vectors[requirements] = found
        return found

    def change(self, node: str, amount: Floats) -> None:
        """A pod comes to the node, or leaves it with a negative amount."""
        self.used += amount
        for domains in self.domains.values():
            domains.change(node, amount)

    def advance(self, now: float) -> None:
        """Time passes with what is in use now."""
        for domains in self.domains.values():
            domains.advance(now - self._now)
        while self._now < now:
            index = int(self._now // self.span)
            if index >= MOST_SPANS:
                self._merge()
                continue
            while len(self._spans) <= index:
                self._spans.append(np.zeros(len(self.resources)))
                self._partial_spans.append(np.zeros(len(self.resources)))
            until = min(now, (index + 1) * self.span)
            seconds = until - self._now
            self._spans[index] += self.used * seconds
            self._partial_spans[index] += self.partial * seconds
            self._now = until

    @property
    def integral(self) -> Floats:
        """Amount x seconds in use, (spans, R)."""
        return np.array(self._spans).reshape(-1, len(self.resources))

    @property
    def partial_integral(self) -> Floats:
        """The same of pods whose job does not run."""
        return np.array(self._partial_spans).reshape(-1, len(self.resources))

    def _merge(self) -> None:
        """Two spans become one, so that as many are enough for any time."""
        self.span *= 2
        self._spans = _pairs(self._spans)
        self._partial_spans = _pairs(self._partial_spans)


def _pairs(spans: list[Floats]) -> list[Floats]:
    return [sum(spans[index : index + 2]) for index in range(0, len(spans), 2)]  # type: ignore[misc]


class _Domains:
    """The domains of one topology key, by first node; `integral` is (domains, R)."""

    def __init__(self, nodes: Sequence[NodeInfo], key: str, resources: tuple[str, ...]) -> None:
        values = [node.labels.get(key, "") for node in nodes]
        self.names = list(dict.fromkeys(value for value in values if value))
        rows = {name: row for row, name in enumerate(self.names)}
        self._row = {
            node.name: rows[value] for node, value in zip(nodes, values, strict=True) if value
        }
        shape = (len(self.names), len(resources))
        self.capacity = np.zeros(shape)
        for node in nodes:
            if node.name in self._row:
                offered = [float(node.allocatable.get(name, 0)) for name in resources]
                self.capacity[self._row[node.name]] += offered
        self.used = np.zeros(shape)
        self.integral = np.zeros(shape)

    def change(self, node: str, amount: Floats) -> None:
        row = self._row.get(node)
        if row is not None:
            self.used[row] += amount

    def advance(self, seconds: float) -> None:
        self.integral += self.used * seconds
