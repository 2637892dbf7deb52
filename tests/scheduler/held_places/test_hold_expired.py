"""The consequence for a group whose expected pods did not arrive in time."""

from typing import Any

import pytest

from kube.base.errors import Forbidden
from scheduler.core.values.model import GroupKey
from tests.scheduler.holding_harness import HOLD, HoldingHarness, kind

TRAIN: GroupKey = ("PodGroup", "ns", "train")


async def started(harness: HoldingHarness, asked: str = "") -> None:
    """Start a driver that expects eight workers, in a cluster of nine slots."""
    note = {"scheduling.muster.dev/on-hold-expired": asked} if asked else {}
    harness.builder.nodes(9, cpu=1)
    harness.group("train", 9, kind("driver", 1), kind("worker", 8), annotations=note)
    harness.pod("driver", "train")
    await harness.settle(3)
    assert list(harness.where()) == ["driver"]


def condition(harness: HoldingHarness, name: str) -> dict[str, Any] | None:
    found = (harness.observed[TRAIN].status or {})["conditions"]
    return next((each for each in found if each["type"] == name), None)


def told(harness: HoldingHarness, reason: str) -> list[str]:
    return [message for _, why, message in harness.events.told if why == reason]


@pytest.mark.parametrize("asked", ["", "Keep", "evict", "None"])
async def test_what_runs_is_kept_whatever_its_deadline_was(asked: str) -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness, asked)
        await harness.settle(HOLD + 200)

        assert list(harness.where()) == ["driver"]
        assert not told(harness, "GangBindFailed")
        assert not harness.evictor_api.deleted
        assert not harness.held("train")
        said = condition(harness, "HoldExpired")
        assert said is not None
        assert said["status"] == "True"
    assert harness.api.reservations == {}


async def test_the_next_leader_keeps_it_too_and_holds_nothing_again() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        await harness.settle(HOLD - 60)
    stored = dict(harness.api.reservations)
    async with harness.leading():
        await harness.settle(90)
    harness.api.reservations.update(stored)  # the Reservation was not deleted yet
    await harness.restart()
    assert not harness.held("train")
    async with harness.leading():
        await harness.settle(300)
        assert list(harness.where()) == ["driver"]
        assert not harness.held("train")
        assert not told(harness, "GangBindFailed")
        assert len(told(harness, "HoldExpired")) == 1
    assert harness.api.reservations == {}


async def test_what_runs_is_evicted_where_the_group_asks_for_it() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the owner makes the driver again"):
        await started(harness, "Evict")
        harness.group("rival", 9)
        for index in range(9):
            harness.pod(f"rival-{index}", "rival")
        await harness.settle(HOLD - 10)
        assert not harness.where("rival")
        await harness.settle(20)

        assert harness.evictor_api.deleted == ["driver"]
        assert harness.evictor_api.marked.count("Pod/driver") == 1
        harness.evictor_api.end()
        harness.delete_pod("driver")
        await harness.settle(5)
        assert len(harness.where("rival")) == 9


async def test_it_begins_anew_once_nothing_of_it_runs() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness, "Evict")
        await harness.settle(HOLD + 10)
        harness.evictor_api.end()
        harness.delete_pod("driver")
        harness.pod("driver-again", "train")
        await harness.settle(5)

        assert list(harness.where()) == ["driver-again"]
        assert sum(harness.held("train").values()) == 8
        said = condition(harness, "HoldExpired")
        assert said is not None
        assert said["status"] == "False"
        await harness.settle(HOLD - 20)
        assert sum(harness.held("train").values()) == 8


async def test_the_next_leader_evicts_what_the_last_did_not() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness, "Evict")
    await harness.restart()
    async with harness.leading(unsettled="the victim ends when the test says so"):
        await harness.settle(HOLD + 10)
        assert harness.evictor_api.deleted == ["driver"]
    await harness.restart()
    async with harness.leading(unsettled="the victim ends when the test says so"):
        await harness.settle(10)
        assert harness.evictor_api.deleted == ["driver"]


async def test_what_cannot_be_evicted_stays_and_is_not_asked_for_again_and_again() -> None:
    harness = HoldingHarness()
    harness.evictor_api.fail_delete = lambda _name: Forbidden(403, "Forbidden", "no")
    async with harness.leading():
        await started(harness, "Evict")
        await harness.settle(HOLD + 60)

        assert list(harness.where()) == ["driver"]
        assert len(told(harness, "EvictionFailed")) == 1


async def test_a_gang_that_has_its_minimum_is_not_evicted() -> None:
    """Its other pods exceed its minimum."""
    harness = HoldingHarness()
    note = {"scheduling.muster.dev/on-hold-expired": "Evict"}
    async with harness.leading():
        harness.builder.nodes(9, cpu=1)
        harness.group("train", 1, kind("driver", 1), kind("worker", 8), annotations=note)
        harness.pod("driver", "train")
        await harness.settle(HOLD + 60)

        assert list(harness.where()) == ["driver"]
        assert not harness.evictor_api.deleted
        assert "the running pods continue" in told(harness, "HoldExpired")[0]


async def test_pods_that_succeeded_do_not_keep_it_from_beginning_anew() -> None:
    """They also get no held places again before a pod of the group is pending."""
    harness = HoldingHarness()
    note = {"scheduling.muster.dev/on-hold-expired": "Evict"}
    async with harness.leading():
        harness.builder.nodes(9, cpu=1)
        kinds = (kind("first", 1), kind("driver", 1), kind("worker", 7))
        harness.group("train", 9, *kinds, annotations=note)
        harness.pod("first", "train")
        harness.pod("driver", "train")
        await harness.settle(2)
        harness.builder.state.set_pod(harness.with_phase("uid-first", "Succeeded"))
        await harness.settle(HOLD + 10)
        assert harness.evictor_api.deleted == ["driver"]
        harness.evictor_api.end()
        harness.delete_pod("driver")
        await harness.settle(20)
        assert not harness.held("train")

        harness.pod("driver-again", "train")
        await harness.settle(3)
        assert "driver-again" in harness.where()
        assert sum(harness.held("train").values()) == 7
