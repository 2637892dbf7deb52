"""Groups created from pods that outlived these pods, recognized by an annotation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from api.constants import ANNOTATION_NO_PODS_SINCE
from kube.base.clock import moment, rfc3339

LINGERING_SECONDS: Final = 120.0
"""Seconds without pods after which such a group should have been deleted. The controllers wait
for half of that."""


def lingers(annotations: Mapping[str, str], now: datetime) -> str:
    """Return the text for a group that should have been deleted; empty for any other."""
    since = moment(annotations.get(ANNOTATION_NO_PODS_SINCE, ""))
    if since is None or (now - since).total_seconds() <= LINGERING_SECONDS:
        return ""
    return f"it was created from pods, and has had none since {rfc3339(since)}"
