"""Importers of published traces: their columns become jobs. The project contains no such data."""

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
"""The importers by the common name of the trace."""
