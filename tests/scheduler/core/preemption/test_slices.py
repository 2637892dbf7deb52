"""Preemption and slices: victims are complete slices, and a replacement gets room in its domain."""

from dataclasses import replace

import pytest

from scheduler.core.preemption.plan import Plan
from scheduler.core.values.model import POD_GROUP, GroupSpec, NodeInfo, PodInfo, Slicing
from tests.scheduler.core.slice_builder import INDEX
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import requests


def _sliced(
    builder: PreemptionBuilder, name: str, minimum: int, size: int, *, priority: int, mode: str = ""
) -> None:
    builder.state.set_group(
        GroupSpec(
            (POD_GROUP, "ns", name), minimum, priority=priority,
            disruption="all" if mode == "all" else "single", slicing=Slicing(size, "clique"),
        )
    )  # fmt: skip


def _cliques(builder: PreemptionBuilder, *cores: int) -> None:
    for number, each in enumerate(cores):
        builder.node(f"c{number}", each, labels={"clique": f"c{number}"})


def _running(
    builder: PreemptionBuilder, name: str, *nodes: str, priority: int, first: int | None = 0
) -> list[PodInfo]:
    infos = []
    for at, node in enumerate(nodes):
        if first is None:
            infos += builder.runs(name, node, priority=priority)
        else:
            infos.append(_indexed(builder, name, node, first + at, priority=priority))
    return infos


def _indexed(
    builder: PreemptionBuilder, name: str, node: str, index: int, *, priority: int
) -> PodInfo:
    (info,) = builder.runs(name, node, priority=priority)
    info = replace(info, labels={INDEX: str(index)})
    builder.state.set_pod(info)
    return info


def _units(builder: PreemptionBuilder) -> set[frozenset[str]]:
    units = builder.state.units
    units.refresh()
    found = {int(owner) for owner in units.owners if owner >= 0}
    return {frozenset(pod.info.name for pod in units.unit(it).pods.values()) for it in found}


def _names(infos: list[PodInfo]) -> frozenset[str]:
    return frozenset(info.name for info in infos)


@pytest.mark.parametrize("first", [0, None], ids=["by index", "by domain"])
def test_the_newest_slice_beyond_the_minimum_goes_as_one(first: int | None) -> None:
    builder = PreemptionBuilder()
    _cliques(builder, 4, 4)
    _sliced(builder, "low", 4, 4, priority=1)
    old = _running(builder, "low", *["c0"] * 4, priority=1, first=first)
    new = _running(builder, "low", *["c1"] * 4, priority=1, first=None if first is None else 4)
    builder.group("high", 1, priority=9)
    builder.waits("high", priority=9)

    assert _units(builder) == {_names(old), _names(new)}
    assert builder.victims("high") == _names(new)


def _extras(builder: PreemptionBuilder) -> set[str]:
    units = builder.state.units
    units.refresh()
    return {pod.info.name for pod in builder.state.pods.values() if units.is_extra(pod.info.uid)}


