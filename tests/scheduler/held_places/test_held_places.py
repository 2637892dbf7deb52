"""The places of a complete tree: they are held for pods that are created after others run."""

import pytest
from structlog.testing import capture_logs

from kube.base.errors import ServerError
from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, decode, encode, restore, take
from scheduler.support.config import ExpectedLimits
from tests.scheduler.holding_harness import HOLD, MOST, HoldingHarness, Json, kind


async def started(harness: HoldingHarness, *, nodes: int = 9, mode: str = "single") -> None:
    """Start a driver that expects eight workers, in a cluster of `nodes` slots."""
    harness.builder.nodes(nodes, cpu=1)
    harness.group("train", 9, kind("driver", 1), kind("worker", 8), mode=mode)
    harness.pod("driver", "train")
    await harness.settle(1)
    assert list(harness.where()) == ["driver"]
    assert sum(harness.held("train").values()) == 8


def workers(harness: HoldingHarness, count: int = 8, *, first: int = 0) -> None:
    for index in range(first, count):
        harness.pod(f"worker-{index}", "train")


def rival(harness: HoldingHarness, size: int = 8, priority: int = 0) -> None:
    harness.group("rival", size, priority=priority)
    for index in range(size):
        harness.pod(f"rival-{index}", "rival", priority=priority)


async def test_workers_find_their_places_and_a_gang_of_equal_priority_waits() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        rival(harness)
        await harness.settle(3)
        assert not harness.where("rival")

        workers(harness)
        await harness.settle(3)
        assert len(harness.where("worker")) == 8
        assert len(set(harness.where().values())) == 9
        assert not harness.where("rival")
        assert not harness.held("train")
    assert harness.api.reservations == {}


async def test_nothing_starts_before_there_is_room_for_all_that_is_expected() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(8, cpu=1)
        harness.group("train", 9, kind("driver", 1), kind("worker", 8))
        harness.pod("driver", "train")
        await harness.settle(3)
        assert not harness.where()

        harness.builder.node("n8", 1)
        await harness.settle(3)
        assert list(harness.where()) == ["driver"]


async def test_a_group_of_which_no_pod_exists_takes_no_place() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(9, cpu=1)
        key = harness.group("train", 9, kind("driver", 1), kind("worker", 8))
        rival(harness)
        await harness.settle(3)

        assert len(harness.where("rival")) == 8
        assert not harness.held("train")
        assert "None of the expected pods exists yet" in harness.summary(key)


async def test_workers_that_come_one_by_one_use_one_place_each() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        rival(harness, 1)
        places = set(harness.held("train"))
        for index in range(8):
            harness.pod(f"worker-{index}", "train")
            await harness.settle(1)
            assert len(harness.where("worker")) == index + 1
            assert sum(harness.held("train").values()) == 7 - index
        assert set(harness.where("worker").values()) == places
        assert not harness.where("rival")


@pytest.mark.parametrize("came", [0, 3, 8])
async def test_the_next_leader_holds_the_same_places(came: int) -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        workers(harness, came)
        await harness.settle(1)
        before = harness.held("train")
    rival(harness)
    await harness.restart()
    assert harness.held("train") == before
    async with harness.leading():
        workers(harness, first=came)
        await harness.settle(3)
        assert len(harness.where("worker")) == 8
        assert not harness.where("rival")


async def test_the_next_leader_gives_pods_that_came_meanwhile_the_places_held_for_them() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        places = set(harness.held("train"))
    workers(harness, 3)
    rival(harness)
    await harness.restart()
    async with harness.leading():
        await harness.settle(3)
        assert set(harness.where("worker").values()) < places
        assert len(harness.where("worker")) == 3
        assert sum(harness.held("train").values()) == 5
        assert not harness.where("rival")


async def test_higher_priority_takes_held_places_and_the_driver_stays_with_mode_single() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the rest waits for room"):
        await started(harness)
        rival(harness, 4, priority=10)
        await harness.settle(5)

        assert len(harness.where("rival")) == 4
        assert list(harness.where("driver")) == ["driver"]
        assert not harness.evictor_api.deleted

        workers(harness)
        await harness.settle(3)
        assert len(harness.where("worker")) < 8
        for index in range(4):
            harness.delete_pod(f"rival-{index}")
        await harness.settle(70)
        assert len(harness.where("worker")) == 8


async def test_more_held_places_go_rather_than_one_pod_that_runs() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the rest waits for room"):
        harness.builder.node("n0", 2)
        harness.group("other", 1)
        harness.pod("other", "other", 2)
        await harness.settle(1)
        harness.builder.node("n1", 3)
        harness.group("train", 3, kind("driver", 1), kind("worker", 2))
        harness.pod("driver", "train")
        await harness.settle(2)
        assert harness.held("train") == {"n1": 2}
        harness.group("urgent", 1, priority=10)
        harness.pod("urgent", "urgent", 2, priority=10)
        await harness.settle(5)

        assert harness.where("urgent") == {"urgent": "n1"}
        assert not harness.evictor_api.deleted


