"""VolumeRestrictions: a ReadWriteOncePod claim is used by one pod at a time."""

from __future__ import annotations

from typing import Final

from scheduler.core.match_counts import MatchCounts
from scheduler.core.model import ClaimInfo

REASON: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)


def in_use(claim: ClaimInfo, match_id: int, counts: MatchCounts) -> bool:
    """Whether another pod uses the claim, and no second one may; `match_id` counts its users."""
    return claim.one_pod and not counts.empty(match_id)