@pytest.mark.parametrize(
    ("minimum", "extras"),
    [
        pytest.param(2, {1}, id="the slice that started first is needed"),
        pytest.param(3, set(), id="a slice of which one pod is needed is needed"),
    ],
)
def test_extras_are_complete_slices(minimum: int, extras: set[int]) -> None:
    """The pods of both slices started in turns."""
    builder = PreemptionBuilder()
    _cliques(builder, 2, 2)
    _sliced(builder, "low", minimum, 2, priority=1)
    order = [("c0", 0), ("c1", 2), ("c1", 3), ("c0", 1)]
    names = {index: _indexed(builder, "low", node, index, priority=1).name for node, index in order}

    assert _extras(builder) == {name for index, name in names.items() if index // 2 in extras}


def test_slices_without_indexes_follow_the_labels_of_their_nodes() -> None:
    builder = PreemptionBuilder()
    _cliques(builder, 2, 2)
    _sliced(builder, "low", 4, 2, priority=1)
    a, b = builder.runs("low", "c0", "c1", priority=1)
    c, d = builder.runs("low", "c0", "c1", priority=1)

    assert _units(builder) == {_names([a, c]), _names([b, d])}

    node = builder.state.nodes.infos[builder.state.nodes.row_of["c1"]]
    assert isinstance(node, NodeInfo)
    builder.state.set_node(replace(node, labels={"clique": "c0"}))

    assert _units(builder) == {_names([a, b]), _names([c, d])}


def test_a_gang_of_mode_all_goes_as_one() -> None:
    builder = PreemptionBuilder()
    _cliques(builder, 4, 4)
    _sliced(builder, "low", 4, 4, priority=1, mode="all")
    everyone = _running(builder, "low", *["c0"] * 4, *["c1"] * 4, priority=1)
    builder.group("high", 1, priority=9)
    builder.waits("high", priority=9)

    assert builder.victims("high") == _names(everyone)


def test_a_group_that_loses_its_slices_has_single_victims_again() -> None:
    builder = PreemptionBuilder()
    _cliques(builder, 4)
    _sliced(builder, "low", 4, 4, priority=1)
    everyone = _running(builder, "low", *["c0"] * 4, priority=1)

    assert _units(builder) == {_names(everyone)}

    builder.group("low", 4, priority=1)

    assert _units(builder) == {frozenset((info.name,)) for info in everyone}


def test_a_replacement_evicts_in_the_domain_of_its_slice() -> None:
    builder = PreemptionBuilder()
    _cliques(builder, 4, 4)
    _sliced(builder, "high", 8, 4, priority=9)
    _running(builder, "high", *["c0"] * 4, priority=9)
    _running(builder, "high", *["c1"] * 3, priority=9, first=4)
    builder.pod("high", priority=9, name="new", labels={INDEX: "7"})
    (there,) = builder.runs(None, "c1", priority=1)
    builder.node("other", 1, labels={"clique": "c2"})
    builder.runs(None, "other", priority=0)

    assert builder.victims("high") == {there.name}


def test_a_gang_in_slices_evicts_the_fewest_slices_of_others() -> None:
    """A clique has one slice of a gang, the others have four pods that are units of their own."""
    builder = PreemptionBuilder()
    _cliques(builder, 4, 4, 4)
    _sliced(builder, "low", 4, 4, priority=1)
    first = _running(builder, "low", *["c0"] * 4, priority=1)
    builder.group("small", 1, priority=1)
    builder.runs("small", *["c1"] * 4, priority=1)
    builder.group("other", 1, priority=1)
    builder.runs("other", *["c2"] * 4, priority=1)
    _sliced(builder, "high", 4, 4, priority=9)
    for index in range(4):
        builder.pod("high", priority=9, labels={INDEX: str(index)})

    plan = builder.preempt("high")

    assert isinstance(plan, Plan)
    assert plan.cost is not None
    assert plan.cost.units == 1
    assert {pod.info.name for pod in plan.pods} == _names(first)


def test_one_slice_is_sought_domain_by_domain() -> None:
    """The victims of each domain are in three others, too: the cheapest nodes are in several."""
    builder = PreemptionBuilder()
    for number in range(30):
        for node in range(5):
            builder.node(f"c{number}-{node}", 1, labels={"clique": f"c{number}"})
    for number in range(30):
        builder.group(f"low{number}", 1, priority=1)
        nodes = (f"c{(number * 7 + node * 3) % 30}-{node}" for node in range(5))
        builder.runs(f"low{number}", *nodes, priority=1)
    _sliced(builder, "high", 4, 4, priority=9)
    for index in range(4):
        builder.pod("high", priority=9, labels={INDEX: str(index)})

    plan = builder.preempt("high")

    assert isinstance(plan, Plan)
    assert plan.cost is not None
    assert (plan.cost.units, plan.proved) == (4, True)
    assert plan.solves <= 4


def test_nobody_is_evicted_if_no_domain_is_large_enough() -> None:
    builder = PreemptionBuilder()
    _cliques(builder, 3, 3)
    builder.runs(None, *["c0"] * 3, *["c1"] * 3, priority=1)
    _sliced(builder, "high", 4, 4, priority=9)
    for index in range(4):
        builder.pod("high", priority=9, labels={INDEX: str(index)})

    assert not isinstance(builder.preempt("high"), Plan)


def test_extras_evict_as_slices() -> None:
    """An elastic gang that runs evicts for a further slice only if all of it fits."""
    builder = PreemptionBuilder()
    _cliques(builder, 2, 2, 1)
    _sliced(builder, "high", 2, 2, priority=9)
    _running(builder, "high", "c0", "c0", priority=9)
    low = builder.runs(None, "c1", "c1", "c2", priority=1)
    for index in (2, 3):
        builder.pod("high", priority=9, labels={INDEX: str(index)})

    plan = builder.preempt("high")

    assert isinstance(plan, Plan)
    assert {pod.info.name for pod in plan.pods} == _names(low[:2])
    assert requests(1)
