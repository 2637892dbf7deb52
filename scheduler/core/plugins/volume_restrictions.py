"""VolumeRestrictions: only one pod at a time may use a ReadWriteOncePod claim."""

from __future__ import annotations

from typing import Final

from scheduler.core.match_counts import MatchCounts
from scheduler.core.model import ClaimInfo

REASON: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)


def in_use(claim: ClaimInfo, match_id: int, counts: MatchCounts) -> bool:
    """Whether the claim is ReadWriteOncePod and in use; `match_id` counts the pods that use it."""
    return claim.one_pod and not counts.empty(match_id)
