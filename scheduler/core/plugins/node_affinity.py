"""Whether a pod may run on a node, leaving room aside: the answers of kube-scheduler's filters.

Each rule looks at one node class; the words of a refusal are those `kubectl describe` users know.
Terms about other pods are judged in `company`, host ports are resources (`ports`); what nobody
decides is in `Requirements.undecided`, and such pods are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.core.model import Expression, Requirements, Taint, Term, Toleration
from scheduler.core.node_classes import NodeClass

UNSCHEDULABLE: Final = "node(s) were unschedulable"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
NODE_NAME: Final = "node(s) didn't match the requested node name"
TOO_MANY_PODS: Final = "Too many pods"

_HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def refusal(requirements: Requirements, node: NodeClass) -> str:
    """Why nodes of this class are out for the pod; empty if they are not.

    Node names are not a class's business: `named` terms of the affinity are left to the caller.
    """
    if node.unschedulable and not _tolerates(requirements.tolerations, _CORDON):
        return UNSCHEDULABLE
    taint = untolerated(requirements, node)
    if taint is not None:
        return f"node(s) had untolerated taint {taint}"
    return "" if attracted(requirements, node) else AFFINITY


def untolerated(requirements: Requirements, node: NodeClass) -> Taint | None:
    """The first hard taint that keeps the pod out."""
    for taint in node.taints:
        if taint.effect in _HARD_EFFECTS and not _tolerates(requirements.tolerations, taint):
            return taint
    return None


def disliked(requirements: Requirements, node: NodeClass) -> int:
    """How many soft taints of the node the pod does not tolerate."""
    soft = (taint for taint in node.taints if taint.effect == "PreferNoSchedule")
    return sum(not _tolerates(requirements.tolerations, taint) for taint in soft)


def attracted(requirements: Requirements, node: NodeClass) -> bool:
    """Whether node selector and node affinity are met, names of nodes aside."""
    if any(node.labels.get(key) != value for key, value in requirements.selector):
        return False
    terms = requirements.affinity
    if terms is None or named(requirements):
        return True
    return any(matches(term, node.labels) for term in terms)


def named(requirements: Requirements) -> bool:
    """True if the affinity speaks of node names, so that equal nodes may differ."""
    return any(term.fields for term in requirements.affinity or ())


def matches(term: Term, labels: Mapping[str, str]) -> bool:
    """True if the labels meet all expressions; a term that says nothing matches nothing."""
    if not term.expressions and not term.fields:
        return False
    return all(meets(e, labels.get(e.key)) for e in term.expressions)


def meets(expression: Expression, value: str | None) -> bool:
    """One expression against one value, None where the node has none."""
    operator, wanted = expression.operator, expression.values
    if operator == "In":
        return value is not None and value in wanted
    if operator == "NotIn":
        return value is None or value not in wanted
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return value is not None and len(wanted) == 1 and _compares(operator, value, wanted[0])


def _compares(operator: str, left: str, right: str) -> bool:
    try:
        difference = int(left) - int(right)
    except ValueError:
        return False  # as upstream: a value that is no integer matches neither Gt nor Lt
    return difference > 0 if operator == "Gt" else operator == "Lt" and difference < 0


def _tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(_matches_taint(toleration, taint) for toleration in tolerations)


def _matches_taint(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        return _compares(toleration.operator, taint.value, toleration.value)
    return bool(toleration.key) and toleration.value == taint.value
