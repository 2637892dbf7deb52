"""Usage over time: of the cluster, of pods whose job does not run, and by domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analysis.lab.errors import LabError
from analysis.lab.spans import Spans
from scheduler.core.nodes.node_table import Floats
from scheduler.core.values.model import NodeInfo, Requirements

MOST_SPANS: Final = 400
"""Spans of the time lines in the report; they get longer with the time."""

MOST_DOMAIN_SPANS: Final = 100
"""Spans of the domains of a key. They get longer with the time."""

MOST_VALUES: Final = 200_000
"""Values of all domains of a key together: with thousands of domains there are fewer spans."""


class ResourceUsage:
    """Amounts in use now, (R,), and over time. Resources are those that jobs request.

    `partial` is the part of pods whose job does not run; `domains` has the domains of each key.
    """

    def __init__(
        self, nodes: Sequence[NodeInfo], keys: Sequence[str], resources: Sequence[str]
    ) -> None:
        """Start without usage. Raises LabError if jobs request what no node offers."""
        self.resources = tuple(resources)
        self.capacity: Floats = np.array(
            [sum(float(node.allocatable.get(name, 0)) for node in nodes) for name in resources]
        )
        for name, capacity in zip(resources, self.capacity, strict=True):
            if not capacity:
                raise LabError(f"the trace requests {name}, but no node of the cluster has any")
        self._index = {name: index for index, name in enumerate(resources)}
        self.used = np.zeros(len(resources))
        self.partial = np.zeros(len(resources))
        self.over_time = Spans(self.used.shape, MOST_SPANS)
        self.partial_over_time = Spans(self.used.shape, MOST_SPANS)
        self.domains = {key: UsedDomains(nodes, key, self.resources) for key in keys}
        self._now = 0.0
        self._vectors: dict[Requirements, Floats] = {}

    def vector(self, requirements: Requirements) -> Floats:
        """Return the requests of one pod, (R,)."""
        found = self._vectors.get(requirements)
        if found is None:
            found = np.zeros(len(self.resources))
            for name, value in requirements.requests:
                found[self._index[name]] = value
            self._vectors[requirements] = found
        return found

    def change(self, node: str, amount: Floats) -> None:
        """Add the amount of a pod on the node; it is negative for a pod that leaves."""
        self.used += amount
        for domains in self.domains.values():
            domains.change(node, amount)

    def advance(self, now: float) -> None:
        """Let time pass with the current usage."""
        self.over_time.add(self.used, self._now, now)
        self.partial_over_time.add(self.partial, self._now, now)
        for domains in self.domains.values():
            domains.over_time.add(domains.used, self._now, now)
        self._now = now


class UsedDomains:
    """The domains of one topology key, by first node; `used` is (domains, R)."""

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
        most = MOST_VALUES // max(self.used.size, 1)
        self.over_time = Spans(shape, min(max(most, 1), MOST_DOMAIN_SPANS))

    def change(self, node: str, amount: Floats) -> None:
        """Add the amount of a pod on the node; it is negative for a pod that leaves."""
        row = self._row.get(node)
        if row is not None:
            self.used[row] += amount