async def test_places_of_higher_rank_than_what_runs_are_not_taken_for_it() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="victims end when the test says so"):
        harness.builder.node("n0", 2)
        harness.group("other", 1)
        harness.pod("other", "other", 2)
        await harness.settle(1)
        harness.builder.node("n1", 3)
        harness.group("train", 3, kind("driver", 1), kind("worker", 2), priority=5)
        harness.pod("driver", "train", priority=5)
        await harness.settle(2)
        harness.group("urgent", 1, priority=10)
        harness.pod("urgent", "urgent", 2, priority=10)
        await harness.settle(5)

        assert harness.evictor_api.deleted == ["other"]
        assert harness.held("train") == {"n1": 2}


async def test_with_mode_all_the_driver_goes_with_the_held_places() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="victims end when the test says so"):
        await started(harness, mode="all")
        rival(harness, 4, priority=10)
        await harness.settle(5)

        assert harness.evictor_api.deleted == ["driver"]
        assert not any(uid.startswith("expected") for uid in harness.evictor_api.deleted)


async def test_places_are_given_up_when_the_time_is_over_and_what_runs_stays() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        rival(harness)
        await harness.settle(HOLD - 10)
        assert not harness.where("rival")

        await harness.settle(20)
        assert len(harness.where("rival")) == 8
        assert list(harness.where("driver")) == ["driver"]
        assert not harness.api.deleted
        assert any(
            "expected pods did not appear within 600 s" in str(it) for it in harness.events.told
        )

        workers(harness)
        await harness.settle(5)
        assert not harness.where("worker")


async def test_a_group_may_ask_for_another_time_or_none() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(9, cpu=1)
        note = "scheduling.muster.dev/hold-seconds"
        harness.group("train", 9, kind("worker", 9), annotations={note: "60"})
        harness.pod("driver", "train")
        await harness.settle(1)
        assert sum(harness.held("train").values()) == 8
        await harness.settle(62)
        assert not harness.held("train")


@pytest.mark.parametrize("end", ["Keep", "Evict"])
async def test_with_no_time_the_whole_has_to_fit_and_nothing_is_held(end: str) -> None:
    harness = HoldingHarness()
    notes = {
        "scheduling.muster.dev/hold-seconds": "0",
        "scheduling.muster.dev/on-hold-expired": end,
    }
    async with harness.leading():
        harness.builder.nodes(8, cpu=1)
        harness.group("train", 9, kind("driver", 1), kind("worker", 8), annotations=notes)
        harness.pod("driver", "train")
        await harness.settle(5)
        assert not harness.where()

        harness.builder.node("n8", 1)
        await harness.settle(5)
        assert list(harness.where()) == ["driver"]
        assert not harness.held("train")
        rival(harness)
        await harness.settle(5)
        assert len(harness.where("rival")) == 8
        assert list(harness.where("driver")) == ["driver"]
    assert any("no places are held for 8" in str(it) for it in harness.events.told)


async def test_places_on_a_node_that_is_gone_are_chosen_anew_with_what_runs_where_it_is() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness, nodes=10)
        driver = harness.where()["driver"]
        gone = next(iter(harness.held("train")))
        harness.builder.state.remove_node(gone)
        await harness.settle(3)

        held = harness.held("train")
        assert gone not in held
        assert sum(held.values()) == 8
        workers(harness)
        await harness.settle(3)
        assert set(harness.where("worker").values()) == set(held)
        assert harness.where()["driver"] == driver


async def test_a_cordoned_node_is_not_held_any_more() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness, nodes=10)
        cordoned = next(iter(harness.held("train")))
        harness.builder.node(cordoned, 1, unschedulable=True)
        await harness.settle(3)

        assert cordoned not in harness.held("train")
        assert sum(harness.held("train").values()) == 8


async def test_places_end_with_the_group() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        rival(harness)
        harness.delete_pod("driver")
        harness.delete_group("train")
        await harness.settle(3)

        assert not harness.held("train")
        assert len(harness.where("rival")) == 8
    assert not any(pod.info.expected for pod in harness.builder.state.pods.values())


async def test_a_smaller_count_gives_places_back() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        workers(harness, 2)
        await harness.settle(1)
        harness.group("train", 5, kind("driver", 1), kind("worker", 4))
        await harness.settle(3)

        assert sum(harness.held("train").values()) == 2


