"""Stored measurements of growth: JSON, a table and pictures.

Shapes: axis -> line -> points (size, milliseconds).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from tools.bench.report import frame
from tools.bench.report.curve import draw

FILE: Final = frame.RESULTS / "growth.json"
ACROSS: Final = {
    "nodes": "nodes",
    "pods": "pods that run, or come in",
    "gangs": "gangs that wait",
    "size": "pods of one gang",
    "depth": "levels of a tree of 256 pods",
}
"""The quantity on each axis."""

Points = Sequence[tuple[float, float]]
Curves = Mapping[str, Mapping[str, Points]]


def load() -> Curves:
    """Return the last stored curves."""
    kept: Curves = json.loads(FILE.read_text()) if FILE.is_file() else {}
    return kept


def keep(measured: Curves) -> None:
    """Store these axes; keep the stored ones of the others."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({**load(), **measured}, indent=1) + "\n")


def power(points: Points) -> float:
    """Return the slope over the upper half of a line with two logarithmic axes."""
    (x0, y0), (x1, y1) = points[len(points) // 2], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def table(measured: Curves) -> str:
    """Return a table of each line's first and last point, and the power by which it grows."""
    rows = ["| over | | from | to | grows with the power |\n", "|---|---|---:|---:|---:|\n"]
    for axis, across in ACROSS.items():
        for name, points in measured.get(axis, {}).items():
            (x0, y0), (x1, y1) = points[0], points[-1]
            rows.append(
                f"| {across} | {name} | {y0:.3g} ms at {x0:,.0f} "
                f"| {y1:.3g} ms at {x1:,.0f} | {power(points):.2f} |\n"
            )
    return "".join(rows)


def shown(measured: Curves) -> str:
    """Return the table, and links to the pictures."""
    pictures = [
        f"![over {across}](pictures/growth-{axis}.svg)\n"
        for axis, across in ACROSS.items()
        if axis in measured
    ]
    return table(measured) + "\n" + "".join(pictures)


def pictures(measured: Curves) -> dict[str, str]:
    """Return file name -> SVG."""
    return {
        f"growth-{axis}.svg": draw(lines, ACROSS[axis], "milliseconds")
        for axis, lines in measured.items()
    }
