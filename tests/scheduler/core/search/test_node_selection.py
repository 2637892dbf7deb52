"""Node selection for pods of one shape: packed, spread, in a region, in waves."""

from collections.abc import Iterator

import numpy as np
import pytest

from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.node_selection import choose, waves
from scheduler.core.values.model import GroupKey, Requirements, Spread, Stage
from scheduler.core.values.profiles import Profile
from tests.scheduler.core.framework.cluster import WEB, app, prefers_disk, required_affinity
from tests.scheduler.state_builder import StateBuilder, requests

TREE: GroupKey = ("CompositePodGroup", "ns", "tree")


def used_by(*pods: int, cpu: int = 4) -> StateBuilder:
    """Create nodes n0, n1, ... of 4 cores with that many running pods of one core."""
    builder = StateBuilder()
    builder.nodes(len(pods), cpu=cpu, rack_of=1)
    for number, count in enumerate(pods):
        for _ in range(count):
            builder.pod(node=f"n{number}")
    return builder


def shape_of(builder: StateBuilder, requirements: Requirements | None = None) -> Shape:
    return builder.single(builder.pod(requirements=requirements, labels=WEB)).shape


def chosen(
    builder: StateBuilder, count: int, profile: Profile, *rows: int, shape: Shape | None = None
) -> dict[int, int] | None:
    """Return the chosen number of pods by row."""
    region = Region(np.array(rows)) if rows else None
    wanted = shape or shape_of(builder)
    found = choose(builder.state.framework, wanted, count, region, profile)
    return None if found is None else as_dict(*found)


