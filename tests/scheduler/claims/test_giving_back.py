"""Devices of unbound pods are deallocated, whichever scheduler allocated them."""

from itertools import pairwise

from kube.base.errors import KubeError, ServerError, TooManyRequests
from kube.client.resources import RESOURCE_CLAIMS
from scheduler.claims.claim_releases import IN_VAIN
from scheduler.decoding.device_objects import Consumer
from tests.scheduler.claims.claims_harness import ClaimsHarness
from tests.scheduler.claims.test_allocations import cluster, run


async def take_over(harness: ClaimsHarness, seconds: float = 5) -> None:
    """Take over the lease from another process."""
    harness.binder.reset()
    await harness.binder.recover(harness.fence)
    harness.builder.state.reconsider_all()
    await run(harness, seconds)


def written(harness: ClaimsHarness, name: str, pool: str, device: str, *consumers: str) -> None:
    """Write an allocation as an earlier leader does, with its node."""
    harness.foreign(name, pool, device, *consumers)
    claim = harness.api.claims[name]
    fields = [{"key": "metadata.name", "operator": "In", "values": [pool]}]
    terms = [{"matchFields": fields}]
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    harness.api.store(claim)


async def test_a_waiting_pod_goes_where_its_claim_was_allocated() -> None:
    harness = cluster(1, 1, 1)
    harness.pod("p")
    harness.claim("p-0", owner="p")
    written(harness, "p-0", "n2", "d0", "p")

    await take_over(harness)

    assert harness.api.bound == {"p": "n2"}
    assert harness.api.writes == []


async def test_a_root_that_cannot_be_placed_with_what_it_has_gives_it_back() -> None:
    harness = cluster(1, 2)
    names = harness.gang("g", 2)
    written(harness, "g-0-0", "n0", "d0", "g-0")
    harness.builder.state.remove_node("n0")

    await take_over(harness, seconds=10)

    assert harness.api.bound == dict.fromkeys(names, "n1")
    assert sorted(each for found in harness.held().values() for each in found) == ["n1/d0", "n1/d1"]


async def test_pods_that_may_not_be_decided_give_back_what_they_have() -> None:
    harness = cluster(2)
    harness.observe(harness.builder.gang("g", 2))
    harness.pod("g-0", "g")
    harness.claim("g-0-0", owner="g-0")
    written(harness, "g-0-0", "n0", "d0", "g-0")
    harness.binder.reset()

    async with harness.leading():
        await harness.settle(IN_VAIN / 2)
        assert list(harness.held()) == ["g-0-0"]
        await harness.settle(IN_VAIN)
        assert harness.held() == {}
        # The other member arrives late.
        harness.pod("g-1", "g")
        harness.claim("g-1-0", owner="g-1")
        await harness.settle(2)

    assert set(harness.api.bound) == {"g-0", "g-1"}


async def test_only_the_own_entry_goes_where_others_use_the_claim() -> None:
    harness = cluster(1)
    harness.claim("common")
    written(harness, "common", "n0", "d0", "running", "waiting")
    harness.pod("running", own=0, shared=["common"], nodeName="n0")
    harness.pod("waiting", own=0, shared=["common"], nodeSelector={"none": "such"})

    await take_over(harness)

    assert harness.consumers("common") == ["running"]
    assert list(harness.held()) == ["common"]


async def test_what_a_group_of_native_kubernetes_holds_stays() -> None:
    harness = cluster(1)
    harness.claim("common")
    written(harness, "common", "n0", "d0", "waiting")
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}
    with harness.api.edit(RESOURCE_CLAIMS, "common", "ns") as common:
        common["status"]["reservedFor"].append(consumer)
    harness.pod("waiting", own=0, shared=["common"], nodeSelector={"none": "such"})

    await take_over(harness)

    assert harness.api.claims["common"]["status"]["reservedFor"] == [consumer]


async def test_giving_back_is_tried_again() -> None:
    harness = cluster(1)
    harness.claim("p-0", owner="p")
    harness.pod("p", nodeSelector={"none": "such"})
    written(harness, "p-0", "n0", "d0", "p")
    trouble: list[KubeError] = [ServerError(500, "InternalError", "etcd")] * 3

    def fail(_name: str, _sub: str | None) -> None:
        if trouble:
            raise trouble.pop()

    harness.api.before_write = fail
    await take_over(harness, seconds=60)

    assert harness.held() == {}


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    harness = cluster(1)
    harness.claim("p-0", owner="p")
    harness.pod("p", nodeSelector={"none": "such"})
    written(harness, "p-0", "n0", "d0", "p")
    busy = TooManyRequests(429, "TooManyRequests", "too busy", retry_after=40.0)
    times: list[float] = []

    def fail(_name: str, _sub: str | None) -> None:
        times.append(harness.clock.monotonic())
        if len(times) < 3:
            raise busy

    harness.api.before_write = fail
    await take_over(harness, seconds=120)

    assert all(after - before >= 40 for before, after in pairwise(times[:3]))
    assert harness.held() == {}


async def test_a_freed_device_wakes_who_waits_for_it() -> None:
    harness = cluster(1)
    harness.claim("theirs")
    harness.foreign("theirs", "n0", "d0", "somebody")
    harness.pod("p")
    harness.claim("p-0", owner="p")
    async with harness.leading():
        await harness.settle(2)
        assert harness.api.bound == {}
        claim = harness.api.claims["theirs"]
        claim["status"] = {}
        harness.api.store(claim)
        await harness.settle(2)
        assert harness.api.bound == {"p": "n0"}


async def test_forged_consumers_are_of_no_use() -> None:
    """A tenant with write access to claim statuses can name any pod, but blocks only itself."""
    harness = cluster(1, 1)
    harness.pod("p")
    harness.claim("p-0", owner="p")
    forged = harness.claim("forged")
    forged["metadata"]["namespace"] = "evil"
    forged["status"] = {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "gpu", "driver": "x", "pool": "n0", "device": "d0"},
                ]
            }
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}] * 256,
    }
    harness.api.store(forged)

    await take_over(harness)

    assert harness.api.bound == {"p": "n0"}
    assert ("forged", "status") not in harness.api.writes


async def test_the_claim_of_another_namespace_is_not_given_back_for_a_pod_it_names() -> None:
    """A tenant that may write the status of its claim may name any UID there."""
    harness = cluster(1)
    harness.pod("p")
    (uid,) = (pod.info.uid for pod in harness.builder.state.pods.values())
    assert harness.claim_releases is not None

    consumer = Consumer("", "pods", "p", uid)
    assert harness.claim_releases._waits_with(consumer, ("ns", "claim"))
    assert not harness.claim_releases._waits_with(consumer, ("another", "claim"))
