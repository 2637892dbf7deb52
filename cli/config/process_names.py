"""The server processes by name, apart from what they import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

PROCESSES: Final[Mapping[str, Sequence[str]]] = {
    "webhook": ("webhook",),
    "controller": ("controller",),
    "scheduler": ("scheduler",),
    "all": ("webhook", "controller", "scheduler"),
}
"""Which servers each process runs."""
