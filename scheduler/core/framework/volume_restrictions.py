"""VolumeRestrictions: one user of a ReadWriteOncePod claim, and one of a disk on each node.

Disks are those that pods name without a claim. `exclusive_uses` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.core.framework.events import USE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.match_counts import MatchCounts
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import ClaimInfo, Disk

REASON: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
    " in-use by another pod"
)
NO_DISK: Final = "node(s) had no available disk"

_SHOWN: Final = 64
"""Characters of a disk's name in a message: nothing else limits its length."""


class VolumeRestrictions(Plugin):
    """Filter for shapes that name disks; `VolumeBinding` calls `in_use` for claims."""

    name = "VolumeRestrictions"
    events = USE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def insufficient(self, shape: Shape, capacity: Ints) -> Iterator[tuple[str, Bools]]:
        taken = np.zeros(self._nodes.size, np.bool_)
        for disk, used in self._used(shape):
            taken |= used
            if not disk.shared:
                # More pods of the shape would use the disk as well. Readers share it.
                taken |= capacity > 0
        if shape.requirements.disks:
            yield NO_DISK, taken

    def advice(self, shape: Shape, reason: str) -> str:
        if reason != NO_DISK:
            return ""
        # There may be many, and one is enough to look for its users.
        disk = max(self._used(shape), key=lambda found: found[1].sum())[0]
        shown = disk.name if len(disk.name) <= _SHOWN else f"{disk.name[:_SHOWN]}..."
        return (
            f"delete the pods that use disk {json.dumps(shown)} ({disk.kind}), give each pod its"
            " own disk, or add nodes"
        )

    def _used(self, shape: Shape) -> Iterator[tuple[Disk, Bools]]:
        """Yield each disk of the shape with the nodes (N,) where other pods use it."""
        disks: dict[tuple[str, str], list[Disk]] = {}
        # An rbd image is listed once for each monitor, but is one disk for users.
        for disk in shape.requirements.disks:
            disks.setdefault((disk.kind, disk.name), []).append(disk)
        for same in disks.values():
            yield same[0], self._nodes.using(same, shape.load.stage)


def in_use(claim: ClaimInfo, match_id: int, counts: MatchCounts) -> bool:
    """Return True if the claim is ReadWriteOncePod and in use; `match_id` counts its users."""
    return claim.one_pod and not counts.empty(match_id)
