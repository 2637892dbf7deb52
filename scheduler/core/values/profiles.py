"""How the pods of one schedulerName are placed; apart, so that it can be read without numpy."""

from __future__ import annotations

from typing import Literal

Profile = Literal["pack", "spread"]
"""`pack` fills the fullest nodes first, `spread` evens utilisation out."""
