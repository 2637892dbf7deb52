"""Groups made from their pods that stayed when these had gone, by what is noted on them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from api.constants import ANNOTATION_NO_PODS_SINCE
from kube.base.clock import moment, rfc3339

LINGERING_SECONDS: Final = 120.0
"""One that is there after so long without pods should have been deleted: the controllers wait for
half of that."""


def lingers(annotations: Mapping[str, str], now: datetime) -> str:
    """What users are told of a group that should have been deleted; empty for any other."""
    since = moment(annotations.get(ANNOTATION_NO_PODS_SINCE, ""))
    if since is None or (now - since).total_seconds() <= LINGERING_SECONDS:
        return ""
    return f"it was made from its pods, and has had none since {rfc3339(since)}"
