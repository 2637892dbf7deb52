"""VolumeZone: a volume with zone or region labels can only be used there."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.nodes.node_table import Bools, NodeTable
from scheduler.core.values.model import Expression, VolumeInfo

REASON: Final = "node(s) had no available volume zone"

_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def other_zone(volume: VolumeInfo, nodes: NodeTable) -> Bools | None:
    """Return the nodes (N,) whose zone labels do not match the volume's, or None if it has none.

    A label of the volume may list several zones.
    """
    # Most volumes have no such labels: this saves a look-up of the labels of all nodes.
    if not any(key in volume.labels for key in _LABELS):
        return None
    zoned = np.zeros(nodes.size, np.bool_)
    wrong = np.zeros(nodes.size, np.bool_)
    for key in _LABELS:
        zoned |= nodes.labels.has(key)
        if key in volume.labels:
            # Regional volumes list their zones with this separator (LabelMultiZoneDelimiter in
            # k8s.io/cloud-provider).
            values = tuple(volume.labels[key].split("__"))
            wrong |= ~nodes.labels.meets(Expression(key, "In", values))
    # As in kube-scheduler, a node without any zone label takes every volume.
    out: Bools = wrong & zoned
    return out
