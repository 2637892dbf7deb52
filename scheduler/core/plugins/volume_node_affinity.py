"""Which nodes can use a volume, or get one from a storage class, by their labels.

Part of VolumeBinding, used by VolumeZone too: node affinity of volumes, and allowedTopologies.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from scheduler.core.label_expressions import matches_value
from scheduler.core.model import Expression, Term
from scheduler.core.node_table import Bools, NodeTable
from scheduler.core.topology import Domains, Topologies


class VolumeNodeAffinity:
    """Evaluates terms over node labels for all nodes at once."""

    def __init__(self, nodes: NodeTable, topologies: Topologies) -> None:
        self._nodes = nodes
        self._topologies = topologies

    def nodes(self, terms: tuple[Term, ...] | None) -> Bools:
        """Nodes (N,) that meet at least one of the terms; all nodes if `terms` is None.

        As upstream, matchFields are ignored: only labels of nodes count for volumes.
        """
        if terms is None:
            return np.ones(self._nodes.size, np.bool_)
        some = np.zeros(self._nodes.size, np.bool_)
        for term in terms:
            if not term.expressions and not term.fields:
                continue
            mask = np.ones(self._nodes.size, np.bool_)
            for expression in term.expressions:
                mask &= self.meets(expression)
            some |= mask
        return some

    def meets(self, expression: Expression) -> Bools:
        """Nodes (N,) whose label meets the expression."""
        domains = self._topologies.domains(expression.key)
        table = np.zeros(len(domains.values) + 1, np.bool_)  # the last: nodes without it
        if expression.operator == "In":
            table[_codes(domains, expression.values)] = True
        else:
            answers = [matches_value(expression, value) for value in domains.values]
            table[:] = [*answers, matches_value(expression, None)]
        mask: Bools = table[domains.codes]
        return mask

    def labelled(self, key: str) -> Bools:
        """Nodes (N,) that have the label."""
        mask: Bools = self._topologies.domains(key).codes >= 0
        return mask


def _codes(domains: Domains, values: tuple[str, ...]) -> list[int]:
    """The codes of the values that nodes have, by binary search: terms may list many values."""
    found = ((bisect_left(domains.values, value), value) for value in values)
    return [at for at, value in found if domains.values[at : at + 1] == (value,)]
