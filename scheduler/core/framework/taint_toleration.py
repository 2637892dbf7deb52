"""TaintToleration: NoSchedule and NoExecute taints filter, PreferNoSchedule taints score."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.framework.events import NODE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.label_expressions import compares
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import Requirements, Taint, Toleration

REASON: Final = "node(s) had untolerated taint "
"""Prefix of the reason; the taint follows, as `{key: value}`."""

_EFFECTS: Final = ("NoSchedule", "NoExecute")
_SOFT_EFFECT: Final = "PreferNoSchedule"


class TaintToleration(Plugin):
    """Filter by node class, and score."""

    name = "TaintToleration"
    events = NODE_EVENTS
    weight = -3000

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def filter_class(self, wants: Requirements, node: NodeClass) -> str:
        # Nodes share few combinations of taints, so a class is checked instead of each node.
        taint = untolerated(wants, node)
        return "" if taint is None else f"{REASON}{taint}"

    def score_nodes(self, shape: Shape) -> Ints | None:
        """Return the number of untolerated PreferNoSchedule taints of each node (N,)."""
        wants, nodes = shape.requirements, self._nodes
        counts = [_intolerable(wants, node) for node in nodes.classes.all]
        if not any(counts):
            return None
        table = np.array([*counts, 0], np.int64)  # vacant rows have class -1 and read this 0
        found: Ints = table[nodes.node_class[: nodes.size]]
        return found if found.any() else None


def untolerated(requirements: Requirements, node: NodeClass) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that the pod does not tolerate, or None."""
    for taint in node.taints:
        if taint.effect in _EFFECTS and not tolerates(requirements.tolerations, taint):
            return taint
    return None


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return True if one of the tolerations matches the taint."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _intolerable(requirements: Requirements, node: NodeClass) -> int:
    soft = (taint for taint in node.taints if taint.effect == _SOFT_EFFECT)
    return sum(not tolerates(requirements.tolerations, taint) for taint in soft)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        return compares(toleration.operator, taint.value, toleration.value)
    # An empty key matches any taint only with the operator Exists.
    return bool(toleration.key) and toleration.value == taint.value
