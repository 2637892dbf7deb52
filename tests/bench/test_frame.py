"""What is said about measurements: ranges, comparisons, growth, and the page they are put into."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import bars, curve, frame, growth, page, targets
from bench.e2e import results as e2e
from bench.e2e.cases import CASES, KUBE_SCHEDULER, MUSTER, RAW
from bench.e2e.results import Result
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


@pytest.mark.parametrize("wanted", [0.5, 1.0, 2.0])
def test_the_power_of_growth_is_that_of_the_upper_half(wanted: float) -> None:
    points = [(1.0, 50.0), (10.0, 10.0**wanted), (100.0, 100.0**wanted)]
    assert growth.power([(0.1, 50.0), *points]) == pytest.approx(wanted)


def test_only_what_is_between_the_marks_is_made_anew() -> None:
    before = "top\n<!-- begin e2e -->\nold\n<!-- end e2e -->\nfoot\n"
    assert page.replaced(before, {"e2e": "new\n"}) == before.replace("old", "new")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks for growth"):
        page.replaced("nothing", {"growth": ""})


def test_the_page_has_a_place_for_everything() -> None:
    parts = dict.fromkeys(("targets", "e2e", "decisions", "growth"), "")
    page.replaced(page.PAGE.read_text(), parts)


def test_pictures_are_well_formed() -> None:
    ET.fromstring(bars.draw({"a": {"raw": 1.0, "muster": 0.5}}, "pods/s"))
    ET.fromstring(curve.draw({"a": [(1, 1), (1000, 2)]}, "nodes", "ms"))


def test_new_results_take_the_place_of_old_ones_in_the_order_of_the_cases(tmp_path: Path) -> None:
    file = tmp_path / "e2e.json"
    e2e.keep([Result("racks", MUSTER, 5000, 3000, rate=1.0)], file)
    e2e.keep([Result("plain", RAW, 5000, 3000, rate=2.0)], file)

    kept = e2e.keep([Result("racks", MUSTER, 5000, 3000, rate=3.0)], file)

    assert [(it.case, it.rate) for it in kept] == [("plain", 2.0), ("racks", 3.0)]
    assert e2e.load(file) == kept


def test_a_rate_is_shown_beside_the_raw_one_of_its_case() -> None:
    raw = Result("racks", RAW, 5000, 3000, rate=2000.0, rates={"16": 1500.0, "48": 2000.0})
    ours = Result("racks", MUSTER, 5000, 3000, 750, 3000, 1500.0, writes={
        "pods/binding": 3000, "reservations": 75}, early=75)  # fmt: skip
    late = Result("racks", KUBE_SCHEDULER, 5000, 3000, 750, 100, 50.0)

    _, _, of_raw, of_ours, of_late = e2e.table([raw, ours, late]).splitlines()

    assert "2,000 (48 connections)" in of_raw
    assert "| 1,500 | 0.75 |" in of_ours
    assert "| 0.10 |" in of_ours  # writes besides Bindings
    assert "100 of 3,000" in of_late


def test_each_promise_is_kept_or_missed_by_its_own_number() -> None:
    raw = Result("gangs-3", RAW, 5000, 3000, rate=1000.0)
    peer = Result("gangs-3", KUBE_SCHEDULER, 5000, 3000, 1000, 3000, 300.0)
    ours = Result("gangs-3", MUSTER, 5000, 3000, 1000, 3000, 700.0, first=0.5, statuses=1000,
                  status_lag=6.0, early=300)  # fmt: skip

    rows = targets.table([raw, peer, ours], [_measured(11)]).splitlines()[2:]

    assert [row.split("|")[3].strip() for row in rows] == [
        "0.70", "0.50 s", "700 pods/s", "0.30", "6.0 s", "11"]  # fmt: skip
    assert ["missed" in row for row in rows] == [True, False, False, False, True, True]


@pytest.mark.parametrize("name", CASES)
def test_a_small_case_keeps_its_shape(name: str) -> None:
    case = CASES[name]
    small = case.scaled(100, 0.1)
    assert small.pods == pytest.approx(case.pods * 0.1, rel=0.5, abs=case.size)
    assert (small.racks, small.rate, small.subjects) == (case.racks, case.rate, case.subjects)


def test_of_several_runs_the_middle_one_is_kept_and_of_raw_rates_the_best_median() -> None:
    ours = [
        Result("racks", MUSTER, 5000, 3000, rate=rate, first=rate) for rate in (3.0, 1.0, 2.0, 9.0)
    ]
    raw = [
        Result("racks", RAW, 5000, 3000, rate=max(few, many), rates={"16": few, "48": many})
        for few, many in ((5.0, 6.0), (9.0, 7.0), (4.0, 8.0))
    ]

    kept, limit = e2e.middle(ours), e2e.middle(raw)

    assert (kept.rate, kept.first, kept.runs) == (2.0, 2.0, [1.0, 2.0, 3.0, 9.0])
    assert (limit.rate, limit.rates) == (7.0, {"16": 5.0, "48": 7.0})
    assert "7 (48 connections; 3 runs: 6 to 9)" in e2e.table([limit, kept])
    assert "| 2 (4 runs: 1 to 9) | 0.29 |" in e2e.table([limit, kept])
