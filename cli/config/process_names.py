"""The server processes by name, without importing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

PROCESSES: Final[Mapping[str, Sequence[str]]] = {
    "webhook": ("webhook",),
    "controller": ("controller",),
    "scheduler": ("scheduler",),
    "all": ("webhook", "controller", "scheduler"),
}
"""The servers that each process runs."""
