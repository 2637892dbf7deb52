"""Evictions of a group: for whom, how often, and the annotations about what they cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from api.constants import (
    CONDITION_DISRUPTION_TARGET,
    CONDITION_PREEMPTED,
    REASON_PREEMPTION,
    SCHEDULER_COMPONENT,
)
from api.reading import condition_of, text

HIGHEST_COST: Final = 2_147_483_647
"""Highest eviction cost; the lowest is its negative. Kubernetes' pod-deletion-cost has the same."""

COST_TEXT: Final = (
    f"must be an integer between -{HIGHEST_COST} and {HIGHEST_COST}, inclusive, without leading "
    'zeros, such as "100"'
)
MOVABLE_TEXT: Final = 'must be "true" or "false"'
CHECKPOINT_TEXT: Final = 'must be a time in RFC 3339 with a zone, such as "2026-11-30T16:00:00Z"'

_COST: Final = re.compile(r"0|-?[1-9][0-9]{0,9}", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_NUMBER: Final = re.compile(r"[^0-9]*preempted ([0-9]{1,6}) times?", re.ASCII)


def eviction_of(status: Mapping[str, Any]) -> str:
    """Return for whom the group was evicted, as in `preempted for PodGroup team/a of priority 9`.

    Returns an empty text if it was not evicted, or is scheduled again. The status may be of any
    structure.
    """
    condition = condition_of({"status": status}, CONDITION_DISRUPTION_TARGET)
    if condition.get("status") != "True":
        return ""
    return text(condition.get("message")).removeprefix(f"{SCHEDULER_COMPONENT}: ")


def eviction_cost(written: Any) -> int | None:
    """Return the value of the annotation `eviction-cost`; None if it is no valid one."""
    if not isinstance(written, str) or not _COST.fullmatch(written):
        return None
    cost = int(written)
    return cost if abs(cost) <= HIGHEST_COST else None


def movable(written: Any) -> bool | None:
    """Return the value of the annotation `movable`; None if it is no valid one."""
    return {"true": True, "false": False}.get(written) if isinstance(written, str) else None


def checkpoint(written: Any) -> float | None:
    """Return the annotation `last-checkpoint` in seconds since 1970; None if it is no valid one."""
    if not isinstance(written, str) or not _TIME.fullmatch(written):
        return None
    try:
        return datetime.fromisoformat(written.upper()).timestamp()
    except (ValueError, OverflowError):
        return None


def preemptions_of(status: Mapping[str, Any]) -> tuple[int, float]:
    """Return how often the root was preempted, and when first, in seconds since 1970.

    Returns zeros if it was not. The status may be of any structure.
    """
    condition = condition_of({"status": status}, CONDITION_PREEMPTED)
    number = _NUMBER.match(text(condition.get("message")))
    since = checkpoint(condition.get("lastTransitionTime"))
    if condition.get("status") != "True" or number is None or since is None:
        return (0, 0.0)
    return (int(number[1]), since)


def preempted_condition(
    status: Mapping[str, Any], now: datetime, window: float, generation: int
) -> tuple[dict[str, Any], int]:
    """Return the condition Preempted after one more preemption at `now`, and the number in it.

    Preemptions count together until `window` seconds after the first of them. The condition became
    True with the first.
    """
    before, since = preemptions_of(status)
    # A first one in the future was not written by this scheduler, or its clock was set back.
    if not before or not since <= now.timestamp() < since + window:
        before, since = 0, now.timestamp()
    number = min(before + 1, 999_999)
    begun = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = "1 time" if number == 1 else f"{number} times"
    return {
        "type": CONDITION_PREEMPTED,
        "status": "True",
        "reason": REASON_PREEMPTION,
        "message": f"{SCHEDULER_COMPONENT}: preempted {times} since {begun}",
        "observedGeneration": generation,
        "lastTransitionTime": begun,
    }, number
