"""The nodes that a volume can be used on, or for which a class can make one, by their labels."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from scheduler.core.label_expressions import matches_value
from scheduler.core.model import Expression, Term
from scheduler.core.node_table import Bools, NodeTable
from scheduler.core.topology import Domains, Topologies


class VolumeNodeAffinity:
    """Terms over node labels against all nodes at once."""

    def __init__(self, nodes: NodeTable, topologies: Topologies) -> None:
        self._nodes = nodes
        self._topologies = topologies

    def nodes(self, terms: tuple[Term, ...] | None) -> Bools:
        """Nodes (N,) that meet one of the terms; None is met by all.

        As upstream volumes see nothing of a node but its labels: what terms say of fields is
        passed over.
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
        table = np.zeros(len(domains.values) + 1, np.bool_)  # the last is for those without it
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
    """The domains of these values, which are in order: a class may have a volume per node."""
    found = ((bisect_left(domains.values, value), value) for value in values)
    return [at for at, value in found if domains.values[at : at + 1] == (value,)]
