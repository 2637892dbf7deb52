"""Stored results of the lab's growth and of the week on its page, with tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from analysis.lab.page import lines
from analysis.lab.results import Result
from tools.bench.report import bars, curve, frame
from tools.bench.report.rows import rows

FILE: Final = frame.RESULTS / "lab.json"
BASELINES: Final = ("muster", "one-by-one", "in-order")
MORE_NODES: Final = ("nodes=2", "nodes=4", "nodes=6", "nodes=8")
"""The variants of the first and the third question of docs/lab.md."""
RESOURCE: Final = "nvidia.com/gpu"
_TOGETHER: Final = 4
"""Spans of the report that are one step in a picture."""


class Point(msgspec.Struct, frozen=True):
    """One run; `seconds` of processor time."""

    jobs: int
    nodes: int
    decisions: int
    seconds: float


class Growth(msgspec.Struct, frozen=True):
    """Runs in which nodes and jobs grow together, or one of them alone.

    `longer` has more jobs in as much more time, `jobs` more of them in the same time.
    """

    both: list[Point]
    longer: list[Point]
    jobs: list[Point]
    nodes: list[Point]


class Week(msgspec.Struct, frozen=True):
    """A variant of the week. `p90` are seconds of waiting, by pods of a job and of all as `all`.

    `used` and `in_vain` are shares of RESOURCE, one for each `span` seconds.
    """

    variant: str
    nodes: int
    p90: dict[str, float]
    p99: float
    span: float
    used: list[float]
    in_vain: list[float]


class Kept(msgspec.Struct, frozen=True):
    """All stored measurements."""

    growth: Growth
    weeks: list[Week]


def load() -> Kept:
    """Return the last stored results. Raises OSError without any."""
    return msgspec.json.decode(FILE.read_bytes(), type=Kept)


def keep(found: Kept) -> None:
    growth = msgspec.json.encode(found.growth).decode()
    weeks = rows(msgspec.to_builtins(found.weeks))
    FILE.write_text(f'{{"growth": {growth},\n"weeks": {weeks}}}\n')


def week_of(result: Result) -> Week:
    """Return the numbers of a variant that the pictures need."""
    resource = next(it for it in result.resources if it.name == RESOURCE)
    by_size = {size: waits.p90 for size, waits in result.wait_by_size.items()}
    return Week(
        result.variant,
        result.nodes,
        {"all": result.wait.p90, **by_size},
        result.wait.p99,
        result.span * _TOGETHER,
        _means(resource.over_time),
        _means(resource.partial_over_time),
    )


def _means(values: Sequence[float]) -> list[float]:
    starts = range(0, len(values), _TOGETHER)
    groups = [values[start : start + _TOGETHER] for start in starts]
    return [round(math.fsum(group) / len(group), 4) for group in groups]


def table(points: Sequence[Point]) -> str:
    """Return lines of Markdown: each run, and the power by which its time grew."""
    rows = [
        "| jobs | nodes | decisions | for each job | processor time | for each decision | power |",
        "|---|---|---|---|---|---|---|",
    ]
    for before, point in zip([None, *points], points, strict=False):
        power = "" if before is None else f"{growth(before, point):.2f}"
        rows.append(
            f"| {point.jobs:,} | {point.nodes:,} | {point.decisions:,}"
            f" | {point.decisions / point.jobs:.2f} | {point.seconds:.1f} s"
            f" | {1000 * point.seconds / point.decisions:.2f} ms | {power} |"
        )
    return "\n".join([*rows, ""])


def tables(found: Growth) -> str:
    """Return lines of Markdown: a table for each kind of growth."""
    parts = (
        ("Jobs and nodes together, at the same load:", found.both),
        ("Jobs alone, in as much more time, so that the load is the same:", found.longer),
        ("Jobs alone, in the same time, until the cluster is full:", found.jobs),
    )
    return "\n".join(f"{title}\n\n{table(points)}" for title, points in parts)


def growth(before: Point, after: Point) -> float:
    """Return the power by which the time grows with jobs, nodes or both."""
    wider = max(after.jobs / before.jobs, after.nodes / before.nodes)
    return math.log(after.seconds / before.seconds) / math.log(wider)


def pictures(found: Kept) -> dict[str, str]:
    """Return file name -> SVG."""
    return {f"lab-{name}.svg": text for name, text in _drawn(found)}


def _drawn(found: Kept) -> Iterator[tuple[str, str]]:
    baselines = [week for week in found.weeks if week.variant in BASELINES]
    used = [(week.variant, week.span, week.used) for week in baselines]
    in_vain = [(week.variant, week.span, week.in_vain) for week in baselines]
    sizes = list(dict.fromkeys(size for week in baselines for size in week.p90))
    yield "used", lines(used, f"{RESOURCE} used")
    yield "in-vain", lines(in_vain, f"{RESOURCE} held in vain")
    by_size = {
        _jobs(size): {week.variant: _hours(week.p90[size]) for week in baselines} for size in sizes
    }
    yield "waits", bars.draw(by_size, "h", digits=1)
    by_nodes = {
        f"{week.nodes} nodes": {"P90": _hours(week.p90["all"]), "P99": _hours(week.p99)}
        for week in found.weeks
        if week.variant in ("muster", *MORE_NODES)
    }
    yield "nodes", bars.draw(by_nodes, "h", digits=1)
    yield "growth-jobs", curve.draw(_over_jobs(found.growth), "jobs", "processor time, seconds")
    yield "growth-nodes", curve.draw(_over_nodes(found.growth), "nodes", "processor time, seconds")


def _jobs(size: str) -> str:
    return "all jobs" if size == "all" else f"jobs of {size} pods"


def _hours(seconds: float) -> float:
    return seconds / 3600


def _over_jobs(found: Growth) -> dict[str, list[tuple[float, float]]]:
    return {
        "jobs and nodes at the same load": [(it.jobs, it.seconds) for it in found.both],
        "jobs alone, in a longer time": [(it.jobs, it.seconds) for it in found.longer],
        "jobs alone, in the same time": [(it.jobs, it.seconds) for it in found.jobs],
    }


def _over_nodes(found: Growth) -> dict[str, list[tuple[float, float]]]:
    return {
        "jobs and nodes at the same load": [(it.nodes, it.seconds) for it in found.both],
        f"nodes with {found.nodes[0].jobs:,} jobs": [(it.nodes, it.seconds) for it in found.nodes],
    }
