"""Selectors of pods and nodes as values of the decision core."""

from __future__ import annotations

from scheduler.core.values.model import Expression, NodeTerm
from scheduler.decoding.objects import LabelSelector, NodeSelectorTerm


def label_expressions(
    selector: LabelSelector | None, added: tuple[Expression, ...] = ()
) -> tuple[Expression, ...] | None:
    """Return the label selector in one form and order, so that equal ones compare equal."""
    if selector is None:
        return None
    found = {Expression(key, "In", (value,)) for key, value in selector.match_labels.items()}
    for entry in selector.match_expressions:
        found.add(Expression(entry.key, entry.operator, tuple(sorted(entry.values))))
    # The order means nothing in Kubernetes, but pods share a shape only if theirs compare equal.
    return tuple(sorted(found.union(added), key=lambda e: (e.key, e.operator, e.values)))


def node_selector_term(term: NodeSelectorTerm) -> NodeTerm:
    return NodeTerm(
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_expressions),
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_fields),
    )
