"""NodeVolumeLimits: a node can attach only so many volumes of each CSI driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.core.model import ClaimInfo, ClaimKey
from scheduler.core.node_table import Ints, NodeTable
from scheduler.core.pod_selectors import PodSelectors
from scheduler.core.shapes import Codes, Shape
from scheduler.core.volume_table import VolumeTable

REASON: Final = "node(s) exceed max volume count"

_UNLIMITED: Final = 1 << 40


class NodeVolumeLimits:
    """The filter for shapes with claims."""

    def __init__(self, nodes: NodeTable, selectors: PodSelectors, volumes: VolumeTable) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._volumes = volumes

    def rule_out(self, shape: Shape, claims: Sequence[ClaimInfo], codes: Codes) -> None:
        """Write the reason's code for each node (N,) that cannot attach one more pod's volumes."""
        drivers = {claim.key: self._volumes.driver(claim) for claim in claims}
        for driver in sorted(set(drivers.values()) - {""}):
            limits = self._limits(driver)
            if limits is None:
                continue
            attached = self._attached(driver)
            for claim in claims:
                if drivers[claim.key] == driver:
                    more = np.ones(len(codes), np.int64)
                    more[self._users(claim.key)] = 0
                    attached += more
            shape.rule_out(codes, attached > limits, REASON)

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
        for key in self._selectors.claims:
            claim = self._volumes.claims.get(key)
            if claim is not None and self._volumes.driver(claim) == driver:
                attached[self._users(key)] += 1
        return attached

    def _users(self, key: ClaimKey) -> Ints:
        """The rows on which pods use the claim."""
        return self._nodes.match_counts.rows(self._selectors.claim(key))
