"""Selectors of pods and of nodes, as the decision core has them."""

from __future__ import annotations

from scheduler.core.values.model import Expression, Term
from scheduler.decoding.objects import LabelSelector, NodeSelectorTerm


def label_expressions(
    selector: LabelSelector | None, added: tuple[Expression, ...] = ()
) -> tuple[Expression, ...] | None:
    """The label selector in one form and one order, so that equal ones compare equal."""
    if selector is None:
        return None
    found = {Expression(key, "In", (value,)) for key, value in selector.match_labels.items()}
    for entry in selector.match_expressions:
        found.add(Expression(entry.key, entry.operator, tuple(sorted(entry.values))))
    return tuple(sorted(found.union(added), key=lambda e: (e.key, e.operator, e.values)))


def node_selector_term(term: NodeSelectorTerm) -> Term:
    return Term(
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_expressions),
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_fields),
    )
