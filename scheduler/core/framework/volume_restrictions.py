"""VolumeRestrictions: one user of a ReadWriteOncePod claim, and one of a disk on each node.

Disks are those that pods name without a claim. `exclusive_uses` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

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
"""Prefix of the reason; the disk follows."""

_SHOWN: Final = 64
"""Limit of characters of a disk's name in the reason: the API server does not limit it."""


class VolumeRestrictions(Plugin):
    """Filter for shapes that name disks; `VolumeBinding` calls `in_use` for claims."""

    name = "VolumeRestrictions"
    events = USE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def lacking(self, shape: Shape, room: Ints) -> Iterator[tuple[str, Bools]]:
        """See Plugin."""
        disks: dict[tuple[str, str], list[Disk]] = {}
        # An rbd image is listed once for each monitor, but is one disk for users.
        for disk in shape.requirements.disks:
            disks.setdefault((disk.kind, disk.name), []).append(disk)
        for (kind, name), same in disks.items():
            mask = self._nodes.using(same, shape.load.stage)
            # More pods of the shape would use the disk as well. Readers share it.
            if not same[0].shared:
                mask |= room > 0
            yield _in_use(kind, name), mask


def in_use(claim: ClaimInfo, match_id: int, counts: MatchCounts) -> bool:
    """Return True if the claim is ReadWriteOncePod and in use; `match_id` counts its users."""
    return claim.one_pod and not counts.empty(match_id)


def _in_use(kind: str, name: str) -> str:
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    return f"{NO_DISK} ({kind} {json.dumps(shown)} is used by other pods)"
