"""The situations of the benchmark of gaps can be built, are decided, and pause on the way."""

import pytest

from tools.bench.decisions import gaps


@pytest.mark.parametrize("title", gaps.SITUATIONS)
def test_each_situation_is_decided(title: str) -> None:
    pauses = gaps.decided(*gaps.SITUATIONS[title](100))

    assert 0 < pauses.longest <= pauses.total


def test_the_longest_step_is_the_time_between_two_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((0.0, 0.5, 3.5, 4.0))
    monkeypatch.setattr("time.thread_time", lambda: next(times))
    pauses = gaps.Pauses()
    pauses.begin()
    for where in ("search", "victims", "search"):
        pauses.pause(where)

    assert (pauses.longest, pauses.where, pauses.total) == (3.0, "victims", 4.0)
