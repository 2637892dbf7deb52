"""Stored results of the supported numbers, and their table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from tools.bench.report import frame

FILE: Final = frame.RESULTS / "supported.json"


@dataclass(frozen=True, slots=True)
class Supported:
    """A supported number of something, and its cost in MiB or seconds."""

    what: str
    number: int
    cost: float
    unit: str


def load() -> list[Supported]:
    """Return the last stored results."""
    return [Supported(**each) for each in json.loads(FILE.read_text())] if FILE.is_file() else []


def keep(measured: Sequence[Supported]) -> None:
    FILE.write_text(json.dumps([asdict(each) for each in measured], indent=1) + "\n")


def table(measured: Sequence[Supported]) -> str:
    """Return one line for each number."""
    rows = "".join(f"| {it.number:,} {it.what} | {_cost(it)} |\n" for it in measured)
    return "| supported | measured |\n|---|---|\n" + rows


def _cost(it: Supported) -> str:
    if it.unit == "MiB":
        return f"{it.cost:,.0f} MiB in the scheduler"
    text = f"{it.cost:.1f} s" if it.cost >= 1 else f"{it.cost * 1000:.0f} ms"
    return f"{text} for the decision" if "wait" not in it.what else f"{text} for each pod that ends"
