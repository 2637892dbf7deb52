"""Plain functions that yield to the loop, one at a time, and end where they are closed."""

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TypeVar

import pytest

from kube.concurrency.stepwise import SHORT, SLICE, Stepwise
from tests.support.clock import FakeClock

T = TypeVar("T")


@pytest.fixture
def stepwise(clock: FakeClock) -> Stepwise:
    return Stepwise(clock)


def ended(steps: Generator[None, None, T]) -> tuple[int, T]:
    """Return the number of yields, and the returned value."""
    times = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return (times, end.value)
        times += 1


def counting(stepwise: Stepwise, clock: FakeClock, to: int, each: float) -> Callable[[], int]:
    def work() -> int:
        total = 0
        for _ in range(to):
            total += 1
            clock.jump(each)
            stepwise.pause()
        return total

    return work


def test_short_work_neither_gives_way_nor_needs_a_thread(
    stepwise: Stepwise, clock: FakeClock
) -> None:
    threads: list[threading.Thread] = []

    def work() -> int:
        threads.append(threading.current_thread())
        return counting(stepwise, clock, 9, SHORT / 10)()

    assert ended(stepwise.steps(work)) == (0, 9)
    assert threads == [threading.current_thread()]


def test_on_a_busy_machine_only_the_time_that_the_thread_runs_counts(clock: FakeClock) -> None:
    ran = 0.0
    stepwise = Stepwise(clock, lambda: ran)

    def work(each: float) -> int:
        nonlocal ran
        for _ in range(9):
            clock.jump(SHORT)  # others run most of it
            ran += each
            stepwise.pause()
        return 9

    assert ended(stepwise.steps(lambda: work(SHORT / 10))) == (0, 9)
    times, _ = ended(stepwise.steps(lambda: work(SHORT / 2)))
    assert times > 0


def test_long_work_gives_way_after_each_slice_and_returns_its_result(
    stepwise: Stepwise, clock: FakeClock
) -> None:
    work = counting(stepwise, clock, 40, SLICE / 2)

    times, result = ended(stepwise.steps(work))

    assert result == 40
    # Once when it becomes long, then after every second step.
    assert times == 1 + 20


def test_outside_of_work_a_pause_does_nothing(stepwise: Stepwise, clock: FakeClock) -> None:
    clock.jump(100)
    stepwise.pause()

    assert ended(stepwise.steps(lambda: "done")) == (0, "done")
    clock.jump(100)
    stepwise.pause()


def test_work_and_its_caller_never_run_at_the_same_time(
    stepwise: Stepwise, clock: FakeClock
) -> None:
    log: list[str] = []

    def work() -> None:
        for _ in range(3):
            log.append("work")
            clock.jump(SHORT)
            stepwise.pause()

    for _ in stepwise.steps(work):
        log.append("caller")

    assert log == ["work", "caller"] + ["work", "caller"] * 3


def test_what_the_work_raises_is_raised_by_its_steps(stepwise: Stepwise, clock: FakeClock) -> None:
    def work() -> None:
        clock.jump(SHORT)
        stepwise.pause()
        raise KeyError("the object")

    with pytest.raises(KeyError, match="the object"):
        ended(stepwise.steps(work))


def test_closed_work_cleans_up_and_ends_at_its_pause(stepwise: Stepwise, clock: FakeClock) -> None:
    log: list[str] = []

    def work() -> None:
        try:
            while True:
                clock.jump(SHORT)
                with suppress(Exception):  # handlers of errors do not catch the end
                    stepwise.pause()
        finally:
            log.append("cleaned up")

    before = threading.active_count()
    steps = stepwise.steps(work)
    next(steps)
    next(steps)
    log.clear()
    steps.close()

    assert log == ["cleaned up"]
    assert threading.active_count() == before


def test_its_clock_stands_still_while_others_run(stepwise: Stepwise, clock: FakeClock) -> None:
    def work() -> float:
        begun = stepwise.monotonic()
        for _ in range(10):
            clock.jump(SHORT)
            stepwise.pause()
        return stepwise.monotonic() - begun

    steps = stepwise.steps(work)
    spent = None
    while spent is None:
        try:
            next(steps)
            clock.jump(1000)
        except StopIteration as end:
            spent = end.value

    assert spent == pytest.approx(10 * SHORT)


def test_two_works_take_turns(stepwise: Stepwise, clock: FakeClock) -> None:
    one = stepwise.steps(counting(stepwise, clock, 20, SLICE))
    other = stepwise.steps(counting(stepwise, clock, 20, SLICE))
    for _ in range(5):
        next(one)
        next(other)

    assert ended(one)[1] == 20
    assert ended(other)[1] == 20
