"""Findings about leases and clocks."""

from datetime import UTC, datetime, timedelta

import pytest

from cli.doctor.findings import Severity
from cli.doctor.leaders import LeaseView, Readings, check_leases
from kube.base.clock import moment

NOW = datetime(2026, 6, 1, tzinfo=UTC)
APART = timedelta(seconds=4)
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


def lease(seconds_ago: float | None, holder: str = "one") -> LeaseView:
    renewed = None if seconds_ago is None else NOW - timedelta(seconds=seconds_ago)
    return LeaseView(holder, renewed, timedelta(seconds=15))


@pytest.mark.parametrize(
    ("first", "second", "want", "text"),
    [
        pytest.param(lease(5), lease(1), INFO, "one is the leader", id="renewed"),
        pytest.param(lease(9), lease(9), INFO, "one is the leader", id="not renewed yet, in time"),
        pytest.param(
            lease(42), lease(42), ERROR, "but does not renew it (last 42 s ago)", id="stale"
        ),
        pytest.param(lease(None), lease(None), ERROR, "(never)", id="never renewed"),
        pytest.param(None, None, ERROR, "does not exist", id="nobody has ever led"),
        pytest.param(lease(5), lease(5, ""), ERROR, "it has no holder", id="released"),
        pytest.param(lease(64), lease(60), WARNING, "56 s behind", id="a clock that is behind"),
        pytest.param(lease(-56), lease(-60), WARNING, "60 s ahead of", id="a clock that is ahead"),
        pytest.param(
            lease(12), lease(8), INFO, "one is the leader", id="a clock that is a little behind"
        ),
    ],
)
def test_leases(
    first: LeaseView | None, second: LeaseView | None, want: Severity, text: str
) -> None:
    fine = {"muster-controller": lease(0)}
    read = Readings(
        fine | {"muster-scheduler": first},
        fine | {"muster-scheduler": second},
        APART,
        NOW,
    )
    found = [one for one in check_leases(read, "ns") if one.about.name == "muster-scheduler"]

    assert max(one.severity for one in found) == want
    assert any(text in one.problem for one in found)
    assert all(one.action for one in found if one.severity > INFO)


def test_a_lease_as_it_is_written() -> None:
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-06-01T00:00:00.000000Z",
    }

    assert LeaseView.of({"spec": spec}) == LeaseView("a", NOW, timedelta(seconds=15))
    assert LeaseView.of({"spec": {"renewTime": 7}}) == LeaseView("", None, timedelta())


@pytest.mark.parametrize("written", ["", "yesterday", "2026-06-01T00:00:00"])
def test_what_is_no_time(written: str) -> None:
    assert moment(written) is None
