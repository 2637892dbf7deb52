"""Stages of a tree: pods that never run at the same time share their places."""

import pytest

from scheduler.core.explain.holders import held_capacity
from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, decode, encode, restore, take
from tests.scheduler.holding_harness import HoldingHarness, kind

BIG = 4


def initialized(harness: HoldingHarness, *, priority: int = 0, mode: str = "single") -> None:
    """Create a driver together with a large initializer, and then eight trainers."""
    harness.group(
        "train",
        10,
        kind("driver", 1),
        kind("initializer", 1, BIG, stage=1),
        kind("trainer", 8, stage=2),
        priority=priority,
        mode=mode,
    )


async def begun(harness: HoldingHarness, *, mode: str = "single") -> None:
    """Start them in nine cores, exactly enough for the driver and the trainers."""
    harness.builder.nodes(2, cpu=BIG)
    harness.builder.node("small", 1)
    initialized(harness, mode=mode)
    harness.pod("driver", "train")
    harness.pod("initializer", "train", BIG)
    await harness.settle(2)
    assert sorted(harness.where()) == ["driver", "initializer"]


def rival(harness: HoldingHarness, *, priority: int = 0) -> None:
    harness.group("rival", 1, priority=priority)
    harness.pod("rival", "rival", priority=priority)


def trainers(harness: HoldingHarness, count: int = 8) -> None:
    for index in range(count):
        harness.pod(f"trainer-{index}", "train")


def succeed(harness: HoldingHarness, name: str) -> None:
    harness.builder.state.set_pod(harness.with_phase(f"uid-{name}", "Succeeded"))


def free(harness: HoldingHarness) -> int:
    nodes = harness.builder.state.nodes
    return int(nodes.free[nodes.resources.indices["cpu"]].sum())


async def test_an_initializer_and_the_trainers_after_it_need_the_places_of_the_larger() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await begun(harness)
        assert sum(harness.held("train").values()) == 8
        assert free(harness) == 0
        rival(harness)
        await harness.settle(3)
        assert not harness.where("rival")

        succeed(harness, "initializer")
        await harness.settle(2)
        assert free(harness) == 0
        trainers(harness)
        await harness.settle(3)
        assert len(harness.where("trainer")) == 8
        assert not harness.where("rival")
        assert not harness.held("train")


async def test_all_that_is_to_come_has_to_fit_although_it_comes_later() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(2, cpu=BIG)
        initialized(harness)
        harness.pod("driver", "train")
        harness.pod("initializer", "train", BIG)
        await harness.settle(3)
        assert not harness.where()

        harness.builder.node("small", 1)
        await harness.settle(3)
        assert sorted(harness.where()) == ["driver", "initializer"]


async def test_the_next_leader_holds_the_same_room() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await begun(harness)
    held = harness.held("train")
    await harness.restart()
    async with harness.leading():
        rival(harness)
        await harness.settle(3)
        assert harness.held("train") == held
        assert free(harness) == 0
        assert not harness.where("rival")
        succeed(harness, "initializer")
        trainers(harness)
        await harness.settle(3)
        assert len(harness.where("trainer")) == 8


async def test_an_owner_that_lies_about_stages_has_no_more_than_the_nodes_have() -> None:
    """Its trainers arrive while the initializer runs: those that do not fit with it wait."""
    harness = HoldingHarness()
    async with harness.leading(unsettled="some of the pods wait for room"):
        await begun(harness)
        trainers(harness)
        await harness.settle(4)
        nodes = harness.builder.state.nodes
        assert (nodes.free[nodes.resources.indices["cpu"], : nodes.size] >= 0).all()
        assert len(harness.where("trainer")) == 9 - 1 - BIG

        succeed(harness, "initializer")
        await harness.settle(4)
        assert len(harness.where("trainer")) == 8


async def test_a_node_that_goes_has_the_room_of_all_stages_chosen_anew() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the trainers lack a node"):
        await begun(harness)
        on = harness.where()["initializer"]
        other = next(name for name in ("n0", "n1") if name != on)
        harness.builder.state.remove_node(other)
        harness.held_places.release_unusable()
        await harness.settle(2)
        assert free(harness) == 0
        harness.builder.node("new", BIG)
        await harness.settle(3)
        assert sum(harness.held("train").values()) == 8
        assert free(harness) == 0


