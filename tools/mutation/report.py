"""Report of a run: a summary by target, and the survivors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tools.mutation.project import Project
from tools.mutation.running import CAUGHT, NOT_EXECUTED, SURVIVED, TIMED_OUT

_OUTCOMES = (CAUGHT, TIMED_OUT, SURVIVED, NOT_EXECUTED)


def summary(project: Project, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each target and one for all, with the share that is caught."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(project.files[row["file"]], Counter())[row["outcome"]] += 1
    yield f"{'target':20}{'mutants':>10}" + "".join(f"{name:>14}" for name in _OUTCOMES)
    for target, found in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        caught = found[CAUGHT] + found[TIMED_OUT]
        line = "".join(f"{found[name]:>14}" for name in _OUTCOMES)
        yield f"{target:20}{found.total():>10}{line}{caught / max(found.total(), 1):>8.0%}"


def survivors(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each mutant that no test caught, as two lines of a diff."""
    for row in rows:
        if row["outcome"] in {SURVIVED, NOT_EXECUTED}:
            place = f"{row['file']}:{row['line']}"
            yield f"{place} {row['operator']}: {row['outcome']}, {row['ran']} tests"
            yield f"-{row['before']}\n+{row['after']}\n"
