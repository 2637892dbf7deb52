"""The tables of the situations: what they cannot state, and the page that has their numbers."""

from collections import Counter

import pytest

from e2e.kubernetes.upstream.situations import page
from e2e.kubernetes.upstream.situations.model import (
    Step,
    delete,
    expect,
    in_turn,
    muster,
    pods,
    situation,
)
from e2e.kubernetes.upstream.situations.subjects import SUBJECTS

ALL = [each for of in SUBJECTS.values() for each in of]
ONE, TWO = pods("one", 1), pods("two", 2)


def test_each_situation_has_a_name_and_a_source_of_its_own() -> None:
    for field in ("name", "source"):
        counts = Counter(getattr(each, field) for each in ALL)
        assert [value for value, count in counts.items() if count > 1] == []


def test_the_page_has_the_table() -> None:
    assert page.written() == page.PAGE.read_text("utf-8")


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        pytest.param((TWO, expect(two="1 run")), "do not add up", id="too few"),
        pytest.param((TWO, expect(two="2 run 1 wait")), "do not add up", id="too many"),
        pytest.param((ONE, TWO, expect(two="2 run")), "do not add up", id="one set is missing"),
        pytest.param((ONE, expect(one="1 run", two="1 run")), "add up", id="an unknown set"),
        pytest.param((in_turn(ONE, TWO), expect(two="2 run")), "add up", id="missing in turn"),
        pytest.param((TWO, expect(two="2 run"), delete("two")), "nothing", id="no expectation"),
    ],
)
def test_an_expectation_counts_each_pod_once(steps: tuple[Step, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        situation("a name", "a_test.go: a case", *steps)


def test_an_expectation_keeps_what_was_expected_before() -> None:
    situation("a name", "a case", TWO, expect(two="2 run"), ONE, expect(one="1 wait"))


def test_an_unknown_state_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown state"):
        expect(one="1 runs")


def test_the_outcome_of_muster_alone_may_differ() -> None:
    made = situation(
        "a name", "a case", TWO, expect(two="2 wait"), differs=muster("It is free.", two="2 run")
    )
    theirs, ours = (made.of(name)[-1] for name in ("default-scheduler", "muster-scheduler"))
    assert theirs == expect(two="2 wait")
    assert ours == expect(two="2 run")
    with pytest.raises(ValueError, match="do not add up"):
        situation("a name", "a case", TWO, expect(two="2 wait"), differs=muster("", two="1 run"))
