"""Long work yields to other tasks, and the longest stretch is reported with its object."""

from collections.abc import Iterator
from itertools import count

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from kube.concurrency.pace import SLICE, Pace
from tests.support.clock import FakeClock

_numbers = count()


@pytest.fixture
def work() -> Iterator[str]:
    """Return a name that no other test uses, because metrics outlive a test."""
    return iter([f"test {next(_numbers)}"])


def longest(work: str) -> float:
    value = REGISTRY.get_sample_value("muster_loop_longest_stretch_seconds", {"work": work})
    return round(value or 0.0, 3)


def test_short_steps_share_a_slice(clock: FakeClock) -> None:
    pace = Pace("test", clock)
    ends = []
    for _ in range(10):
        clock.jump(SLICE / 4.5)
        ends.append(pace.over(("a",)))

    assert ends == [False] * 4 + [True] + [False] * 4 + [True]


def test_waiting_is_no_work(clock: FakeClock) -> None:
    pace = Pace("test", clock)
    for _ in range(10):
        clock.jump(1000)
        pace.begin()
        clock.jump(SLICE / 100)
        assert not pace.over(("a",))


async def test_giving_way_lets_others_run_and_takes_no_time(clock: FakeClock) -> None:
    pace = Pace("test", clock)
    clock.jump(1)
    assert pace.over(("a",))
    await pace.give_way()

    assert not pace.over(("a",))


def test_the_longest_stretch_is_a_metric(clock: FakeClock, work: Iterator[str]) -> None:
    name = next(work)
    pace = Pace(name, clock)
    seen = []
    for seconds in (0.001, 0.01, 0.3, 0.02):
        clock.jump(seconds)
        pace.over(("ns", "pod"))
        seen.append(longest(name))

    assert seen == [0.0, 0.011, 0.3, 0.3]


def test_stalls_are_counted(clock: FakeClock, work: Iterator[str]) -> None:
    name = next(work)
    pace = Pace(name, clock)
    for seconds in (0.01, 0.06, 0.3, 0.02):
        clock.jump(seconds)
        pace.over(("ns", "pod"))
    counted = [
        REGISTRY.get_sample_value(metric, {"work": name})
        for metric in ("muster_loop_stalls_total", "muster_loop_stall_seconds_total")
    ]

    assert counted == pytest.approx([2, 0.36])


def test_the_log_names_the_object_that_took_longest_of_a_long_stretch(clock: FakeClock) -> None:
    pace = Pace("test", clock, slice_seconds=0.1)
    with capture_logs() as logs:
        for name, seconds in (("a", 0.03), ("hostile", 0.06), ("b", 0.03)):
            clock.jump(seconds)
            pace.over(("ns", name))

    assert [(log["work"], log["object"], log["seconds"]) for log in logs] == [
        ("test", "ns/hostile", 0.12)
    ]


def test_equally_long_stretches_are_logged_once_a_minute(clock: FakeClock) -> None:
    pace = Pace("test", clock)
    with capture_logs() as logs:
        for _ in range(600):
            pace.begin()
            clock.jump(0.06)
            pace.over(("", "node"))
            clock.jump(0.24)

    assert [log["object"] for log in logs] == ["node"] * len(logs)
    assert 3 <= len(logs) <= 5
