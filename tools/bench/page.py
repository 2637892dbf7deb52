"""Puts what was measured last into performance.md, scale.md and lab.md: python -m tools.bench.page

The pages are written by hand but for the parts between `<!-- begin NAME -->` and
`<!-- end NAME -->`, which are made anew from tools/bench/results.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.bench.decisions import growth_curves, targets
from tools.bench.end_to_end import results as e2e
from tools.bench.end_to_end.cases import CASES
from tools.bench.report import (
    bars,
    frame,
    lab_results,
    launch_results,
    scale_results,
    waiting_results,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "performance.md"
SCALE = DOCS / "scale.md"
LAB = DOCS / "lab.md"
PICTURES = DOCS / "pictures"


def replaced(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts replaced. Raises ValueError for a part without marks."""
    for name, text in parts.items():
        marks = re.compile(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)
        found = marks.findall(page)
        if len(found) != 1:
            raise ValueError(f"the page needs one pair of marks for {name}")
        begin, before, end = found[0]
        page = page.replace(f"{begin}{before}{end}", f"{begin}{text}{end}")
    return page


def write() -> None:
    """Everything that was measured, into the page and the pictures."""
    measured = e2e.load()
    groups: dict[str, dict[str, float]] = {}
    by_table = [it for it in measured if not CASES[it.case].suite]
    for result in by_table:
        groups.setdefault(CASES[result.case].title, {})[result.subject] = result.rate
    curves = growth_curves.load()
    drawn = growth_curves.pictures(curves)
    if groups:
        drawn["scheduling-rate.svg"] = bars.draw(groups, "pods/s")
    for name, picture in drawn.items():
        (PICTURES / name).write_text(picture)
    decided = frame.load(frame.DECISIONS).values()
    phases = waiting_results.load()
    parts = {
        "targets": targets.table(measured, decided, phases),
        "waiting": waiting_results.table(phases),
        "e2e": e2e.table(by_table),
        "suite": e2e.suite(measured),
        "decisions": frame.table(decided),
        "devices": frame.table(frame.load(frame.DEVICES).values()),
        "growth": growth_curves.shown(curves),
        "launch": launch_results.table(launch_results.load()),
    }
    PAGE.write_text(replaced(PAGE.read_text(), parts))
    alone = scale_results.tables(scale_results.load())
    SCALE.write_text(replaced(SCALE.read_text(), alone))
    write_lab()


def write_lab() -> None:
    """What the lab found of its growth and of the week on its page."""
    found = lab_results.load()
    for name, picture in lab_results.pictures(found).items():
        (PICTURES / name).write_text(picture)
    LAB.write_text(replaced(LAB.read_text(), {"growth": lab_results.tables(found.growth)}))


def main() -> int:
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
