"""Results as JSON with one row on a line: a change of one result is a change of one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def rows(found: Iterable[Mapping[str, Any]]) -> str:
    """Return a JSON list with one object on each line."""
    return "[\n" + ",\n".join(json.dumps(it) for it in found) + "\n]\n"
