"""NodeVolumeLimits: a node can attach only so many volumes of each CSI driver."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.model import Attachment, VolumeUse
from scheduler.core.node_table import Ints, NodeTable
from scheduler.core.pod_selectors import PodSelectors
from scheduler.core.shapes import Codes, Shape
from scheduler.core.volume_table import VolumeTable

REASON: Final = "node(s) exceed max volume count"

_UNLIMITED: Final = 1 << 40


class NodeVolumeLimits:
    """The filter for shapes with claims, or with disks of their own that a driver attaches."""

    def __init__(self, nodes: NodeTable, selectors: PodSelectors, volumes: VolumeTable) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._volumes = volumes

    def rule_out(self, shape: Shape, codes: Codes) -> None:
        """Write the reason's code for each node (N,) that cannot attach one more pod's volumes."""
        drivers = {volume: self._driver(volume) for volume in shape.requirements.volumes}
        for driver in sorted(set(drivers.values()) - {""}):
            limits = self._limits(driver)
            if limits is None:
                continue
            more = np.zeros(len(codes), np.int64)
            for volume, of_volume in drivers.items():
                if of_volume == driver:
                    more += 1
                    more[self._users(volume)] -= 1
            # A node beyond its limit takes pods that add no volume.
            beyond = self._attached(driver) + more > limits
            shape.rule_out(codes, beyond & (more > 0), REASON)

    def _driver(self, volume: VolumeUse) -> str:
        """The CSI driver that attaches the volume; empty if none is known."""
        if isinstance(volume, Attachment):
            return volume.driver
        claim = self._volumes.claims.get(volume)
        return "" if claim is None else self._volumes.driver(claim)

    def _limits(self, driver: str) -> Ints | None:
        """Per node (N,) the driver's limit of attached volumes; None if no node has a limit."""
        limits: Ints | None = None
        for node, of_node in self._volumes.limits.items():
            row = self._nodes.row_of.get(node)
            if driver in of_node and row is not None:
                if limits is None:
                    limits = np.full(self._nodes.size, _UNLIMITED, np.int64)
                limits[row] = of_node[driver]
        return limits

    def _attached(self, driver: str) -> Ints:
        """Per node (N,) how many volumes of the driver its pods use; a shared one counts once."""
        attached = np.zeros(self._nodes.size, np.int64)
        for volume in self._selectors.volumes:
            if self._driver(volume) == driver:
                attached[self._users(volume)] += 1
        return attached

    def _users(self, volume: VolumeUse) -> Ints:
        """The rows on which pods use the volume."""
        return self._nodes.match_counts.rows(self._selectors.users(volume))
