"""Devices are held for pods that do not exist yet, like places."""

import pytest

from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.snapshot.snapshot import Limits, decode, encode, restore, take
from tests.scheduler.claims.holding import ADDED, HoldingClaimsHarness, expected

NODES = 4


def cluster(harness: HoldingClaimsHarness, devices: int = 2, *, template: bool = True) -> None:
    """Create four nodes with two devices each."""
    harness.device_class()
    for at in range(NODES):
        harness.builder.node(f"n{at}", 8)
        harness.devices(f"n{at}", devices)
    if template:
        harness.template()


def driver_and_workers(harness: HoldingClaimsHarness, workers: int = 8) -> None:
    kinds = expected("driver", 1, own=0), expected("worker", workers)
    harness.group("train", 1 + workers, *kinds)
    harness.worker_without_claim("driver", "train")


async def test_workers_find_the_devices_that_were_held_and_another_gang_waits() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(2)
        assert list(harness.where()) == ["driver"]
        assert sum(harness.held_for("train").values()) == 8
        assert len(harness.in_use()) == 8

        harness.group("rival", 1)
        harness.worker("rival-0", "rival")
        await harness.settle(3)
        assert not harness.where("rival")

        for at in range(8):
            harness.worker(f"worker-{at}", "train")
        await harness.settle(4)
        assert len(harness.where("worker")) == 8
        assert not harness.where("rival")
        assert not harness.held_for("train")
        in_use = harness.in_use()
        assert sorted(in_use.values()) == [f"worker-{at}-0" for at in range(8)]


async def test_nothing_starts_where_the_devices_of_all_are_not_there() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading(unsettled="waits for devices"):
        cluster(harness, devices=1)
        driver_and_workers(harness)
        await harness.settle(3)
        assert not harness.where()

        for at in range(NODES):
            harness.devices(f"n{at}", 2, generation=2)
        await harness.settle(3)
        assert list(harness.where()) == ["driver"]


async def test_a_template_that_is_not_there_yet_is_waited_for_and_said() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness, template=False)
        driver_and_workers(harness)
        await harness.settle(3)
        assert not harness.where()
        text = harness.summary(("PodGroup", "ns", "train"))
        assert 'could not find ResourceClaimTemplate "ns/t"' in text

        harness.template()
        await harness.settle(3)
        assert list(harness.where()) == ["driver"]
        assert len(harness.in_use()) == 8


async def test_a_template_that_is_made_anew_has_the_places_chosen_anew() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness, 4)
        await harness.settle(2)
        assert len(harness.in_use()) == 4
        harness.templates.delete(("ns", "t"))
        harness.template(count=2)
        await harness.settle(4)
        assert len(harness.in_use()) == 8
        assert harness.held_for("train") == {f"n{at}": 1 for at in range(NODES)}


async def test_the_next_leader_holds_devices_too() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(2)
    await harness.restart()
    async with harness.leading():
        assert len(harness.in_use()) == 8
        harness.group("rival", 1)
        harness.worker("rival-0", "rival")
        await harness.settle(3)
        assert not harness.where("rival")


async def test_devices_that_go_have_the_places_chosen_anew() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness, 6)
        await harness.settle(2)
        free = next(f"n{at}" for at in range(NODES) if f"n{at}" not in harness.held_for("train"))
        gone = next(node for node in harness.held_for("train") if node != free)
        harness.devices(gone, 0, generation=2)
        harness.held_places.release_unusable()
        await harness.settle(4)
        assert sum(harness.held_for("train").values()) == 6
        assert harness.held_for("train")[free] == 2
        assert gone not in harness.held_for("train")


async def test_a_group_that_goes_gives_its_devices_back() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(2)
        harness.groups.delete(("ns", "train"))
        harness.deliver_deletion("driver", claim=False)
        await harness.settle(2)
        assert not harness.in_use()


async def test_stages_hold_devices_each_for_itself() -> None:
    """Devices are held for the sum of all stages: their common part is not computed."""
    harness = HoldingClaimsHarness()
    async with harness.leading(unsettled="needs twelve devices"):
        cluster(harness)
        first, then = expected("initializer", 4, stage=1), expected("trainer", 8, stage=2)
        harness.group("train", 12, first, then)
        harness.worker("initializer-0", "train")
        await harness.settle(3)
        assert not harness.where()
        for at in range(4, 6):
            harness.builder.node(f"n{at}", 8)
            harness.devices(f"n{at}", 2)
        await harness.settle(3)
        assert list(harness.where()) == ["initializer-0"]


@pytest.mark.parametrize("claims_refused", ["resourceClaims (gate)"])
async def test_where_pods_with_claims_are_refused_none_are_expected(claims_refused: str) -> None:
    harness = HoldingClaimsHarness(claims_refused=claims_refused)
    async with harness.leading(unsettled="refused"):
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(3)
        assert not harness.where()


