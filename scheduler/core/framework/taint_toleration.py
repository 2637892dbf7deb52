"""TaintToleration: NoSchedule and NoExecute taints filter, PreferNoSchedule taints score."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.nodes.label_expressions import compares
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.values.model import Requirements, Taint, Toleration

REASON: Final = "node(s) had untolerated taint "
"""Followed by the taint, as `{key: value}`."""

_EFFECTS: Final = ("NoSchedule", "NoExecute")
_SOFT_EFFECT: Final = "PreferNoSchedule"


def untolerated(requirements: Requirements, node: NodeClass) -> Taint | None:
    """The first NoSchedule or NoExecute taint that the pod does not tolerate, or None."""
    for taint in node.taints:
        if taint.effect in _EFFECTS and not tolerates(requirements.tolerations, taint):
            return taint
    return None


def intolerable(requirements: Requirements, nodes: NodeTable) -> Ints:
    """Per node (N,) how many PreferNoSchedule taints the pod does not tolerate."""
    counts = [_intolerable(requirements, node) for node in nodes.classes.all]
    table = np.array([*counts, 0], np.int64)  # vacant rows have class -1 and read this 0
    found: Ints = table[nodes.node_class[: nodes.size]]
    return found


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations matches the taint."""
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
    return bool(toleration.key) and toleration.value == taint.value