async def test_a_pod_that_asks_for_something_else_takes_the_place_if_it_fits_there() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(9, cpu=2)
        harness.group("train", 9, kind("driver", 1, 2), kind("worker", 8, 2))
        harness.pod("driver", "train", 2)
        await harness.settle(1)
        rival(harness, 1)
        places = set(harness.held("train"))
        harness.pod("worker-0", "train", 1, nodeSelector={})
        await harness.settle(3)

        assert harness.where("worker-0")["worker-0"] in places
        assert sum(harness.held("train").values()) == 7


async def test_pods_beyond_those_expected_wait_for_room_of_their_own() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        workers(harness, 9)
        await harness.settle(3)

        assert len(harness.where("worker")) == 8
        assert harness.expected.problem(("PodGroup", "ns", "train")).startswith("1 pods")


async def test_a_group_that_lacks_room_says_how_many_of_its_pods_do_not_exist() -> None:
    """An autoscaler adds nodes for pods that exist."""
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(8, cpu=1)
        key = harness.group("train", 9, kind("driver", 1), kind("worker", 8))
        harness.pod("driver", "train")
        await harness.settle(3)

        assert " 8 of its pods do not exist yet, and autoscalers do not" in harness.summary(key)


async def test_what_is_wrong_with_expected_pods_is_told_once() -> None:
    harness = HoldingHarness()
    claims: Json = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    volumes: Json = {"volumes": [{"name": "scratch", "persistentVolumeClaim": {}}]}
    async with harness.leading():
        harness.builder.nodes(3, cpu=1)
        harness.group("train", 1, kind("worker", 2, **volumes), kind("other", 0, **claims))
        harness.pod("worker", "train")
        await harness.settle(10)

        said = [text for _, why, text in harness.events.told if why == "ExpectedPodsDiffer"]
        assert len(said) == 1
        assert "no volumes of worker are held" in said[0]

        harness.group("train", 1, kind("worker", 2, **claims))
        await harness.settle(10)
        said = [text for _, why, text in harness.events.told if why == "ExpectedPodsDiffer"]
        assert "expected pods worker are not placed: they use resourceClaims" in said[1]


class Bounded(HoldingHarness):
    """A harness in which expected pods of a namespace may request ten cores."""

    limits = ExpectedLimits(MOST, {"cpu": 10_000})


async def test_a_namespace_cannot_hold_more_than_its_expected_pods_may_request() -> None:
    """A ResourceQuota ignores expected pods: one small pod could hold as many nodes."""
    harness = Bounded()
    async with harness.leading(unsettled="refused groups wait"):
        harness.builder.node("large", 1000, pods=1000)
        harness.group("first", 3, kind("driver", 1), kind("worker", 2, 4))
        harness.group("second", 2, kind("driver", 1), kind("worker", 1, 4))
        harness.pod("first", "first")
        harness.pod("second", "second")
        await harness.settle(3)
        assert sum(harness.held("first").values()) == 2
        assert list(harness.where()) == ["first"]
        problem = harness.expected.problem(("PodGroup", "ns", "second"))
        assert "more cpu in namespace ns" in problem
        assert "holding.requestsPerNamespace" in problem

        harness.pod("worker-0", "first", 4)
        await harness.settle(3)
        assert sum(harness.held("first").values()) == 1
        harness.group("second", 2, kind("driver", 1), kind("worker", 1, 5))
        await harness.settle(3)
        assert sorted(harness.where()) == ["first", "second", "worker-0"]

        harness.delete_group("first")
        harness.delete_group("second")
        assert not harness.expected._requested


async def test_what_a_group_requests_is_its_own_again_when_it_changes() -> None:
    harness = Bounded()
    async with harness.leading(unsettled="refused groups wait"):
        harness.builder.node("large", 1000, pods=1000)
        harness.group("first", 2, kind("worker", 11))
        harness.pod("worker-0", "first")
        await harness.settle(2)
        assert sum(harness.held("first").values()) == 10
        harness.group("first", 2, kind("worker", 12))
        assert "more cpu" in harness.expected.problem(("PodGroup", "ns", "first"))
        harness.group("first", 2, kind("worker", 8))
        await harness.settle(2)
        assert not harness.expected.problem(("PodGroup", "ns", "first"))
        assert sum(harness.held("first").values()) == 7


async def test_a_namespace_cannot_expect_more_than_the_limit() -> None:
    """A ResourceQuota ignores expected pods."""
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.node("large", 1000, pods=1000)
        harness.group("first", 1, kind("worker", MOST - 10))
        harness.group("second", 1, kind("worker", 100))
        harness.pod("first-0", "first")
        harness.pod("second-0", "second")
        await harness.settle(3)

        assert sum(harness.held("first").values()) == MOST - 11
        assert not harness.held("second")
        assert "holding.podsPerNamespace" in harness.expected.problem(("PodGroup", "ns", "second"))