def as_dict(rows: Ints, counts: Ints) -> dict[int, int]:
    assert len(set(rows.tolist())) == len(rows)
    return dict(zip(rows.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("count", "profile", "rows", "want"),
    [
        pytest.param(1, "pack", (), {3: 1}, id="pack: the fullest node"),
        pytest.param(3, "pack", (), {3: 1, 1: 2}, id="pack: one after the other"),
        pytest.param(5, "pack", (), {3: 1, 1: 2, 2: 2}, id="pack: the last one in part"),
        pytest.param(10, "pack", (), {0: 4, 1: 2, 2: 3, 3: 1}, id="pack: all that there is"),
        pytest.param(1, "pack", (0, 2), {2: 1}, id="pack: the fullest of the region"),
        pytest.param(5, "pack", (0, 2), {2: 3, 0: 2}, id="pack: one after the other in the region"),
        pytest.param(1, "spread", (), {0: 1}, id="spread: the emptiest node"),
        pytest.param(2, "spread", (), {0: 2}, id="spread: of equal ones the first"),
        pytest.param(3, "spread", (), {0: 2, 2: 1}, id="spread: up to one level"),
        pytest.param(6, "spread", (), {0: 3, 1: 1, 2: 2}, id="spread: three up to one level"),
        pytest.param(10, "spread", (), {0: 4, 1: 2, 2: 3, 3: 1}, id="spread: all that there is"),
        pytest.param(2, "spread", (1, 3), {1: 2}, id="spread: the emptiest of the region"),
        pytest.param(11, "pack", (), None, id="no room for so many"),
        pytest.param(11, "spread", (), None, id="no room for so many to be spread"),
        pytest.param(4, "pack", (1, 3), None, id="no room for so many in the region"),
    ],
)
def test_nodes_are_filled_or_levelled(
    count: int, profile: Profile, rows: tuple[int, ...], want: dict[int, int] | None
) -> None:
    """The nodes have 4 cores, of which 0, 2, 1 and 3 are in use."""
    assert chosen(used_by(0, 2, 1, 3), count, profile, *rows) == want


@pytest.mark.parametrize("profile", ["pack", "spread"])
@pytest.mark.parametrize("rows", [(), (0, 1, 2, 3)])
def test_of_equally_used_nodes_the_lowest_row_is_taken(
    profile: Profile, rows: tuple[int, ...]
) -> None:
    assert chosen(used_by(4, 1, 1, 1), 1, profile, *rows) == {1: 1}


def test_a_full_node_is_not_the_fullest_to_be_filled() -> None:
    assert chosen(used_by(4, 0, 1), 4, "pack") == {2: 3, 1: 1}


def test_of_two_nodes_the_fuller_one_is_filled_first() -> None:
    assert chosen(used_by(1, 2), 3, "pack") == {0: 1, 1: 2}


@pytest.mark.parametrize(
    ("profile", "count", "want"),
    [("pack", 1, {1: 1}), ("pack", 3, {1: 3}), ("spread", 3, {1: 3})],
)
def test_a_node_without_room_for_more_pods_is_left_out(
    profile: Profile, count: int, want: dict[int, int]
) -> None:
    """Its cores are used as much as those of the other node."""
    builder = StateBuilder()
    builder.node("n0", 4, pods=1)
    builder.node("n1", 4)
    for node in ("n0", "n1"):
        builder.pod(node=node)

    assert chosen(builder, count, profile) == want


def test_nodes_that_take_few_pods_do_not_bound_the_level_of_the_others() -> None:
    builder = StateBuilder()
    builder.node("n0", 4, pods=1)
    builder.node("n1", 4)

    assert chosen(builder, 4, "spread") == {0: 1, 1: 3}


@pytest.mark.parametrize(("profile", "used"), [("pack", (0, 0, 2)), ("spread", (0, 2, 0))])
def test_a_preferred_node_is_taken_before_better_used_ones(
    profile: Profile, used: tuple[int, ...]
) -> None:
    builder = StateBuilder()
    for number, count in enumerate(used):
        builder.node(f"n{number}", 4, labels={"disk": "ssd"} if number == 1 else {})
        for _ in range(count):
            builder.pod(node=f"n{number}")
    terms = (prefers_disk("ssd", 100),)
    shape = shape_of(builder, Requirements(requests(1), preferred_node_affinity=terms))

    assert chosen(builder, 1, profile, shape=shape) == {1: 1}


@pytest.mark.parametrize("rows", [(), (0, 1, 2)])
def test_a_stage_first_takes_what_others_of_its_tree_hold(rows: tuple[int, ...]) -> None:
    """Stage 2 holds one core on n0 and two on n2; pods of stage 1 run there before it."""
    builder = used_by(0, 3, 0)
    held = Requirements(requests(1), stage=Stage(2, exists=False, tree=TREE))
    builder.pod(node="n0", requirements=held)
    for _ in range(2):
        builder.pod(node="n2", requirements=held)
    shape = shape_of(builder, Requirements(requests(1), stage=Stage(1, exists=True, tree=TREE)))

    found = {count: chosen(builder, count, "pack", *rows, shape=shape) for count in (1, 3, 4, 9)}

    assert found[1] == {2: 1}
    assert found[3] == {0: 1, 2: 2}
    assert found[4] == {0: 1, 1: 1, 2: 2}
    assert found[9] == {0: 4, 1: 1, 2: 4}


def taken(
    builder: StateBuilder, shape: Shape, count: int, profile: Profile, *rows: int
) -> Iterator[dict[int, int]]:
    """Yield the waves, each placed before the next one."""
    framework = builder.state.framework
    region = Region(np.array(rows)) if rows else None
    with builder.state.nodes.trial():
        for wave in waves(framework, shape, count, region, profile):
            framework.reserve(shape, *wave)
            yield as_dict(*wave)


def spread_over_racks(builder: StateBuilder) -> Shape:
    spread = (Spread(app("web"), "rack"),)
    return shape_of(builder, Requirements(requests(1), preferred_spread=spread))


@pytest.mark.parametrize("rows", [(), (0, 1, 2)])
def test_waves_end_with_the_pods_or_with_the_room(rows: tuple[int, ...]) -> None:
    builder = used_by(2, 4, 0)
    shape = spread_over_racks(builder)

    four = list(taken(builder, shape, 4, "pack", *rows))
    more = list(taken(builder, shape, 9, "pack", *rows))

    assert sum(sum(wave.values()) for wave in four) == 4
    assert sum(sum(wave.values()) for wave in more) == 6
    assert not any(1 in wave for wave in more)


@pytest.mark.parametrize(
    ("profile", "count", "want"),
    [
        ("pack", 1, [{1: 1}]),
        ("pack", 2, [{0: 1, 1: 1}]),
        ("spread", 1, [{0: 1}]),
        ("spread", 2, [{0: 1, 1: 1}]),
    ],
)
@pytest.mark.parametrize("rows", [(), (0, 1)])
def test_inside_a_domain_a_wave_packs_or_spreads(
    profile: Profile, count: int, want: list[dict[int, int]], rows: tuple[int, ...]
) -> None:
    """Two nodes of one rack; n0 has one of its cores in use, n1 three."""
    builder = StateBuilder()
    for node, used in (("n0", 1), ("n1", 3)):
        builder.node(node, 4, labels={"rack": "r0"})
        for _ in range(used):
            builder.pod(node=node)
    shape = shape_of(builder, Requirements(requests(1), spread=(Spread(app("web"), "rack"),)))

    assert list(taken(builder, shape, count, profile, *rows)) == want


def test_a_wave_has_only_nodes_that_take_pods() -> None:
    """Both nodes are in one rack; the fuller one fits both pods."""
    builder = StateBuilder()
    for node, used in (("n0", 0), ("n1", 2)):
        builder.node(node, 4, labels={"rack": "r0"})
        for _ in range(used):
            builder.pod(node=node)
    shape = shape_of(builder, Requirements(requests(1), spread=(Spread(app("web"), "rack"),)))

    assert list(taken(builder, shape, 2, "pack")) == [{1: 2}]


def test_pods_that_need_each_other_follow_the_first_of_them() -> None:
    """The first wave is the first pod alone: its rack is that of all others."""
    builder = used_by(1, 0)
    shape = shape_of(builder, required_affinity("web"))

    assert list(taken(builder, shape, 3, "spread")) == [{1: 1}, {1: 1}, {1: 1}]
    assert list(taken(builder, shape, 3, "pack")) == [{0: 1}, {0: 2}]


def test_after_many_waves_preferences_no_longer_slow_them_down() -> None:
    """Each wave of the profile spread adds a pod to each node, while racks are level."""
    builder = used_by(0, 0, cpu=64)
    builder.node("n2", cpu=2, labels={"rack": "r002"})
    shape = spread_over_racks(builder)

    found = list(taken(builder, shape, 100, "spread"))

    assert sum(sum(wave.values()) for wave in found) == 100
    assert all(count == 1 for wave in found for count in wave.values())
