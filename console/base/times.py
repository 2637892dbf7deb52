"""Times in the console's format."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Return seconds since 1970 as RFC 3339 in UTC, in whole seconds."""
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)
    return at.isoformat().replace("+00:00", "Z")
