"""What was aimed for and what was reached."""

from bench import targets
from bench.e2e.cases import KUBE_SCHEDULER, MUSTER, RAW
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