async def test_a_template_that_cannot_be_read_is_about_its_group_alone() -> None:
    harness = HoldingHarness()
    odd = kind("worker", 8)
    odd["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"
    async with harness.leading():
        await started(harness)
        with pytest.raises(ValueError, match="much"):
            harness.group("odd", 1, odd)
        harness.groups.delete(("ns", "odd"))
        workers(harness)
        await harness.settle(3)
        assert len(harness.where("worker")) == 8


async def test_the_status_says_where_places_are_held_and_until_when() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        key = ("PodGroup", "ns", "train")
        await harness.settle(5)
        said = (harness.observed[key].status or {})["heldPlaces"]
        assert {each["node"]: each["count"] for each in said["pods"]} == harness.held("train")
        assert {each["name"] for each in said["pods"]} == {"worker"}
        assert said["since"] < said["until"]

        workers(harness)
        await harness.settle(5)
        assert "heldPlaces" not in (harness.observed[key].status or {})
        assert harness.condition(key)[0] == "True"


async def test_a_snapshot_has_the_places_and_decides_as_the_scheduler_does() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        rival(harness)
        await harness.settle(3)
    limits = Limits.of(SearchBudget())
    snapshot = take(harness.builder.state, harness.queue, limits, decisions=10)

    state, _ = restore(decode(encode(snapshot), "a test"))
    held = [pod.node for pod in state.pods.values() if pod.info.expected and pod.assumed]
    assert sorted(held) == sorted(harness.held("train"))
    (decision,) = snapshot.decisions
    assert decision.root[2] == "rival"
    assert decision.placed is None


async def test_a_tree_is_placed_with_what_its_leaves_expect() -> None:
    """The driver's group and the workers' are two leaves; the workers' has no pod yet."""
    harness = HoldingHarness()
    async with harness.leading():
        harness.builder.nodes(10, cpu=1)
        harness.builder.gang("tree", 2, composite=True, priority=0)
        harness.group("lead", 1, kind("driver", 1), parent="tree")
        harness.group("follow", 8, kind("worker", 8), parent="tree")
        harness.pod("driver", "lead")
        await harness.settle(1)
        assert list(harness.where()) == ["driver"]
        assert sum(harness.held("follow").values()) == 8

        rival(harness, 2)
        for index in range(8):
            harness.pod(f"worker-{index}", "follow")
        await harness.settle(3)
        assert len(harness.where("worker")) == 8
        assert not harness.where("rival")


async def test_a_status_that_was_written_by_hand_holds_no_place_for_longer() -> None:
    harness = HoldingHarness()
    harness.builder.nodes(9, cpu=1)
    held = {"since": "2099-01-01T00:00:00Z", "until": "2099-01-02T00:00:00Z"}
    places = [{"name": "worker", "node": "n0", "count": 1}]
    kinds = (kind("driver", 1), kind("worker", 8))
    harness.group("train", 9, *kinds, status={"heldPlaces": held | {"pods": places}})
    harness.pod("driver", "train")
    async with harness.leading():
        await harness.settle(5)
        assert sum(harness.held("train").values()) == 8
        said = (harness.observed["PodGroup", "ns", "train"].status or {})["heldPlaces"]
        assert said["since"] < "2027"
        await harness.settle(HOLD + 5)
        assert not harness.held("train")


async def test_a_new_leader_holds_places_for_the_rest_of_their_time() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        await harness.settle(HOLD - 200)
    await harness.restart()
    async with harness.leading():
        await harness.settle(150)
        assert sum(harness.held("train").values()) == 8
        await harness.settle(100)
        assert not harness.held("train")


async def test_a_pod_that_comes_late_to_its_place_has_its_own_time_to_be_bound() -> None:
    """The time of the first pods of its group has ended."""
    harness = HoldingHarness()
    async with harness.leading():
        await started(harness)
        await harness.settle(200)
        fails = iter([ServerError(500, "InternalError", "etcd")] * 2)
        harness.evictor_api.fail_bind = lambda _name: next(fails, None)
        with capture_logs() as logs:
            harness.pod("worker-0", "train")
            await harness.settle(5)
        assert "worker-0" in harness.where()
    assert "binding failed" not in {each["event"] for each in logs}


async def test_pods_that_go_on_coming_give_one_that_cannot_be_bound_no_more_time() -> None:
    harness = HoldingHarness()
    broken = ServerError(500, "InternalError", "etcd")
    harness.evictor_api.fail_bind = lambda name: broken if name == "worker-0" else None
    async with harness.leading(unsettled="one cannot be bound"):
        await started(harness)
        with capture_logs() as logs:
            for index in range(6):
                harness.pod(f"worker-{index}", "train")
                await harness.settle(25)
    assert len(harness.where("worker")) == 5
    assert "worker-0" in {it.get("pod") for it in logs if it["event"] == "binding failed"}
