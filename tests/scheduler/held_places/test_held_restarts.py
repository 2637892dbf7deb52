"""An owner that recreates its pods gets the places of the deleted ones."""

import pytest

from tests.scheduler.holding_harness import HOLD, HoldingHarness, kind


async def running(harness: HoldingHarness) -> dict[str, str]:
    """Run a driver and eight workers in a cluster of nine slots, with a pending rival."""
    harness.builder.nodes(9, cpu=1)
    harness.group("train", 9, kind("driver", 1), kind("worker", 8))
    make(harness)
    await harness.settle(2)
    harness.group("rival", 3)
    for index in range(3):
        harness.pod(f"rival-{index}", "rival")
    await harness.settle(2)
    assert len(harness.where()) == 9
    return harness.where()


def make(harness: HoldingHarness, attempt: str = "") -> None:
    harness.pod(f"driver{attempt}", "train")
    for index in range(8):
        harness.pod(f"worker{attempt}-{index}", "train")


async def test_a_restart_keeps_all_places() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        before = await running(harness)
        for name in before:
            harness.delete_pod(name)
            await harness.settle(1)
        assert sum(harness.held("train").values()) == 9
        assert not harness.where("rival")

        harness.pod("driver-1", "train")
        await harness.settle(2)
        assert list(harness.where()) == ["driver-1"]
        for index in range(8):
            harness.pod(f"worker-1-{index}", "train")
        await harness.settle(2)
        assert len(harness.where()) == 9
        assert not harness.where("rival")


async def test_a_pod_that_is_made_again_before_the_last_is_gone_has_its_place() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await running(harness)
        harness.pod("worker-again", "train")
        await harness.settle(2)
        assert not harness.where("worker-again")

        harness.delete_pod("worker-3")
        await harness.settle(2)
        assert harness.where("worker-again")
        assert not harness.where("rival")
        assert not harness.held("train")


@pytest.mark.parametrize("left", [0, 5])
async def test_the_next_leader_keeps_them_too(left: int) -> None:
    harness = HoldingHarness()
    async with harness.leading():
        before = await running(harness)
        for name in sorted(before)[left:]:
            harness.delete_pod(name)
        await harness.settle(2)
        held = harness.held("train")
        assert sum(held.values()) == 9 - left
    await harness.restart()
    assert harness.held("train") == held
    async with harness.leading():
        await harness.settle(2)
        assert not harness.where("rival")
        assert harness.held("train") == held


async def test_they_are_held_for_the_usual_time_from_then_on() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        before = await running(harness)
        await harness.settle(HOLD + 100)
        for name in before:
            harness.delete_pod(name)
        await harness.settle(HOLD - 20)
        assert not harness.where("rival")
        await harness.settle(40)
        assert len(harness.where("rival")) == 3


async def test_places_of_a_group_that_expects_no_pods_any_more_are_free() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        before = await running(harness)
        harness.group("train", 9)
        for name in before:
            harness.delete_pod(name)
        await harness.settle(2)
        assert len(harness.where("rival")) == 3


async def test_no_other_comes_for_a_pod_that_succeeded() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        before = await running(harness)
        name = next(name for name in before if name.startswith("worker"))
        harness.builder.state.set_pod(harness.with_phase(f"uid-{name}", "Succeeded"))
        harness.delete_pod(name)
        await harness.settle(3)
        assert not harness.held("train")
        assert not any(pod.info.expected for pod in harness.builder.state.pods.values())


async def test_a_higher_priority_has_the_room_of_what_it_evicts() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the rest waits for room"):
        await running(harness)
        harness.group("urgent", 2, priority=10)
        for index in range(2):
            harness.pod(f"urgent-{index}", "urgent", priority=10)
        await harness.settle(5)
        for name in harness.evictor_api.deleted:
            harness.delete_pod(name)
        await harness.settle(5)
        assert len(harness.where("urgent")) == 2


