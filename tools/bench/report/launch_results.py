"""Stored costs of starting commands and processes, and their table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from tools.bench.report.frame import RESULTS
from tools.bench.report.rows import rows

FILE: Final = RESULTS / "launch.json"


@dataclass(frozen=True, slots=True)
class Launched:
    """The least of all runs; `before_` is that of the other tree, 0 without one."""

    name: str
    seconds: float
    limit: float
    mib: float = 0.0
    before_seconds: float = 0.0
    before_mib: float = 0.0

    @property
    def kept(self) -> bool:
        return self.seconds <= self.limit


def load() -> list[Launched]:
    """Return the last stored results; none without a file."""
    return [Launched(**entry) for entry in json.loads(FILE.read_text())] if FILE.is_file() else []


def keep(results: Iterable[Launched]) -> None:
    FILE.write_text(rows(asdict(it) for it in results))


def table(results: Iterable[Launched]) -> str:
    """Return the results as Markdown."""
    lines = [
        "| | processor time | at most | before | resident | before |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for it in results:
        cells = (
            f"`muster {it.name}`", _seconds(it.seconds), _seconds(it.limit),
            _seconds(it.before_seconds), _mib(it.mib), _mib(it.before_mib),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value else ""


def _mib(value: float) -> str:
    return f"{value:.0f} MiB" if value else ""