async def test_higher_priority_takes_the_room_that_is_held_and_nothing_that_runs() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the trainers wait for room"):
        await begun(harness)
        rival(harness, priority=10)
        await harness.settle(4)
        assert list(harness.where("rival")) == ["rival"]
        assert sorted(harness.where())[:2] == ["driver", "initializer"]


async def test_no_more_is_evicted_than_what_runs_at_once_needs() -> None:
    """There are nine cores: the sum of the stages would need thirteen."""
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(2, cpu=BIG)
        harness.builder.node("small", 1)
        for index in range(9):
            harness.group(f"low-{index}", 1)
            harness.pod(f"low-{index}", f"low-{index}")
        await harness.settle(2)
        assert len(harness.where("low")) == 9

        initialized(harness, priority=10)
        harness.pod("driver", "train", priority=10)
        harness.pod("initializer", "train", BIG, priority=10)
        await harness.settle(3)
        gone = harness.evictor_api.end()
        assert len(gone) == 9
        for name in gone:
            harness.delete_pod(name)
        await harness.settle(3)
        assert sorted(harness.where()) == ["driver", "initializer"]
        assert free(harness) == 0


async def test_held_room_is_what_the_largest_stage_needs_beyond_what_runs() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await begun(harness)
        state = harness.builder.state
        cpu = state.nodes.resources.indices["cpu"]
        assert int(held_capacity(state)[cpu].sum()) == (9 - 1 - BIG) * 1000
        succeed(harness, "initializer")
        assert int(held_capacity(state)[cpu].sum()) == 8 * 1000


@pytest.mark.parametrize("parent", ["tree", "later"])
async def test_stages_are_those_of_the_whole_tree(parent: str) -> None:
    """The composite may be created after its groups: they share the capacity anyway."""
    harness = HoldingHarness()
    async with harness.leading(unsettled="no whole tree yet"):
        harness.builder.nodes(2, cpu=BIG)
        if parent == "tree":
            harness.builder.gang("tree", 2, composite=True, priority=0)
        harness.group("a", 1, kind("initializer", 1, BIG, stage=1), parent="tree")
        harness.group("b", 8, kind("trainer", 8, stage=2), parent="tree")
        harness.pod("initializer", "a", BIG)
        await harness.settle(2)
        if parent == "later":
            assert not harness.where()
            harness.builder.gang("tree", 2, composite=True, priority=0)
            await harness.settle(3)
        assert list(harness.where()) == ["initializer"]
        assert sum(harness.held("b").values()) == 8
        assert free(harness) == 0


async def test_roots_share_nothing_with_each_other() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the second waits"):
        harness.builder.nodes(2, cpu=BIG)
        for name in ("a", "b"):
            harness.group(name, 9, kind("first", 1, BIG, stage=1), kind("then", 8, stage=2))
        harness.pod("a-first", "a", BIG)
        harness.pod("b-first", "b", BIG)
        await harness.settle(3)
        assert len(harness.where()) == 1


async def test_a_snapshot_has_the_stages_and_decides_as_the_scheduler_does() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await begun(harness)
    state = harness.builder.state
    snapshot = take(state, harness.queue, Limits.of(SearchBudget()), decisions=10)
    restored, _ = restore(decode(encode(snapshot), "a test"))
    cpu = restored.nodes.resources.indices["cpu"]
    assert int(restored.nodes.free[cpu].sum()) == free(harness) == 0


async def test_a_group_that_says_its_stages_later_shares_from_then_on() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="waits for room"):
        harness.builder.nodes(2, cpu=BIG)
        harness.group("train", 9, kind("initializer", 1, BIG), kind("trainer", 8))
        harness.pod("initializer", "train", BIG)
        await harness.settle(2)
        assert not harness.where()
        harness.group("train", 9, kind("initializer", 1, BIG, stage=1), kind("trainer", 8, stage=2))
        await harness.settle(3)
        assert list(harness.where()) == ["initializer"]
        assert free(harness) == 0
