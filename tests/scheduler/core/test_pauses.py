"""The work between two pauses of a decision does not grow with the request."""

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from tests.scheduler.preemption_builder import PreemptionBuilder

FEW = 30
MORE = 100
WALK = 20
"""Calls for each additional group or pod: some loops visit each once, in a microsecond."""


class Stretch:
    """Counter of the calls between two pauses."""

    def __init__(self) -> None:
        self.longest = 0
        self._calls = 0

    def pause(self) -> None:
        self.longest = max(self.longest, self._calls)
        self._calls = 0

    def of(self, work: Callable[[SearchBudget], object]) -> object:
        budget = SearchBudget(pause=self.pause)
        gc.disable()
        sys.setprofile(self._note)
        try:
            result = work(budget)
        finally:
            sys.setprofile(None)
            gc.enable()
        self.pause()
        return result

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        self._calls += event in ("call", "c_call")


def builder(nodes: int = 20, cpu: int = 100_000) -> PreemptionBuilder:
    made = PreemptionBuilder()
    made.nodes(nodes, cpu=cpu, rack_of=5)
    return made


def tree(size: int, *, rack: bool = False, cpu: int = 1) -> tuple[PreemptionBuilder, str]:
    made = builder()
    made.composite("root", size)
    for number in range(size):
        made.gang(f"g{number}", parent="root", rack=rack)
        made.pod(f"g{number}", cpu=cpu + number)
    return made, "CompositePodGroup"


def leaf(size: int, *, rack: bool = False) -> tuple[PreemptionBuilder, str]:
    made = builder()
    made.gang("root", size, rack=rack)
    for number in range(size):
        made.pod("root", cpu=1 + number)
    return made, "PodGroup"


CASES: dict[str, Callable[[int], tuple[PreemptionBuilder, str]]] = {
    "a tree of different children": tree,
    "one with a rack for each child": lambda size: tree(size, rack=True),
    "one that does not fit": lambda size: tree(size, cpu=90_000),
    "a gang of different pods": leaf,
    "one in a rack": lambda size: leaf(size, rack=True),
}


@pytest.mark.parametrize("case", CASES)
def test_placing_pauses_however_much_is_placed(case: str) -> None:
    def longest(size: int) -> int:
        made, kind = CASES[case](size)
        root = made.state.forest.groups[kind, "ns", "root"]
        stretch = Stretch()
        outcome = stretch.of(lambda budget: place(made.state, root, budget))
        assert isinstance(outcome, Placement | Refusal)
        return stretch.longest

    longest(FEW)  # a first call may import modules
    few, more = longest(FEW), longest(MORE)

    assert more - few <= WALK * (MORE - FEW)


@pytest.mark.parametrize("budgets", [False, True])
@pytest.mark.parametrize("wanted", [1, 30])
def test_preempting_pauses_however_many_victims_there_are(wanted: int, *, budgets: bool) -> None:
    def longest(size: int) -> int:
        made = builder(10, cpu=size // 10)
        made.runs(None, *(f"n{number % 10}" for number in range(size)), app="a")
        if budgets:
            made.budget("all", size - 5, app="a")
        made.group("root", wanted, priority=5)
        made.waits("root", wanted, priority=5)
        made.state.units.refresh()
        root = made.root("root")
        refusal = place(made.state, root, SearchBudget())
        assert isinstance(refusal, Refusal)
        stretch = Stretch()
        plan = stretch.of(lambda budget: preempt(made.state, root, refusal, budget))
        assert isinstance(plan, Plan)
        return stretch.longest

    longest(FEW)  # a first call may import modules
    few, more = longest(FEW), longest(MORE)

    assert more - few <= WALK * (MORE - FEW)
