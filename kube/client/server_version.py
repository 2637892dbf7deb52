"""The Kubernetes version that an API server reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kube.client.decoding import decode_mapping


def release_of(said: bytes) -> tuple[int, int]:
    """Return major and minor from the response of `/version`; (0, 0) if it has none."""
    return release_in(decode_mapping(said))


def release_in(version: Mapping[str, Any]) -> tuple[int, int]:
    """Return major and minor from the decoded response of `/version`; (0, 0) if it has none."""
    # Providers append to the numbers, as in `31+`.
    major, minor = (re.match(r"\d+", str(version.get(key))) for key in ("major", "minor"))
    return (int(major[0]), int(minor[0])) if major and minor else (0, 0)