async def test_a_named_claim_is_decided_for_those_that_are_to_come() -> None:
    """All share one device, which two nodes reach; the driver goes where all fit."""
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        harness.claim("common")
        shared = [{"name": "c", "resourceClaimName": "common"}]
        harness.group("train", 5, expected("any", 5, own=0, resourceClaims=shared))
        harness.worker_without_claim("first", "train", shared=("common",))
        await harness.settle(3)
        assert list(harness.where()) == ["first"]
        assert harness.held_for("train") == {harness.where()["first"]: 4}


async def test_extended_resources_are_held_for_those_to_come() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        harness.device_class("ext", resource="example.com/gpu")
        requests = {"requests": {"example.com/gpu": "1"}}
        containers = [{"name": "main", "resources": requests}]
        worker = expected("worker", 8, own=0, containers=containers)
        harness.group("train", 9, expected("driver", 1, own=0), worker)
        harness.worker_without_claim("driver", "train")
        await harness.settle(3)
        assert list(harness.where()) == ["driver"]
        assert len(harness.in_use()) == 8


@pytest.mark.parametrize("first", ["claim", "pod"])
async def test_a_pod_that_is_made_again_finds_its_devices(first: str) -> None:
    """Either its claim arrives first, or the deallocation of the previous one."""
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        for at in range(8):
            harness.worker(f"worker-{at}", "train")
        await harness.settle(4)
        assert len(harness.where("worker")) == 8
        node = harness.where()["worker-0"]
        harness.group("rival", 1)
        harness.worker("rival-0", "rival")
        await harness.settle(2)

        harness.deliver_deletion("worker-0", claim=False)
        await harness.settle(2)
        assert harness.held_for("train") == {node: 1}
        if first == "claim":
            harness.worker("worker-8", "train")
            await harness.settle(2)
            assert "worker-8" not in harness.where()
            harness.api.drop_claim("worker-0-0")
        else:
            harness.api.drop_claim("worker-0-0")
            await harness.settle(2)
            assert not harness.where("rival")
            harness.worker("worker-8", "train")
        await harness.settle(3)
        assert harness.where()["worker-8"] == node
        assert not harness.where("rival")
        assert len(harness.in_use()) == 8


async def test_a_snapshot_has_the_devices_that_are_held() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(2)
    state = harness.builder.state
    snapshot = take(state, harness.queue, Limits.of(SearchBudget()), decisions=10)
    restored, _ = restore(decode(encode(snapshot), "a test"))
    assert len(restored.devices.assumed) == 8
    assert restored.devices.assumed == state.devices.assumed


async def test_higher_priority_takes_devices_that_are_held() -> None:
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(2)
        key = harness.group("rival", 2, priority=10)
        for at in range(2):
            harness.worker(f"rival-{at}", "rival", priority=10)
    state = harness.builder.state
    root = state.forest.groups[key]
    refusal = place(state, root, SearchBudget())
    assert isinstance(refusal, Refusal)
    plan = preempt(state, root, refusal, SearchBudget())
    assert isinstance(plan, Plan)
    victims = [pod for unit in plan.victims for pod in unit.pods.values()]
    assert len(victims) == 2
    assert all(pod.info.expected for pod in victims)


async def test_devices_that_are_hard_to_find_are_looked_for_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim requests something else than expected: no device is lost meanwhile."""
    harness = HoldingClaimsHarness()
    harness.held_places._device_work = harness.build_device_work()
    async with harness.leading():
        cluster(harness)
        driver_and_workers(harness)
        await harness.settle(2)
        with monkeypatch.context() as patch:
            for name in ("_TRIED", "_TRIED_IN_DEBT", "_TRIED_ALONE"):
                patch.setattr(f"scheduler.support.device_budget.{name}", 0)
            harness.pod("worker-0", "train", tolerations=ADDED)
            selector = {"cel": {"expression": "device.driver != ''"}}
            harness.claim("worker-0-0", owner="worker-0", selectors=[selector])
            await harness.settle(1)
            assert "worker-0" not in harness.where()
            assert sum(harness.held_for("train").values()) == 8
        await harness.settle(2)
        assert "worker-0" in harness.where()
        assert sum(harness.held_for("train").values()) == 7


async def test_a_template_that_many_groups_name_is_taken_in_by_parts() -> None:
    """A tenant's groups that name a template must not block other tenants."""
    harness = HoldingClaimsHarness()
    async with harness.leading():
        cluster(harness, template=False)
        for at in range(300):
            harness.group(f"g{at}", 1, expected("worker", 0))

        def lacking() -> int:
            groups = harness.expected._groups.values()
            return sum(bool(group.kinds["worker"].info.unclaimed) for group in groups)

        assert lacking() == 300
        harness.template()
        assert lacking() == 300 - 128
        harness.held_places.release_unusable()
        harness.held_places.release_unusable()
        assert lacking() == 0
        for at in range(300):
            harness.groups.delete(("ns", f"g{at}"))
        assert not harness.expected.claims._naming
