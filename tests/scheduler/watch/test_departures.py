"""The expected end of a deleted pod, whatever the API server's time of day is."""

from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest

from kube.base.clock import ServerClock
from scheduler.core.values.model import PodInfo, PreemptionInfo, Requirements
from scheduler.watch.departures import Departures
from tests.support.clock import FakeClock

ALIVE = PodInfo("uid", "ns", "pod", Requirements())


class Watch:
    """A watch of one pod; the test sets the API server's time of day."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = ServerClock(self.clock)
        self.departures = Departures(self.server)
        self.known: PodInfo | None = None

    def server_says(self, at: datetime) -> None:
        self.server.heard(format_datetime(at, usegmt=True))

    def leaves_in(self, stamp: datetime | None, grace: float | None = None) -> float:
        """Deliver the pod with this deletionTimestamp.

        Return the seconds until its expected end.
        """
        by = stamp.timestamp() if stamp is not None else 0.0
        info = replace(
            ALIVE, terminating=stamp is not None, preemption=PreemptionInfo(leaves_by=by)
        )
        self.known = self.departures.timed(info, self.known, grace)
        return self.known.preemption.leaves_by - self.clock.monotonic()


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_a_pod_that_was_alive_has_its_whole_grace_period(ahead: int) -> None:
    watch = Watch()
    watch.leaves_in(None)
    at = watch.clock.now() + timedelta(seconds=ahead + 30)
    assert watch.leaves_in(at, 30) == 30


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_a_time_of_day_that_jumps_changes_nothing_later(ahead: int) -> None:
    watch = Watch()
    at = watch.clock.now() + timedelta(seconds=30)
    watch.server_says(watch.clock.now())
    assert watch.leaves_in(at, 600) == pytest.approx(30)
    watch.server_says(watch.clock.now() + timedelta(seconds=ahead))
    assert watch.leaves_in(at, 600) == pytest.approx(30)
    # A client deletes it again, with a shorter grace period.
    assert watch.leaves_in(at - timedelta(seconds=20), 10) == pytest.approx(10)


def test_a_pod_of_the_first_list_has_the_rest_of_its_grace_period() -> None:
    watch = Watch()
    now = watch.clock.now()
    watch.server_says(now)
    assert watch.leaves_in(now - timedelta(seconds=90), 30) == pytest.approx(-90)


def test_nobody_has_more_than_the_grace_period() -> None:
    watch = Watch()
    now = watch.clock.now()
    watch.server_says(now)
    assert watch.leaves_in(now + timedelta(hours=1), 30) == pytest.approx(30)


def test_another_pod_of_the_uid_is_not_compared_with_the_one_before() -> None:
    watch = Watch()
    now = watch.clock.now()
    watch.leaves_in(now, 30)
    watch.departures.forget("uid")
    watch.known = None
    assert watch.leaves_in(now + timedelta(seconds=9)) == pytest.approx(9)
