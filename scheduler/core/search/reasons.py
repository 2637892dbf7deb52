"""The number of nodes for each reason against a shape; like the Diagnosis of a FitError."""

from __future__ import annotations

from collections import Counter

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.pods.shapes import NO_NODE, Shape


def reasons(framework: Framework, shape: Shape) -> tuple[tuple[str, int], ...]:
    """Return how many nodes each reason excludes from more pods of the shape, highest first.

    For a node with capacity for some pods, the reasons against one more pod are counted.
    """
    nodes = framework.nodes
    found: Counter[str] = Counter()
    codes = framework.node_codes(shape)
    # One code per node: like kube-scheduler, stop at the first filter that rejects it.
    for code, count in enumerate(np.bincount(codes, minlength=len(shape.reasons))):
        if count and shape.reasons[code] not in ("", NO_NODE):
            found[shape.reasons[code]] += int(count)
    permitted = framework.permitted(shape)
    open_to = np.ones(nodes.size, np.bool_)
    if shape.filter_match_ids:
        open_to = framework.pod_codes(shape) == 0
    capacity = framework.capacity(shape)
    for reason, mask in framework.insufficient(shape, capacity):
        # A node may lack several resources; kube-scheduler counts it for each of them.
        found[reason] += int((mask & permitted & (open_to | (capacity <= 0))).sum())
    if shape.filter_match_ids:
        for code, count in enumerate(np.bincount(framework.pod_codes(shape)[permitted])):
            found[shape.reasons[code]] += int(count) if code else 0
    found = +found
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))
