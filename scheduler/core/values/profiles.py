"""Profiles: the scoring strategy of a schedulerName, in a module that does not import numpy."""

from __future__ import annotations

from typing import Literal

Profile = Literal["pack", "spread"]
"""Scoring strategy: `pack` fills the fullest nodes first, `spread` evens utilisation out."""
