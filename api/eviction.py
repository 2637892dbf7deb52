"""The condition DisruptionTarget in the status of a group, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.constants import CONDITION_DISRUPTION_TARGET, SCHEDULER_COMPONENT
from api.reading import condition_of, text


def eviction_of(status: Mapping[str, Any]) -> str:
    """Return for whom the group was evicted, as in `preempted for PodGroup team/a of priority 9`.

    Returns an empty text if it was not evicted, or is scheduled again. The status may be of any
    structure.
    """
    condition = condition_of({"status": status}, CONDITION_DISRUPTION_TARGET)
    if condition.get("status") != "True":
        return ""
    return text(condition.get("message")).removeprefix(f"{SCHEDULER_COMPONENT}: ")
