"""Measurement in one process that is robust against other load on the machine.

Every case runs several times, and a constant loop runs in between: a time is stored as a multiple
of the time of the loops around it. The table shows that ratio, in the milliseconds of a quiet
machine with two cores (`LOOP_MS`), as the median of all runs; limits apply to the same number.
Times are processor time: nothing that is measured here waits, and other processes do not count.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tools.bench.report.rows import rows

RUNS: Final = 7
clock = time.process_time
LOOP_MS: Final = 4.75
"""Milliseconds of `loop` on the quiet machine that the ranges were set for."""
RESULTS: Final = Path(__file__).parents[1] / "results"
DECISIONS: Final = RESULTS / "decisions.json"
DEVICES: Final = RESULTS / "devices.json"
_NOTABLE: Final = 1.15
"""A ratio to the last result that is reported, if it is beyond the spread as well."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of work. `run` does it once from a fixed start and yields seconds, one by one.

    `limits` are the ranges in milliseconds: of "total", of the median ("P50"), of the 99th
    percentile ("P99"), or of the mean of all ("each").
    """

    title: str
    run: Callable[[], Iterable[float]]
    limits: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """The median of all runs in milliseconds of a quiet machine, and the spread of the runs."""

    title: str
    of: str
    median: float
    spread: float
    limit: float

    @property
    def name(self) -> str:
        return f"{self.title}, {self.of}"

    @property
    def kept(self) -> bool:
        return self.median <= self.limit


_UNITS: Final = ("MiB", "x")
"""Units of measurements that are no times."""


def loop() -> float:
    """Return the seconds of work of the same kind as ours: dictionaries, tuples, small arrays."""
    start = clock()
    column = np.arange(5_000, dtype=np.int64)
    counted: dict[tuple[str, int], int] = {}
    for index in range(12_000):
        key = ("pod", index % 997)
        counted[key] = counted.get(key, 0) + index
        if index % 60 == 0:
            column = np.minimum(column[::-1] // 3 + index, 1 << 20)
    assert len(counted) == 997
    return clock() - start


def measure(case: Case, runs: int = RUNS) -> list[Measured]:
    found: dict[str, list[float]] = {of: [] for of in case.limits}
    before = quick_loop()
    for _ in range(runs):
        gc.collect()
        samples = sorted(case.run())
        after = quick_loop()
        unit = (before + after) / 2
        before = after
        for of, values in found.items():
            values.append(_STATISTICS[of](samples) / unit * LOOP_MS)
    return [
        Measured(
            case.title,
            of,
            round(statistics.median(values), 4),
            round(_spread(values), 4),
            case.limits[of],
        )
        for of, values in found.items()
    ]


def quick_loop() -> float:
    """Return the best of three: a pause is not the speed of the machine."""
    return min(loop() for _ in range(3))


def percentile(samples: Sequence[float], percent: int) -> float:
    """Return the value that so many percent of the sorted samples are below."""
    return samples[min(len(samples) - 1, len(samples) * percent // 100)]


def _spread(values: list[float]) -> float:
    """Return half the distance between the quartiles, the usual `±`."""
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2


_STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "total": sum,
    "each": statistics.fmean,
    "P50": lambda samples: samples[len(samples) // 2],
    "P99": lambda samples: percentile(samples, 99),
}


def load(path: Path) -> dict[str, Measured]:
    """Return the last stored results by name; none without a file."""
    if not path.is_file():
        return {}
    kept = [Measured(**entry) for entry in json.loads(path.read_text())]
    return {measured.name: measured for measured in kept}


def keep(results: Iterable[Measured], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(rows(asdict(measured) for measured in results))


def compared(new: Measured, old: Measured | None) -> str:
    """Describe in a word or two the difference to the last result."""
    if old is None:
        return "new"
    ratio = new.median / old.median if old.median else 1.0
    apart = abs(new.median - old.median) > 2 * max(new.spread, old.spread)
    if apart and not 1 / _NOTABLE < ratio < _NOTABLE:
        return f"{ratio:.2f} x, {'slower' if ratio > 1 else 'faster'}"
    return f"{ratio:.2f} x"


def table(results: Iterable[Measured], last: Mapping[str, Measured] | None = None) -> str:
    """Return Markdown, with a column for the last results if they are given."""
    heads = ["case", "", "median", "spread", "range", ""]
    rules = ["---", "---", "---:", "---:", "---:", "---"]
    if last is not None:
        heads.append("beside the last result")
        rules.append("---")
    return "".join(_line(cells) for cells in (heads, rules, *(_cells(it, last) for it in results)))


def _cells(it: Measured, last: Mapping[str, Measured] | None) -> list[str]:
    unit = it.of if it.of in _UNITS else "ms"
    cells = [
        it.title,
        "" if it.of == unit else it.of,
        f"{_digits(it.median)} {unit}",
        f"± {_digits(it.spread)}",
        f"< {it.limit:g} {unit}",
        "kept" if it.kept else "**missed**",
    ]
    return cells if last is None else [*cells, compared(it, last.get(it.name))]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _digits(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
