"""Write the last results into the pages: python -m tools.bench.page

The pages are performance-results.md, scale.md and lab.md. They are written by hand, except for the
parts between `<!-- begin NAME -->` and `<!-- end NAME -->`, which come from tools/bench/results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
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
    supported_results,
    waiting_results,
    workload_reads_results,
)
from tools.marked_parts import replaced

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "performance-results.md"
SCALE = DOCS / "scale.md"
LAB = DOCS / "lab.md"
PICTURES = DOCS / "pictures"


def write() -> None:
    """Write all results into the pages and the pictures."""
    for name, picture in pictures().items():
        (PICTURES / name).write_text(picture)
    PAGE.write_text(replaced(PAGE.read_text(), parts()))
    alone = scale_results.tables(scale_results.load())
    alone["supported"] = supported_results.table(supported_results.load())
    alone["workload-reads"] = workload_reads_results.table(workload_reads_results.load())
    SCALE.write_text(replaced(SCALE.read_text(), alone))
    write_lab()


def parts() -> dict[str, str]:
    """Return the tables of performance-results.md, by the name of their comments."""
    measured = e2e.load()
    decided = frame.load(frame.DECISIONS).values()
    phases = waiting_results.load()
    return {
        "targets": targets.table(measured, decided, phases),
        "waiting": waiting_results.table(phases),
        "e2e": e2e.table(_by_table(measured)),
        "suite": e2e.suite(measured),
        "decisions": frame.table(decided),
        "devices": frame.table(frame.load(frame.DEVICES).values()),
        "growth": growth_curves.shown(growth_curves.load()),
        "launch": launch_results.table(launch_results.load()),
    }


def pictures() -> dict[str, str]:
    """Return the pictures of both pages, by file name."""
    groups: dict[str, dict[str, float]] = {}
    for result in _by_table(e2e.load()):
        groups.setdefault(CASES[result.case].title, {})[result.subject] = result.rate
    drawn = growth_curves.pictures(growth_curves.load())
    if groups:
        drawn["scheduling-rate.svg"] = bars.draw(groups, "pods/s")
    return drawn


def _by_table(measured: Iterable[e2e.Result]) -> list[e2e.Result]:
    """Return the results except those of scheduler_perf, which have a table of their own."""
    return [it for it in measured if not CASES[it.case].suite]


def write_lab() -> None:
    """Write the lab's growth, and the week, into its page."""
    found = lab_results.load()
    for name, picture in lab_results.pictures(found).items():
        (PICTURES / name).write_text(picture)
    LAB.write_text(replaced(LAB.read_text(), {"growth": lab_results.tables(found.growth)}))


def main() -> int:
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
