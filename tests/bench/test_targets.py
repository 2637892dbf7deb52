"""What was aimed for and what was reached."""

import pytest

from bench import targets
from bench.e2e.cases import AS_MUSTER, CASES, KUBE_SCHEDULER, MUSTER, RAW
from bench.e2e.results import Result
from bench.frame import Measured


def test_each_target_is_reached_or_missed_by_its_own_number() -> None:
    raw = Result("gangs-3", RAW, 5000, 3000, rate=1000.0)
    peer = Result("gangs-3", KUBE_SCHEDULER, 5000, 3000, 1000, 3000, 300.0)
    ours = Result("gangs-3", MUSTER, 5000, 3000, 1000, 3000, 700.0, first=0.5, statuses=1000,
                  status_lag=6.0, early=300)  # fmt: skip

    rows = targets.table(
        [raw, peer, ours], [Measured("a case", "total", 11, 0.1, 10)]
    ).splitlines()[2:]

    assert [row.split("|")[3].strip() for row in rows] == [
        "0.70", "0.50 s", "700 pods/s", "0.30", "6.0 s", "11"]  # fmt: skip
    assert ["missed" in row for row in rows] == [True, False, False, False, True, True]


def test_cases_with_claims_are_held_to_the_raw_rate_of_the_same_writes() -> None:
    raw = Result("claims-plain", RAW, 5000, 3000, rate=600.0)
    peer = Result("claims-plain", KUBE_SCHEDULER, 5000, 3000, 0, 3000, 100.0)
    ours = Result("claims-plain", MUSTER, 5000, 3000, 0, 3000, 420.0, first=1.5)

    rows = targets.table([raw, peer, ours], []).splitlines()[2:]

    assert [row.split("|")[3].strip() for row in rows] == ["0.70", "1.50 s", "4.20 x"]
    assert ["missed" in row for row in rows] == [False, True, False]


def test_what_comes_and_goes_is_compared_by_when_its_pods_run() -> None:
    """Its rate is mostly that of whoever makes and deletes the pods."""
    peer = Result("perf-steady-half", KUBE_SCHEDULER, 500, 400, 0, 400, 43.0, p50=0.14, p99=0.2)
    ours = Result("perf-steady-half", MUSTER, 500, 700, 0, 700, 72.0, p50=0.05, p99=0.1)

    (row,) = targets.table([peer, ours], []).splitlines()[2:]

    assert row.split("|")[3].strip() == "2.80 x"
    assert "missed" in row


@pytest.mark.parametrize(
    ("case", "raw", "rates", "bound", "want"),
    [
        ("perf-basic", AS_MUSTER, (900, 200, 700), 10, (">= 3.5 x", "3.5 x", "kept")),
        ("perf-gated", AS_MUSTER, (900, 200, 800), 10,
         (">= 5 x", "4.0 x; the raw requests 4.5 x", "**missed**")),
        ("perf-ungated", RAW, (600, 200, 400), 10,
         (">= 5 x", "2.0 x; the raw requests 3.0 x", "**missed**")),
        ("perf-preemption", RAW, (600, 40, 120), 10,
         (">= 5 x", "3.0 x; the raw requests 4.4 x", "**missed**")),
        ("perf-spreading", None, (0, 100, 900), 10, (">= 10 x", "9.0 x", "**missed**")),
        ("perf-mixed", None, (0, 100, 900), 9, (">= 5 x", "9.0 x", "**missed**")),
    ],
)  # fmt: skip
def test_cases_of_scheduler_perf_are_held_to_a_multiple_or_shown_beside_the_raw_requests(
    case: str, raw: str | None, rates: tuple[float, ...], bound: int, want: tuple[str, ...]
) -> None:
    of_raw, of_peer, of_ours = rates
    found = [
        Result("plain", AS_MUSTER, 5000, 10, 0, 10, 1_500.0),
        Result(case, KUBE_SCHEDULER, 5000, 10, 0, 10, of_peer),
        Result(case, MUSTER, 5000, 10, 0, bound, of_ours),
    ]
    if raw is not None:
        evictions = of_raw if CASES[case].victims else 0.0
        found.append(Result(case, raw, 5000, 10, 0, 10, of_raw, evictions=evictions))

    (row,) = targets.table(found, []).splitlines()[2:]

    assert tuple(it.strip() for it in row.split("|")[2:5]) == want


def test_muster_comes_near_the_raw_rate_of_its_own_writes() -> None:
    raw = Result("gangs-3", RAW, 5000, 3000, rate=1000.0)
    own = Result("gangs-3", AS_MUSTER, 5000, 3000, rate=900.0)
    ours = Result("gangs-3", MUSTER, 5000, 3000, 1000, 3000, 800.0)

    _, row, *_ = targets.table([raw, own, ours], []).splitlines()[2:]

    assert [it.strip() for it in row.split("|")[2:5]] == [">= 0.9", "0.89", "**missed**"]
