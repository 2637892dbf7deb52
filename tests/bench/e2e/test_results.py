"""Results of the end-to-end measurements: kept, merged and shown."""

from pathlib import Path

import pytest

from bench.e2e import results as e2e
from bench.e2e.cases import AS_MUSTER, KUBE_SCHEDULER, MUSTER, RAW
from bench.e2e.results import Result


def test_new_results_take_the_place_of_old_ones_in_the_order_of_the_cases(tmp_path: Path) -> None:
    file = tmp_path / "e2e.json"
    e2e.keep([Result("racks", MUSTER, 5000, 3000, rate=1.0)], file)
    e2e.keep([Result("plain", RAW, 5000, 3000, rate=2.0)], file)

    kept = e2e.keep([Result("racks", MUSTER, 5000, 3000, rate=3.0)], file)

    assert [(it.case, it.rate) for it in kept] == [("plain", 2.0), ("racks", 3.0)]
    assert e2e.load(file) == kept


def test_what_muster_did_wrong_is_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "e2e.json"
    e2e.keep([Result("racks", MUSTER, 5000, 3000, rate=1.0)], file)
    theirs = Result("racks", KUBE_SCHEDULER, 5000, 3000, rate=1.0, faults=["without a device"])

    kept = e2e.keep([Result("racks", MUSTER, 5000, 3000, rate=3.0, faults=["twice"]), theirs], file)

    assert [(it.subject, it.rate) for it in kept] == [(KUBE_SCHEDULER, 1.0), (MUSTER, 1.0)]
    assert capsys.readouterr().out == "racks: not kept, 1 faults\n"


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


def test_raw_rates_of_pods_with_claims_are_of_more_than_bindings() -> None:
    raw = Result("claims-plain", RAW, 5000, 3000, rate=500.0, rates={"48": 500.0})

    assert "| raw writes | 500 (48 connections) | 1 |" in e2e.table([raw])


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


def test_evictions_are_compared_with_the_raw_rate_of_evictions() -> None:
    case = "perf-preemption"
    raw = Result(case, RAW, 500, 1500, rate=900.0, evictions=900.0, ended=1500, rates={"48": 900.0})
    ours = Result(case, MUSTER, 500, 500, bound=500, rate=200.0, ended=1500, evictions=600.0)
    ours.after_last = 0.25

    _, _, of_raw, of_ours = e2e.table([raw, ours]).splitlines()

    assert "| raw evictions | 900 (48 connections) | 1 |" in of_raw
    assert "| 200 | 0.67 |" in of_ours
    assert "1,500 victims, 600 a second, 0.25 s before" in of_ours


def test_workloads_are_shown_beside_kube_scheduler_with_a_ratio_where_both_bound_all() -> None:
    def of(case: str, subject: str, rate: float, bound: int = 10) -> Result:
        return Result(case, subject, 100, 10, bound=bound, rate=rate, cpu={subject: 2.0})

    shown = e2e.suite(
        [
            of("perf-basic", AS_MUSTER, 400.0),
            of("perf-basic", KUBE_SCHEDULER, 50.0),
            of("perf-basic", MUSTER, 200.0),
            of("perf-spreading", KUBE_SCHEDULER, 50.0, bound=9),
            of("perf-spreading", MUSTER, 200.0),
            of("perf-trees-small", MUSTER, 300.0),
            of("perf-mixed", KUBE_SCHEDULER, 50.0),
            of("plain", MUSTER, 9.0),
        ]
    )

    _, _, basic, spreading, trees = shown.splitlines()
    assert "| 50 | 200 | 4.0 | 0.50 of 400, as Muster writes |" in basic
    assert "| 50 (9 of 10 bound) | 200 |  |" in spreading
    assert "|  | 300 |  |" in trees


def test_of_workloads_that_were_not_measured_nothing_is_shown() -> None:
    assert e2e.suite([Result("plain", MUSTER, 100, 10, bound=10, rate=9.0)]) == ""


def test_the_raw_rate_of_what_muster_writes_is_a_share_of_what_can_be_written() -> None:
    raw = Result("gangs-3", RAW, 5000, 3000, rate=2000.0, rates={"48": 2000.0})
    own = Result("gangs-3", AS_MUSTER, 5000, 3000, rate=1800.0, rates={"48": 1800.0})

    assert "| raw, as Muster writes | 1,800 (48 connections) | 0.90 |" in e2e.table([raw, own])
    again = [
        Result("gangs-3", AS_MUSTER, 5000, 3000, rate=it, rates={"48": it}) for it in (1.0, 3.0)
    ]
    assert e2e.middle(again).rate == 1.0
