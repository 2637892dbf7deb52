"""Stored writes for gangs that wait for capacity, and their table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from tools.bench.report import frame
from tools.bench.report.rows import rows

FILE: Final = frame.RESULTS / "waiting.json"


@dataclass(frozen=True, slots=True)
class Phase:
    """One period of virtual time, and all writes in it except those of leases.

    `kind` is the activity: gangs come, nothing happens, others come and go, or a gang comes while
    others are bound. `writes` are by verb and resource, `peak` the most in a second. `told` is the
    number of seconds from the arrival of the last gang until the last of its pods was
    Unschedulable; None if none came. `waiting` is the number of waiting gangs, `others` that of
    unrelated writes.
    """

    kind: Literal["come", "quiet", "churn", "busy"]
    title: str
    seconds: float
    waiting: int
    writes: Mapping[str, int]
    others: int
    peak: int
    told: float | None = None

    @property
    def each(self) -> float:
        """Writes about waiting gangs, for each of them."""
        return (sum(self.writes.values()) - self.others) / max(1, self.waiting)

    @property
    def each_second(self) -> float:
        """Writes about waiting gangs in a second."""
        return self.each * max(1, self.waiting) / self.seconds


def load() -> list[Phase]:
    """Return the last stored phases."""
    kept = json.loads(FILE.read_text()) if FILE.is_file() else []
    return [Phase(**entry) for entry in kept]


def keep(phases: Iterable[Phase]) -> None:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(rows(asdict(phase) for phase in phases))


def table(phases: Sequence[Phase], last: Sequence[Phase] = ()) -> str:
    """Return Markdown; last results, if any, are in brackets."""
    before = {phase.title: phase for phase in last}
    heads = ("phase", "seconds", "writes", "of them about waiting gangs, each",
             "most in a second", "last pod told after")  # fmt: skip
    rows: list[tuple[str, ...]] = [heads, ("---", "---:", "---", "---:", "---:", "---:")]
    rows += [_row(phase, before.get(phase.title)) for phase in phases]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(it: Phase, last: Phase | None) -> tuple[str, ...]:
    cells = _cells(it)
    if last is None:
        return (it.title, f"{it.seconds:g}", _counts(it.writes), *cells)
    beside = zip(cells, _cells(last), strict=True)
    shown = [new if new == old else f"{new} ({old})" for new, old in beside]
    return (it.title, f"{it.seconds:g}", _counts(it.writes), *shown)


def _cells(it: Phase) -> tuple[str, ...]:
    told = "" if it.told is None else f"{it.told:.1f} s"
    return (f"{it.each:.2f}", f"{it.peak:,}", told)


def _counts(writes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(writes.items())) or "none"
