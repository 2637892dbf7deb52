"""NodeAffinity: node selectors, and required and preferred node affinity.

Each expression is evaluated once for all nodes, on the codes of one label.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.model import Expression, Requirements, Term
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.shapes import Shape

REASON: Final = "node(s) didn't match Pod's node affinity/selector"


def admits(shape: Shape, nodes: NodeTable) -> Bools | None:
    """Per node (N,) whether it meets the selector and the required affinity; None without both."""
    wants = shape.requirements
    if not wants.selector and wants.affinity is None:
        return None
    return shape.cache.affinity.get((nodes.generation, nodes.size), lambda: _admits(wants, nodes))


def preference(requirements: Requirements, nodes: NodeTable) -> Ints:
    """Per node (N,) the sum of the weights of the preferred terms that it meets."""
    total = np.zeros(nodes.size, np.int64)
    for weight, term in requirements.preferred_node_affinity:
        total += weight * meets(term, nodes)
    return total


def _admits(wants: Requirements, nodes: NodeTable) -> Bools:
    admitted = np.ones(nodes.size, np.bool_)
    for key, value in wants.selector:
        admitted &= nodes.labels.meets(Expression(key, "In", (value,)))
    if wants.affinity is not None:
        some = np.zeros(nodes.size, np.bool_)
        for term in wants.affinity:
            some |= meets(term, nodes)
        admitted &= some
    return admitted


def meets(term: Term, nodes: NodeTable) -> Bools:
    """Nodes (N,) that meet all expressions and fields of a term; none meets an empty one."""
    met = np.full(nodes.size, bool(term.expressions or term.fields))
    for expression in term.expressions:
        met &= nodes.labels.meets(expression)
    for field in term.fields:
        met &= _field_matches(field, nodes)
    return met


def _field_matches(field: Expression, nodes: NodeTable) -> Bools:
    if field.key != "metadata.name" or field.operator not in ("In", "NotIn"):
        return np.zeros(nodes.size, np.bool_)  # as upstream: any other field matches nothing
    named = nodes.named(field.values)
    return named if field.operator == "In" else ~named
