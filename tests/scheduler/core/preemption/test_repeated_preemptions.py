"""Of victims that cost the same, roots that were preempted lately come later: no gang loops."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupSpec
from scheduler.core.values.run_protection import RunProtection
from tests.scheduler.reported_costs import NATIVE, NOW, WINDOW, Gang, cluster, victims
from tools.testing.effort import examples

LATELY = NOW - 60


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [
        pytest.param(Gang(), Gang(preempted=(1, LATELY), started=9), 0, id="the other goes"),
        pytest.param(
            Gang(preempted=(1, LATELY)), Gang(preempted=(2, LATELY), started=9), 0, id="fewer times"
        ),
        pytest.param(
            Gang(preempted=(2, LATELY), started=9), Gang(preempted=(1, LATELY)), 1, id="both lately"
        ),
        pytest.param(
            Gang(namespace="other"), Gang(preempted=(1, LATELY), started=9), 0, id="any namespace"
        ),
        pytest.param(
            Gang(priority=1), Gang(preempted=(9, LATELY), started=9), 1, id="a lower priority first"
        ),
        pytest.param(
            Gang(), Gang(preempted=(9, NOW - WINDOW), started=9), 1, id="the window is over"
        ),
        pytest.param(
            Gang(), Gang(preempted=(9, NOW + 61), started=9), 1, id="in the future: not counted"
        ),
        pytest.param(
            Gang(preempted=(9, LATELY)), Gang(preempted=(99, LATELY), started=9), 1, id="at most 9"
        ),
        pytest.param(
            Gang(), Gang(preempted=(1, LATELY), cost=-1, started=9), 1, id="owners' wishes first"
        ),
        pytest.param(
            Gang(kind=NATIVE), Gang(kind=NATIVE, preempted=(1, LATELY), started=9), 0, id="native"
        ),
    ],
)
@pytest.mark.parametrize("mode", ["all", "single"])
def test_which_of_two_gangs_goes(mode: str, first: Gang, second: Gang, goes: int) -> None:
    builder = cluster([replace(each, mode=mode) for each in (first, second)])

    assert victims(builder, pods=1) == {f"g{goes}"}


def test_fewer_units_go_whatever_their_roots_have_lost() -> None:
    builder = cluster([Gang(cpu=2, preempted=(9, LATELY)), Gang(), Gang()])

    assert victims(builder, pods=1, cpu=2) == {"g0"}


def test_a_pod_beyond_the_minimum_goes_even_if_its_gang_was_preempted() -> None:
    gangs = [
        Gang(extra=True, preempted=(9, LATELY), mode="single"),
        Gang(started=9, mode="single"),
    ]

    assert victims(cluster(gangs), pods=1) == {"g0"}


def test_a_gang_below_its_minimum_is_not_spared() -> None:
    """Or each further preemption would break another gang."""
    lately = (1, LATELY)
    gangs = [Gang(pods=2, mode="single"), Gang(pods=2, preempted=lately, started=9, mode="single")]
    whole, broken = cluster(gangs), cluster(gangs)
    broken.state.units.refresh()
    broken.state.remove_pod("uid-v00004")
    broken.runs(None, "n3", priority=9)

    assert victims(whole, pods=1) == {"g0"}
    assert victims(broken, pods=1) == {"g1"}


def test_the_root_counts_for_its_tree() -> None:
    builder = cluster([Gang(), Gang(started=9)])
    root = GroupSpec((COMPOSITE_POD_GROUP, "ns", "root"), 1, disruption="all", priority=0)
    builder.state.set_group(replace(root, preempted=(1, LATELY)))
    leaf = builder.state.forest.groups[POD_GROUP, "ns", "g1"].spec
    assert leaf is not None
    builder.state.set_group(replace(leaf, parent="root"))

    assert victims(builder, pods=1) == {"g0"}


def test_the_count_ends_with_its_window_without_any_event() -> None:
    builder = cluster([Gang(), Gang(preempted=(1, NOW), started=9)])
    (high,) = builder.waits(None, priority=5)
    for now, goes in ((NOW + WINDOW - 1, "g0"), (NOW + WINDOW, "g1")):
        builder.state.units.protection = RunProtection(now, window=WINDOW)
        plan = builder.preempt(high.name)
        assert isinstance(plan, Plan)
        assert {unit.key[2] for unit in plan.victims} == {goes}


def test_the_order_of_extras_survives_a_new_count() -> None:
    builder = cluster([Gang(extra=True, mode="single"), Gang(extra=True, started=9, mode="single")])
    builder.state.units.refresh()
    spec = builder.state.forest.groups[POD_GROUP, "ns", "g1"].spec
    assert spec is not None
    builder.state.set_group(replace(spec, preempted=(1, LATELY)))

    assert victims(builder, pods=1) == {"g0"}


class Contention:
    """Equal gangs run, and preemptors of random sizes come and end.

    A victim starts again, as the youngest, once there is capacity. Its preemptions are counted as
    the scheduler counts them.
    """

    def __init__(self, rng: random.Random, gangs: int, *, counts: bool) -> None:
        self.rng = rng
        self.counts = counts
        self.now = NOW
        self.builder = cluster([Gang(started=float(at + 1)) for at in range(gangs)])
        self.lost = dict.fromkeys((f"g{at}" for at in range(gangs)), 0)

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            self.now += self.rng.uniform(1, 9)
            # The window is longer than the contention.
            self.builder.state.units.protection = RunProtection(self.now, window=1e9)
            self._preempt(f"high{number}", self.rng.randint(1, len(self.lost)))
            self._complete(f"high{number}")

    def _preempt(self, name: str, pods: int) -> None:
        builder = self.builder
        builder.group(name, pods, priority=5)
        builder.waits(name, pods, priority=5)
        plan = builder.preempt(name)
        assert isinstance(plan, Plan)
        assert len(plan.victims) == pods
        builder.evict(plan)
        for unit in plan.victims:
            self._count(unit.key[2])
        placement = place(builder.state, builder.root(name), SearchBudget())
        assert isinstance(placement, Placement)

    def _count(self, name: str) -> None:
        self.lost[name] += 1
        spec = self.builder.state.forest.groups[POD_GROUP, "ns", name].spec
        assert spec is not None
        if self.counts:
            number, since = spec.preempted
            self.builder.state.set_group(replace(spec, preempted=(number + 1, since or self.now)))

    def _complete(self, name: str) -> None:
        """Delete the preemptor, and let its victims start again."""
        builder = self.builder
        for pod in [it for it in builder.state.pods.values() if it.info.group == name]:
            builder.state.remove_pod(pod.info.uid)
        builder.state.remove_group((POD_GROUP, "ns", name))
        running = {pod.info.group for pod in builder.state.pods.values()}
        free = {f"n{at}" for at in range(len(self.lost))}
        free -= {pod.info.node for pod in builder.state.pods.values()}
        for group, node in zip(sorted(set(self.lost) - running), sorted(free), strict=True):
            (info,) = builder.runs(group, node)
            builder.state.set_pod(replace(info, started=self.now))


@examples(25, 300)
@given(st.integers(0, 1_000_000), st.integers(2, 6), st.integers(1, 12))
def test_no_gang_is_preempted_again_before_its_equals_were(
    seed: int, gangs: int, rounds: int
) -> None:
    contention = Contention(random.Random(seed), gangs, counts=True)
    contention.run(rounds)

    counted = [min(lost, 9) for lost in contention.lost.values()]
    assert max(counted) - min(counted) <= 1


def test_without_counts_the_last_victim_is_the_next_one() -> None:
    """What the counts are for: a gang that starts again is the youngest, and so the first."""
    contention = Contention(random.Random(1), 3, counts=False)
    for number in range(6):
        contention.now += 1
        contention._preempt(f"high{number}", 1)
        contention._complete(f"high{number}")

    assert max(contention.lost.values()) == 6
