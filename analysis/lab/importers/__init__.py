"""Published traces: their columns become jobs. The data itself is not part of the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from analysis.lab.importers import alibaba, borg, philly
from analysis.lab.trace import Job

IMPORTERS: Final[Mapping[str, Callable[[Path], list[Job]]]] = {
    "openb": alibaba.read_openb,
    "philly": philly.read_job_log,
    "borg": borg.read_instance_events,
}
"""By the name that people call the trace."""
