"""Profiles: the scoring strategies of a schedulerName, in a module that does not import numpy."""

from __future__ import annotations

from typing import Literal, NamedTuple

Profile = Literal["pack", "spread"]
"""Scoring strategy: `pack` fills the fullest nodes first, `spread` evens utilisation out."""

PodProfile = Literal["default", "pack", "spread"]
"""Scoring strategy of pods without a group; `default` uses kube-scheduler's default plugins."""


class Scoring(NamedTuple):
    """Scoring strategies of one schedulerName: of groups, and of pods without a group."""

    groups: Profile = "pack"
    pods: PodProfile = "default"
