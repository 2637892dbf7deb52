"""Units that budgets allow to evict: by the sum of all, and by the loss of one node."""

import itertools
import random
from collections import Counter

import pytest

from scheduler.core.preemption.protected_units import ProtectedUnits
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.support.counting import calls


def random_cluster(seed: int) -> tuple[PreemptionBuilder, ProtectedUnits]:
    """Create up to eight units, three apps and two budgets, which may cover the same pods."""
    drawn = random.Random(seed)
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=99)
    builder.budget("app-a", drawn.randint(0, 2), app="a")
    builder.budget("team-x", drawn.randint(0, 2), team="x")
    for _ in range(drawn.randint(2, 8)):
        app, team = drawn.choice("abc"), drawn.choice("xy")
        node, priority = f"n{drawn.randrange(3)}", drawn.randint(0, 2)
        builder.runs(None, node, priority=priority, app=app, team=team)
    builder.state.units.refresh()
    units = builder.state.units
    return builder, ProtectedUnits(builder.state.disruption_budgets, units, units.below(9))


def exceeded(builder: PreemptionBuilder, chosen: tuple[int, ...]) -> int:
    """Return the number of pods by which budgets would be exceeded, counted pod by pod."""
    pods = [pod for at in chosen for pod in builder.state.units.unit(at).pods.values()]
    over = 0
    for budget in builder.state.disruption_budgets:
        over += max(0, sum(budget.covers(pod) for pod in pods) - budget.allowed)
    return over


@pytest.mark.parametrize("seed", range(40))
def test_sets_that_exceed_budgets_by_no_more_are_found_as_by_trying_all(seed: int) -> None:
    builder, protected = random_cluster(seed)
    everyone = protected.candidates.tolist()
    subsets = [
        set(each) for n in range(len(everyone) + 1) for each in itertools.combinations(everyone, n)
    ]
    for most in range(3):
        fine = [each for each in subsets if exceeded(builder, tuple(each)) <= most]
        largest = [each for each in fine if not any(each < other for other in fine)]

        found = [set(each.tolist()) for each in protected.largest_sets(most) if each is not None]

        assert sorted(map(sorted, found)) == sorted(map(sorted, largest))
        assert set(protected.largest_set(protected.covered[:0], most).tolist()) in largest


@pytest.mark.parametrize("seed", range(40))
def test_violations_and_tiers_are_those_of_the_pods(seed: int) -> None:
    builder, protected = random_cluster(seed)
    everyone, priorities = protected.candidates, builder.state.units.priorities
    tiers = dict(zip(everyone.tolist(), protected.tiers(everyone).tolist(), strict=True))

    for at, other in itertools.combinations(everyone.tolist(), 2):
        assert protected.violations([at, other]) == exceeded(builder, (at, other))
        first = (exceeded(builder, (at,)) > 0, int(priorities[at]))
        second = (exceeded(builder, (other,)) > 0, int(priorities[other]))
        assert (tiers[at] < tiers[other]) == (first < second)


@pytest.mark.parametrize("seed", range(40))
def test_what_each_node_could_lose_alone(seed: int) -> None:
    builder, protected = random_cluster(seed)
    units = builder.state.units

    goes, rows = protected.by_node(1, priority=1)

    for row in set(rows.tolist()):
        there = [int(at) for at in protected.covered[rows == row]]
        gone = [int(at) for at in protected.covered[(rows == row) & goes]]
        assert all(units.priorities[at] <= 1 for at in gone)
        by_budget = Counter[str]()
        for budget in builder.state.disruption_budgets:
            pods = [pod for at in gone for pod in units.unit(at).pods.values()]
            by_budget[budget.key[1]] = sum(map(budget.covers, pods)) - budget.allowed
        assert all(over <= 1 for over in by_budget.values())
        stays = [at for at in there if at not in gone and units.priorities[at] <= 1]
        assert all(protected.violations([*gone, at]) > 0 for at in stays)


def test_the_work_grows_with_the_number_of_units_and_budgets() -> None:
    def work(count: int) -> int:
        builder = PreemptionBuilder()
        builder.nodes(10, cpu=9999)
        for number in range(count // 10):
            builder.budget(f"b{number}", 1, app=f"a{number}")
            builder.runs(None, *(f"n{at}" for at in range(10)), app=f"a{number}")
        builder.state.units.refresh()
        units = builder.state.units
        # In one namespace: as many budgets as may be matched with each kind of pod.
        protected = ProtectedUnits(builder.state.disruption_budgets, units, units.below(5))
        assert len(protected.covered) == count

        def search() -> None:
            for at, _ in enumerate(protected.largest_sets(0)):
                if at == 3:
                    break
            protected.by_node(0, 9)
            protected.exceeding(protected.candidates)

        return calls(search)

    assert work(300) <= 2.3 * work(150)