async def test_a_place_that_was_chosen_anew_is_the_next_leaders_too() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(10, cpu=1)
        harness.group("train", 9, kind("driver", 1), kind("worker", 8))
        harness.pod("driver", "train")
        await harness.settle(2)
        harness.builder.state.remove_node(next(iter(harness.held("train"))))
        await harness.settle(3)
        held = harness.held("train")
        assert sum(held.values()) == 8
    await harness.restart()
    assert harness.held("train") == held


async def test_a_place_that_others_took_does_not_cost_the_next_leader_the_rest() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the rest waits for room"):
        harness.builder.nodes(9, cpu=1)
        harness.group("train", 9, kind("driver", 1), kind("worker", 8))
        harness.pod("driver", "train")
        await harness.settle(2)
        harness.group("urgent", 2, priority=10)
        for index in range(2):
            harness.pod(f"urgent-{index}", "urgent", priority=10)
        await harness.settle(3)
        held = harness.held("train")
        assert sum(held.values()) == 6
    await harness.restart()
    assert harness.held("train") == held


async def completing(harness: HoldingHarness) -> None:
    """Run two of several pods at once; one has succeeded, and its successor exists."""
    harness.builder.nodes(2, cpu=1)
    harness.group("train", 2, kind("worker", 2))
    for index in range(2):
        harness.pod(f"worker-{index}", "train")
    await harness.settle(2)
    harness.pod("worker-0", "train", phase="Succeeded")
    harness.pod("worker-2", "train")
    await harness.settle(2)
    assert "worker-2" in harness.where()


async def test_pods_that_come_for_those_that_succeeded_are_not_too_many() -> None:
    """A Job with more completions than parallelism does so."""
    harness = HoldingHarness()
    async with harness.leading():
        await completing(harness)
        harness.delete_pod("worker-0")
        harness.pod("worker-1", "train", phase="Succeeded")
        harness.pod("worker-3", "train")
        await harness.settle(3)
        assert "worker-3" in harness.where()
        assert not [text for _, why, text in harness.events.told if why == "ExpectedPodsDiffer"]
        assert not any(pod.info.expected for pod in harness.builder.state.pods.values())

        harness.pod("worker-4", "train")
        await harness.settle(3)
        assert [text for _, why, text in harness.events.told if why == "ExpectedPodsDiffer"]


async def test_of_those_that_run_one_that_is_made_again_finds_its_place() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await completing(harness)
        node = harness.where()["worker-1"]
        harness.delete_pod("worker-1")
        await harness.settle(2)
        assert harness.held("train") == {node: 1}


async def test_a_new_process_counts_them_in_whatever_order_they_come() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await completing(harness)
        key = ("PodGroup", "ns", "train")
        harness.delete_group("train")
        harness.group("train", 2, kind("worker", 2))
        await harness.settle(2)
        (now,) = harness.expected.kinds(key)
        assert now.came == ("uid-worker-1", "uid-worker-2")
        assert not [text for _, why, text in harness.events.told if why == "ExpectedPodsDiffer"]


async def test_pods_of_the_decision_itself_have_none_of_the_places_that_it_holds() -> None:
    """All are on one node, where the next leader cannot distinguish the places."""
    harness = HoldingHarness()
    harness.builder.nodes(1, cpu=9)
    harness.group("train", 9, kind("driver", 1), kind("worker", 8))
    harness.pod("driver", "train")
    for index in range(3):
        harness.pod(f"worker-{index}", "train")
    async with harness.leading():
        await harness.settle(2)
        assert sum(harness.held("train").values()) == 5
    await harness.restart()
    assert sum(harness.held("train").values()) == 5


async def test_pods_that_ran_before_a_pod_was_deleted_have_none_of_its_place() -> None:
    harness = HoldingHarness()
    harness.builder.nodes(1, cpu=9)
    harness.group("train", 9, kind("driver", 1), kind("worker", 8))
    make(harness)
    async with harness.leading():
        await harness.settle(2)
        for index in range(3):
            harness.delete_pod(f"worker-{index}")
        await harness.settle(2)
        assert sum(harness.held("train").values()) == 3
    await harness.restart()
    assert sum(harness.held("train").values()) == 3
