"""Of victims that cost the same, pods of a gang beyond its minCount go first, the newest before."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.preemption.plan import Plan
from scheduler.core.values.model import POD_GROUP, PodInfo
from tests.scheduler.preemption_builder import PreemptionBuilder


def gangs(builder: PreemptionBuilder, *shapes: tuple[str, int, int]) -> dict[str, list[PodInfo]]:
    """Let gangs run (name, minCount, pods), later ones started later, a pod on each node."""
    found, at = {}, 0
    builder.nodes(sum(pods for _, _, pods in shapes), cpu=1)
    for name, minimum, pods in shapes:
        builder.group(name, minimum)
        found[name] = builder.runs(name, *(f"n{at + number}" for number in range(pods)))
        at += pods
    return found


def victims(builder: PreemptionBuilder, pods: int) -> set[str]:
    builder.group("high", pods, priority=5)
    builder.waits("high", pods, priority=5)
    return builder.victims("high")


def names(infos: list[PodInfo]) -> set[str]:
    return {info.name for info in infos}


def test_an_extra_pod_goes_before_one_of_a_gang_that_needs_it() -> None:
    builder = PreemptionBuilder()
    running = gangs(builder, ("elastic", 2, 3), ("rigid", 2, 2))

    # Without that, the pod that started last would go.
    assert victims(builder, 1) == names(running["elastic"][-1:])


def test_all_extras_go_before_any_gang_loses_its_minimum() -> None:
    builder = PreemptionBuilder()
    running = gangs(builder, ("a", 1, 2), ("rigid", 3, 3), ("b", 1, 3))

    assert victims(builder, 3) == names(running["a"][1:] + running["b"][1:])


def test_a_lower_priority_goes_before_an_extra() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    builder.group("elastic", 1, priority=3)
    builder.runs("elastic", "n0", "n1", priority=3)
    builder.group("low", 1, priority=1)
    low = builder.runs("low", "n2", priority=1)

    assert victims(builder, 1) == names(low)


def test_another_minimum_makes_other_pods_extras() -> None:
    builder = PreemptionBuilder()
    running = gangs(builder, ("first", 2, 2), ("second", 2, 2))
    builder.state.units.refresh()
    spec = builder.state.forest.groups[POD_GROUP, "ns", "first"].spec
    assert spec is not None
    builder.state.set_group(replace(spec, minimum=1))

    assert victims(builder, 1) == names(running["first"][1:])


def test_a_gang_that_has_lost_its_extras_has_none() -> None:
    builder = PreemptionBuilder()
    running = gangs(builder, ("elastic", 2, 3), ("rigid", 1, 1))
    builder.state.units.refresh()
    builder.state.remove_pod(running["elastic"][0].uid)

    assert victims(builder, 2) == {"v00004"}  # one node is free now


def test_extras_in_any_domain_go_before_a_gang_loses_its_minimum() -> None:
    """Of racks that cost the same, the preemptor gets the one with the most extras."""
    builder = PreemptionBuilder()
    builder.nodes(6, cpu=1, rack_of=2)
    builder.group("rigid", 4)
    builder.runs("rigid", "n0", "n1", "n2", "n3")
    builder.group("elastic", 1)
    running = builder.runs("elastic", "n4", "n5")
    builder.group("high", 1, priority=5, topology="rack")
    builder.waits("high", 1, priority=5)

    assert builder.victims("high") == names(running[1:])


def test_the_domain_with_extras_goes_though_others_are_smaller() -> None:
    builder = PreemptionBuilder()
    for name, rack in (("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "b")):
        builder.node(name, cpu=1, labels={"rack": rack})
    builder.group("rigid", 2)
    builder.runs("rigid", "n0", "n1")
    builder.group("elastic", 1)
    running = builder.runs("elastic", "n2", "n3", "n4")
    builder.group("high", 2, priority=5, topology="rack")
    builder.waits("high", 2, priority=5)

    assert builder.victims("high") == names(running[1:])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_no_gang_is_broken_while_extras_suffice(shapes: list[tuple[int, int]], pods: int) -> None:
    builder = PreemptionBuilder()
    running = gangs(
        builder, *((f"g{at}", least, least + more) for at, (least, more) in enumerate(shapes))
    )
    total = sum(least + more for least, more in shapes)
    builder.group("high", min(pods, total), priority=5)
    builder.waits("high", min(pods, total), priority=5)

    plan = builder.preempt("high")
    assert isinstance(plan, Plan)
    gone = {info.info.name for info in plan.pods}
    lost = sum(
        max(0, least - len(names(running[f"g{at}"]) - gone)) for at, (least, _) in enumerate(shapes)
    )
    assert lost == max(0, len(gone) - sum(more for _, more in shapes))
