"""NodeAffinity: node selectors, and required and preferred node affinity.

Label requirements (matchExpressions) are evaluated once per node class. matchFields, which select
nodes by name, are evaluated per node, because nodes of one class differ in name.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.label_expressions import matches
from scheduler.core.model import Expression, Requirements, Term
from scheduler.core.node_classes import NodeClass
from scheduler.core.node_table import Bools, Ints, NodeTable

REASON: Final = "node(s) didn't match Pod's node affinity/selector"


def admits_class(requirements: Requirements, node: NodeClass) -> bool:
    """Whether nodes of this class meet the selector and an affinity without matchFields."""
    if any(node.labels.get(key) != value for key, value in requirements.selector):
        return False
    terms = requirements.affinity
    if terms is None or names_nodes(requirements):
        return True
    return any(_labels_match(term, node) for term in terms)


def names_nodes(requirements: Requirements) -> bool:
    """Whether a term of the required affinity has matchFields, which select nodes by name."""
    return any(term.fields for term in requirements.affinity or ())


def admits_by_name(requirements: Requirements, nodes: NodeTable) -> Bools | None:
    """Per node (N,) whether it meets a required term; None if no term has matchFields."""
    if not names_nodes(requirements):
        return None
    some = np.zeros(nodes.size, np.bool_)
    for term in requirements.affinity or ():
        some |= _meets(term, nodes)
    return some


def admits(requirements: Requirements, nodes: NodeTable) -> Bools:
    """Per node (N,) whether it meets the selector and the required affinity."""
    admitted = nodes.by_class(lambda node: admits_class(requirements, node))
    by_name = admits_by_name(requirements, nodes)
    return admitted if by_name is None else admitted & by_name


def preference(requirements: Requirements, nodes: NodeTable) -> Ints:
    """Per node (N,) the sum of the weights of the preferred terms that it meets."""
    total = np.zeros(nodes.size, np.int64)
    for weight, term in requirements.preferred_node_affinity:
        total += weight * _meets(term, nodes)
    return total


def label_keys(requirements: Requirements) -> set[str]:
    """The label keys that these requirements read."""
    terms = [*(requirements.affinity or ())]
    terms += [term for _, term in requirements.preferred_node_affinity]
    keys = {expression.key for term in terms for expression in term.expressions}
    return keys.union(key for key, _ in requirements.selector)


def _meets(term: Term, nodes: NodeTable) -> Bools:
    mask = nodes.by_class(lambda node: _labels_match(term, node))
    for field in term.fields:
        mask &= _field_matches(field, nodes)
    return mask


def _labels_match(term: Term, node: NodeClass) -> bool:
    """Whether the labels meet the term's expressions; an empty term matches no node."""
    if not term.expressions and not term.fields:
        return False
    return matches(term.expressions, node.labels)


def _field_matches(field: Expression, nodes: NodeTable) -> Bools:
    if field.key != "metadata.name" or field.operator not in ("In", "NotIn"):
        return np.zeros(nodes.size, np.bool_)  # as upstream: any other field matches nothing
    named = nodes.named(field.values)
    return named if field.operator == "In" else ~named
