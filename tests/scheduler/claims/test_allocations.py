"""Writes into ResourceClaims before pods are bound: their order and failures."""

import pytest

from kube.base.errors import Conflict, Forbidden, Invalid, KubeError, ServerError
from kube.client.resources import RESOURCE_CLAIMS
from kube.concurrency.fair_queue import FairSemaphore
from tests.scheduler.claims.claims_harness import ClaimsHarness

FINALIZER = "resource.kubernetes.io/delete-protection"


def cluster(*devices: int) -> ClaimsHarness:
    """Create nodes n0, n1, ... with that many devices each."""
    harness = ClaimsHarness()
    harness.device_class()
    for index, count in enumerate(devices):
        harness.builder.node(f"n{index}", cpu=8)
        harness.devices(f"n{index}", count)
    return harness


async def run(harness: ClaimsHarness, seconds: float = 5, *, unsettled: str = "") -> None:
    async with harness.leading(unsettled=unsettled):
        await harness.settle(seconds)


def turns(harness: ClaimsHarness, count: int) -> FairSemaphore:
    """Limit the number of concurrent claim writes."""
    assert harness.allocations is not None
    harness.allocations._semaphore = FairSemaphore(count)
    return harness.allocations._semaphore


async def test_a_pod_is_bound_once_its_claim_has_a_device_and_the_pod_for_it() -> None:
    harness = cluster(1)
    harness.pod("p")
    harness.claim("p-0", owner="p")

    await run(harness)

    assert harness.api.log == ["metadata p-0", "status p-0", "bind p"]
    claim = harness.api.claims["p-0"]
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    allocation = claim["status"]["allocation"]
    assert allocation["devices"]["results"] == [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "n0", "device": "d0"}
    ]
    (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    assert allocation["allocationTimestamp"]


async def test_no_pod_of_a_gang_is_bound_before_all_of_its_claims_stand() -> None:
    harness = cluster(2, 2)
    names = harness.gang("g", 4)

    await run(harness)

    assert set(harness.api.bound) == set(names)
    first = next(at for at, line in enumerate(harness.api.log) if line.startswith("bind"))
    assert sum(line.startswith("status") for line in harness.api.log[:first]) == 4
    assert harness.api.log[0].startswith("store")
    devices = [each for found in harness.held().values() for each in found]
    assert sorted(devices) == ["n0/d0", "n0/d1", "n1/d0", "n1/d1"]


async def test_pods_of_equal_gangs_are_bound_where_their_claims_are() -> None:
    """The gangs are decided together, by age; their pods arrive in another order."""
    harness = cluster(3, 3)
    for group, first in (("g0", "z"), ("g1", "m"), ("g2", "a")):
        harness.observe(harness.builder.gang(group, 2))
        for name in (f"{first}0", f"{first}1"):
            harness.pod(name, group)
            harness.claim(f"{name}-0", owner=name)

    await run(harness)

    where = {name: each[0].split("/")[0] for name, each in harness.held().items()}
    bound = {f"{pod.info.name}-0": pod.node for pod in harness.builder.state.pods.values()}
    assert len(where) == 6
    assert where == bound


async def test_devices_that_the_node_cannot_use_any_more_are_not_written() -> None:
    harness = cluster()
    for zone, node in enumerate(("n0", "n1")):
        harness.builder.node(node, cpu=8, labels={"zone": f"z{zone}"})
    zones = {"key": "zone", "operator": "In", "values": ["z0", "z2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    harness.slice("pool", nodeName=None, nodeSelector=terms, devices=[{"name": "d0"}])
    harness.pod("p")
    harness.claim("p-0", owner="p")

    def moved(_name: str, subresource: str | None) -> None:
        if subresource is None:
            harness.builder.node("n0", cpu=8, labels={"zone": "z1"})
            harness.builder.node("n1", cpu=8, labels={"zone": "z2"})

    harness.api.before_write = moved
    await run(harness)

    assert harness.builder.state.pods["uid-p"].node == "n1"
    assert harness.api.writes.count(("p-0", "status")) == 1


async def test_nothing_is_written_for_a_gang_that_lacks_a_device() -> None:
    harness = cluster(2, 1)
    harness.gang("g", 4)

    await run(harness)
    assert harness.api.writes == []
    harness.builder.node("n2")
    harness.devices("n2", 1)
    await run(harness)

    assert len(harness.api.bound) == len(harness.held()) == 4


async def test_bindings_wait_for_the_watch() -> None:
    harness = cluster(1)
    harness.pod("p")
    harness.claim("p-0", owner="p")
    harness.api.hold_events(RESOURCE_CLAIMS)

    async with harness.leading():
        await harness.settle(5)
        assert list(harness.held()) == ["p-0"]
        assert harness.api.bound == {}
        harness.api.release_events()
        await harness.settle(1)
        assert harness.api.bound == {"p": "n0"}


async def test_a_shared_claim_is_written_once_for_the_whole_gang() -> None:
    harness = cluster(0, 1)
    harness.observe(harness.builder.gang("g", 3))
    for name in ("a", "b", "c"):
        harness.pod(name, "g", own=0, shared=["common"])
    harness.claim("common")

    await run(harness)

    assert harness.api.bound == dict.fromkeys(("a", "b", "c"), "n1")
    assert harness.api.writes == [("common", None), ("common", "status")]
    assert sorted(harness.consumers("common")) == ["a", "b", "c"]


async def test_single_pods_that_share_a_claim_become_its_consumers_in_one_write() -> None:
    harness = cluster(0, 1)
    names = [f"p{at}" for at in range(5)]
    for name in names:
        harness.pod(name, own=0, shared=["common"])
    harness.claim("common")

    async with harness.leading():
        async with turns(harness, 1).acquired("another"):
            await harness.settle(1)  # all of them are decided before the first may write
        await harness.settle(5)

    assert harness.api.bound == dict.fromkeys(names, "n1")
    assert harness.api.writes == [("common", None), ("common", "status")]
    assert sorted(harness.consumers("common")) == names


async def test_the_first_pods_are_bound_while_the_claims_of_others_wait_for_their_turn() -> None:
    """A claim's second write does not queue behind the first writes of all others."""
    harness = cluster(8)
    for at in range(8):
        harness.pod(f"p{at}")
        harness.claim(f"p{at}-0", owner=f"p{at}")

    async with harness.leading():
        async with turns(harness, 1).acquired("another"):
            await harness.settle(1)
        await harness.settle(5)

    writes = [line.split() for line in harness.api.log if not line.startswith("bind")]
    assert [what for what, _ in writes] == ["metadata", "status"] * 8
    assert [name for _, name in writes[::2]] == [name for _, name in writes[1::2]]
    first = next(at for at, line in enumerate(harness.api.log) if line.startswith("bind"))
    assert first < len(harness.api.log) - 8


async def test_pods_that_come_later_are_added_to_an_allocated_claim() -> None:
    harness = cluster(1, 1)
    harness.pod("a", own=0, shared=["common"])
    harness.claim("common")
    await run(harness)
    harness.pod("b", own=0, shared=["common"])

    await run(harness)

    assert harness.api.bound == {"a": "n0", "b": "n0"}
    assert harness.consumers("common") == ["a", "b"]


async def test_an_extra_whose_claim_fails_leaves_the_minimum_alone() -> None:
    harness = cluster(3)
    harness.observe(harness.builder.gang("g", 2))
    for name in ("a", "b", "c"):
        harness.pod(name, "g")
        harness.claim(f"{name}-0", owner=name)

    def refuse(name: str, subresource: str | None) -> None:
        if name == "c-0":
            raise Forbidden(403, "Forbidden", "not on Sundays")

    harness.api.before_write = refuse
    await run(harness, unsettled="its claim is refused again and again")

    assert set(harness.api.bound) == {"a", "b"}
    assert sorted(harness.held()) == ["a-0", "b-0"]


@pytest.mark.parametrize(
    "error", [Forbidden(403, "Forbidden", "no"), ServerError(500, "InternalError", "etcd")]
)
async def test_claims_are_given_back_when_one_of_the_minimum_cannot_be_written(
    error: KubeError,
) -> None:
    harness = ClaimsHarness(timeout=2)
    harness.device_class()
    harness.builder.node("n0", cpu=8)
    harness.devices("n0", 2)
    harness.gang("g", 2)
    refused = [True]

    def refuse(name: str, subresource: str | None) -> None:
        if name == "g-1-0" and refused[0]:
            raise error

    harness.api.before_write = refuse
    async with harness.leading():
        await harness.settle(4)
        assert harness.api.bound == {}
        refused[0] = False
        await harness.settle(30)

    assert set(harness.api.bound) == {"g-0", "g-1"}
    assert len(harness.held()) == 2


async def test_what_others_wrote_to_the_claim_meanwhile_is_read_first() -> None:
    harness = cluster(1)
    harness.pod("p")
    harness.claim("p-0", owner="p")
    touched: list[str] = []

    def touch(name: str, _sub: str | None) -> None:
        if len(touched) < 3:
            touched.append(name)
            claim = harness.api.claims[name]
            claim["metadata"].setdefault("annotations", {})["n"] = str(len(touched))
            harness.api.put(RESOURCE_CLAIMS, claim, told=False)

    harness.api.before_write = touch
    await run(harness)

    assert harness.api.bound == {"p": "n0"}
    assert harness.api.claims["p-0"]["metadata"]["annotations"] == {"n": "3"}


async def test_a_claim_that_others_allocate_meanwhile_is_decided_anew() -> None:
    harness = cluster(1, 1)
    harness.pod("p")
    harness.claim("p-0", owner="p")

    def allocate(name: str, subresource: str | None) -> None:
        if subresource == "status" and not harness.held():
            harness.foreign(name, "n1", "d0", "somebody")

    harness.api.before_write = allocate
    await run(harness, seconds=10)

    assert harness.held() == {"p-0": ["n1/d0"]}
    # The other scheduler wrote no node selector, so any node can use it.
    assert list(harness.api.bound) == ["p"]
    assert harness.consumers("p-0") == ["somebody", "p"]


async def test_of_two_schedulers_the_first_keeps_the_device() -> None:
    harness = cluster(1, 1)
    harness.pod("p")
    harness.claim("p-0", owner="p")
    harness.claim("theirs")
    harness.api.hold_events(RESOURCE_CLAIMS)

    def first(name: str, subresource: str | None) -> None:
        if name == "p-0" and subresource == "status" and "theirs" not in harness.held():
            harness.foreign("theirs", "n0", "d0", "somebody")

    harness.api.before_write = first
    async with harness.leading():
        await harness.settle(2)
        assert harness.held() == {"theirs": ["n0/d0"], "p-0": ["n0/d0"]}
        assert harness.api.bound == {}
        harness.api.release_events()
        await harness.settle(10)

    assert harness.api.bound == {"p": "n1"}
    assert harness.held() == {"theirs": ["n0/d0"], "p-0": ["n1/d0"]}
    assert [reason for _, reason, _ in harness.events.told].count("DeviceAllocatedTwice") == 0


async def test_of_two_schedulers_the_second_is_told_of() -> None:
    harness = cluster(1)
    harness.pod("p")
    harness.claim("p-0", owner="p")
    harness.claim("theirs")
    async with harness.leading():
        await harness.settle(2)
        harness.foreign("theirs", "n0", "d0", "somebody")
        await harness.settle(2)

    told = [(who, text) for who, reason, text in harness.events.told if "Twice" in reason]
    assert [who for who, _ in told] == ["Pod/p"]
    assert "n0/d0" in told[0][1]
    assert harness.api.bound == {"p": "n0"}
    assert harness.api.deleted == []


async def test_the_257th_consumer_waits() -> None:
    harness = cluster(1)
    harness.claim("common")
    harness.foreign("common", "n0", "d0", *(f"p{at}" for at in range(256)))
    harness.pod("late", own=0, shared=["common"])

    await run(harness)

    assert harness.api.bound == {}
    assert harness.api.writes == []


async def test_the_last_place_of_a_claim_goes_to_one_root_and_to_the_next_if_that_gives_it_up() -> (
    None
):
    """The second is not decided against a status that does not name the first yet."""
    harness = cluster(1)
    harness.claim("common")
    harness.foreign("common", "n0", "d0", *(f"p{at}" for at in range(255)))
    harness.pod("first", own=0, shared=["common"])
    harness.pod("second", own=0, shared=["common"])
    told: list[str] = []

    def delete_the_first(_name: str, _subresource: str | None) -> None:
        if not told:
            told.extend(harness.builder.state.pods[uid].node for uid in ("uid-first", "uid-second"))
            harness.delete_pod("first")
            raise Conflict(409, "Conflict", "the object has been modified")

    harness.api.before_write = delete_the_first
    await run(harness)

    assert told == ["n0", ""]
    assert harness.api.bound == {"second": "n0"}
    assert len(harness.consumers("common")) == 256


async def test_devices_with_binding_conditions_are_waited_for() -> None:
    harness = cluster()
    harness.builder.node("n0")
    device = {"name": "d0", "bindsToNode": True, "bindingConditions": ["ready"]}
    harness.devices("n0", [{**device, "bindingFailureConditions": ["broken"]}])
    harness.pod("p")
    harness.claim("p-0", owner="p")

    async with harness.leading():
        await harness.settle(200)
        (result,) = harness.api.claims["p-0"]["status"]["allocation"]["devices"]["results"]
        assert result["bindingConditions"] == ["ready"]
        assert harness.api.bound == {}
        claim = harness.api.claims["p-0"]
        condition = {"type": "ready", "status": "True"}
        said = {"driver": "gpu.example.com", "pool": "n0", "device": "d0"}
        claim["status"]["devices"] = [{**said, "conditions": [condition]}]
        harness.api.store(claim)
        await harness.settle(2)

    assert harness.api.bound == {"p": "n0"}


async def test_a_claim_that_no_patch_can_change_is_said_with_the_way_out() -> None:
    """Its parameters contain blanks, which the API server drops before it compares them."""
    harness = cluster(1)
    harness.observe(harness.builder.gang("g", 1))
    harness.pod("p", "g")
    harness.claim("p-0", owner="p")

    def refuse(name: str, subresource: str | None) -> None:
        if subresource is None:
            message = (
                f'ResourceClaim "{name}" is invalid: spec: Invalid value: x: field is immutable'
            )
            raise Invalid(422, "Invalid", message)

    harness.api.before_write = refuse
    await run(harness, unsettled="it is tried again")

    key = ("PodGroup", "ns", "g")
    assert "resourceclaim p-0 cannot be patched" in harness.summary(key)
    assert "create it, or its template, again" in harness.summary(key)
    assert harness.held() == {}


async def test_who_lacks_devices_hears_which_changes_it_waits_for() -> None:
    harness = cluster(1)
    harness.observe(harness.builder.gang("g", 1))
    harness.pod("p", "g")
    harness.claim("p-0", owner="p", count=2)

    await run(harness)

    status = harness.observed["PodGroup", "ns", "g"].status or {}
    waits_for = status["blocker"]["retryOn"]
    assert "a change of its ResourceClaims, or of devices or their classes" in waits_for
