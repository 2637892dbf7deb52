"""Units that have not run for their min-run-time are no victims, for as long as is allowed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.preemption.plan import Plan
from scheduler.core.values.model import POD_GROUP, PodInfo, PreemptionInfo
from scheduler.core.values.run_protection import RunProtection
from tests.scheduler.preemption_builder import PreemptionBuilder

NOW = 10_000.0
MOST = 600.0


def builder_at(now: float = NOW, *, usual: float = 0.0, most: float = MOST) -> PreemptionBuilder:
    builder = PreemptionBuilder()
    builder.state.units.protection = RunProtection(now, usual, most)
    return builder


def started(builder: PreemptionBuilder, infos: list[PodInfo], at: float) -> None:
    for info in infos:
        builder.state.set_pod(replace(info, started=at))


def asks(builder: PreemptionBuilder, name: str, seconds: float | None) -> None:
    spec = builder.state.forest.groups[POD_GROUP, "ns", name].spec
    assert spec is not None
    builder.state.set_group(replace(spec, min_run=seconds))


def can_evict(builder: PreemptionBuilder, name: str) -> bool:
    return isinstance(builder.preempt(name), Plan)


@pytest.mark.parametrize(
    ("asked", "ran", "spared"),
    [
        (None, 0, False),
        (0, 0, False),
        (300, 299, True),
        (300, 300, False),
        (9_999, 599, True),
        (9_999, 600, False),
    ],
)
@pytest.mark.parametrize("mode", ["all", "single"])
def test_a_gang_runs_for_as_long_as_it_asks_and_is_allowed(
    mode: str, asked: float | None, ran: float, spared: bool
) -> None:
    builder = builder_at()
    builder.nodes(2, cpu=1)
    builder.group("low", 2, mode=mode)
    asks(builder, "low", asked)
    started(builder, builder.runs("low", "n0", "n1"), NOW - ran)
    (high,) = builder.waits(None, priority=5)

    assert can_evict(builder, high.name) is not spared
    assert len(builder.state.units.protected(5)) == spared * (1 if mode == "all" else 2)


def test_a_gang_counts_from_the_start_of_its_first_pod() -> None:
    builder = builder_at()
    builder.nodes(2, cpu=1)
    builder.group("low", 2, mode="all")
    asks(builder, "low", 300)
    first, second = builder.runs("low", "n0", "n1")
    started(builder, [first], NOW - 301)
    started(builder, [second], NOW - 1)
    (high,) = builder.waits(None, priority=5)

    assert can_evict(builder, high.name)


@pytest.mark.parametrize("mode", ["all", "single"])
def test_pods_that_take_turns_are_not_protected_for_longer(mode: str) -> None:
    builder = builder_at()
    builder.nodes(2, cpu=1)
    builder.group("low", 2, mode=mode)
    asks(builder, "low", MOST)
    first, second = builder.runs("low", "n0", "n1")
    started(builder, [first, second], NOW)
    (high,) = builder.waits(None, priority=5)
    assert not can_evict(builder, high.name)

    for turn in range(1, 5):
        now = NOW + 250 * turn
        builder.state.units.protection = RunProtection(now, 0.0, MOST)
        old, first, second = first, second, replace(second, uid=f"u{turn}", name=f"new{turn}",
            node="n0" if turn % 2 else "n1")  # fmt: skip
        builder.state.remove_pod(old.uid)
        started(builder, [second], now)
        assert can_evict(builder, high.name) is (now >= NOW + MOST)


def test_the_root_asks_for_its_tree_whatever_its_children_say() -> None:
    builder = builder_at()
    builder.nodes(2, cpu=1)
    root = builder.group("root", 1, composite=True, mode="all")
    builder.group("leaf", 1, parent="root", mode="all")
    asks(builder, "leaf", 300)
    started(builder, builder.runs("leaf", "n0", "n1"), NOW - 1)
    (high,) = builder.waits(None, priority=5)
    assert can_evict(builder, high.name)

    spec = builder.state.forest.groups[root].spec
    assert spec is not None
    builder.state.set_group(replace(spec, min_run=300.0))
    assert not can_evict(builder, high.name)


def test_a_pod_without_a_group_asks_for_itself() -> None:
    builder = builder_at()
    builder.nodes(1, cpu=1)
    (low,) = builder.runs(None, "n0")
    low = replace(low, preemption=PreemptionInfo(min_run=300))
    started(builder, [low], NOW - 1)
    (high,) = builder.waits(None, priority=5)
    assert not can_evict(builder, high.name)

    builder.state.units.protection = RunProtection(NOW + 299, 0.0, MOST)
    assert can_evict(builder, high.name)


def test_those_that_ask_for_nothing_run_for_the_usual_time() -> None:
    builder = builder_at(usual=60)
    builder.nodes(1, cpu=1)
    started(builder, builder.runs(None, "n0"), NOW - 59)
    (high,) = builder.waits(None, priority=5)
    assert not can_evict(builder, high.name)

    builder.state.units.protection = RunProtection(NOW + 1, 60.0, MOST)
    assert can_evict(builder, high.name)


@pytest.mark.parametrize(("priority", "evicts"), [(1_000_000_000, False), (2_000_000_000, True)])
def test_the_systems_classes_evict_whatever_runs(priority: int, evicts: bool) -> None:
    builder = builder_at(usual=60)
    builder.nodes(1, cpu=1)
    started(builder, builder.runs(None, "n0"), NOW)
    (high,) = builder.waits(None, priority=priority)

    assert can_evict(builder, high.name) is evicts


@pytest.mark.parametrize("at", [0.0, NOW + 100, 1e18])
def test_what_has_not_started_is_not_protected(at: float) -> None:
    """A start in the future is not protected for ever either."""
    builder = builder_at(usual=60)
    builder.nodes(1, cpu=1)
    started(builder, builder.runs(None, "n0"), at)
    (high,) = builder.waits(None, priority=5)

    assert can_evict(builder, high.name)


@pytest.mark.parametrize("asked", [None, 0.0])
def test_who_asks_for_nothing_is_not_protected_by_a_clock_that_is_ahead(
    asked: float | None,
) -> None:
    builder = builder_at()
    builder.nodes(1, cpu=1)
    (low,) = builder.runs(None, "n0")
    started(builder, [replace(low, preemption=PreemptionInfo(min_run=asked))], NOW + 1)
    (high,) = builder.waits(None, priority=5)

    assert can_evict(builder, high.name)
    assert not len(builder.state.units.protected(5))


def test_victims_come_from_those_that_have_run_for_long_enough() -> None:
    builder = builder_at()
    builder.nodes(2, cpu=1)
    for name, ran in (("young", 10), ("old", 400)):
        builder.group(name, 1, mode="all", priority=0 if name == "young" else 3)
        asks(builder, name, 300)
        started(builder, builder.runs(name, f"n{int(name == 'old')}"), NOW - ran)
    (high,) = builder.waits(None, priority=5)

    plan = builder.preempt(high.name)
    assert isinstance(plan, Plan)
    assert [unit.key[2] for unit in plan.victims] == ["old"]


@given(
    st.lists(
        st.tuples(st.none() | st.floats(0, 2_000), st.floats(0, 2_000), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    ),
    st.floats(0, 1_000),
)
def test_no_unit_is_spared_longer_than_allowed_and_each_at_least_as_long_as_it_asks(
    pods: list[tuple[float | None, float, int]], most: float
) -> None:
    builder = builder_at(most=most)
    builder.nodes(len(pods), cpu=1)
    evictable = set()
    for at, (asked, ran, priority) in enumerate(pods):
        (info,) = builder.runs(None, f"n{at}", priority=priority)
        started(builder, [replace(info, preemption=PreemptionInfo(min_run=asked))], NOW - ran)
        if priority < 5 and (NOW - ran) + min(asked or 0.0, most) <= NOW:
            evictable.add(info.name)
    units = builder.state.units
    units.refresh()

    victims = {units.unit(at).key[2] for at in units.below(5).tolist()}
    assert victims == evictable
    assert len(victims) + len(units.protected(5)) == sum(p < 5 for _, _, p in pods)
