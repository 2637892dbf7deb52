"""Measurements in one process: statistics, ranges, and comparisons with the last results."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import frame
from bench.frame import Case, Measured


def _measured(median: float, spread: float = 0.1, limit: float = 10) -> Measured:
    return Measured("a case", "total", median, spread, limit)


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(_measured(2), None, "new", id="nothing was kept"),
        pytest.param(_measured(2), _measured(2.1), "0.95 x", id="about the same"),
        pytest.param(_measured(4), _measured(2), "2.00 x, slower", id="twice as long"),
        pytest.param(_measured(1), _measured(2), "0.50 x, faster", id="half as long"),
        pytest.param(_measured(4, 3), _measured(2), "2.00 x", id="less than the runs differ"),
    ],
)
def test_a_result_is_compared_with_the_last_one(
    new: Measured, old: Measured | None, want: str
) -> None:
    assert frame.compared(new, old) == want


def test_each_statistic_is_taken_of_one_run_and_the_middle_of_all() -> None:
    runs = iter([[0.001, 0.002, 0.003], [0.001, 0.002, 0.006], [0.001, 0.002, 0.003]])

    def run() -> Iterator[float]:
        yield from next(runs)

    limits = {"total": 1e9, "P50": 1e9, "P99": 0.0}
    measured = {it.of: it for it in frame.measure(Case("a case", run, limits), runs=3)}

    assert measured["total"].median > measured["P99"].median > measured["P50"].median
    assert [it.kept for it in measured.values()] == [True, True, False]


def test_results_are_read_as_they_were_kept(tmp_path: Path) -> None:
    file = tmp_path / "results" / "some.json"
    assert frame.load(file) == {}

    frame.keep([_measured(2)], file)

    assert frame.load(file) == {"a case, total": _measured(2)}


def test_a_missed_range_stands_out_in_the_table() -> None:
    table = frame.table([_measured(9), _measured(11)], {})

    assert [line.count("**missed**") for line in table.splitlines()] == [0, 0, 0, 1]
