"""Claims for extended resources that devices provide: created, recorded on pods, deleted."""

import copy
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs

from kube.base.errors import Forbidden, Invalid, ServerError
from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import NodeInfo
from scheduler.decoding.extended_resources import claim_key
from tests.scheduler.claims.claims_harness import ClaimsHarness
from tests.scheduler.claims.test_killed import MortalHarness, lead, successor

GPU = "example.com/gpu"
FINALIZER = "resource.kubernetes.io/delete-protection"


def cluster(*devices: int, harness: ClaimsHarness | None = None) -> ClaimsHarness:
    """Create nodes n0, n1, ... with that many devices each, of a class that provides GPU."""
    made = harness or ClaimsHarness()
    made.device_class(resource=GPU)
    for index, count in enumerate(devices):
        made.builder.node(f"n{index}", cpu=8)
        made.devices(f"n{index}", count)
    return made


def pod(harness: ClaimsHarness, name: str, group: str = "", *, count: int = 1, **more: Any) -> str:
    """Create a pod whose container requests that many; return the name of its claim."""
    requests = {"cpu": "1", GPU: str(count)}
    container = {"name": "main", "resources": {"requests": requests, "limits": requests}}
    harness.pod(name, group, own=0, containers=[container], **more)
    return claim_key(waiting(harness, name).info)[1]


def waiting(harness: ClaimsHarness, name: str) -> Pod:
    return harness.builder.state.pods[f"uid-{name}"]


def offers(harness: ClaimsHarness, node: str, count: int) -> None:
    """Let the node's device plugin offer the resource itself."""
    allocatable = {"cpu": 8000, "memory": 1 << 36, "pods": 110, GPU: count}
    harness.builder.state.set_node(NodeInfo(node, allocatable))


def said(harness: ClaimsHarness, name: str) -> Any:
    return harness.api.pods[name]["status"].get("extendedResourceClaimStatus")


async def run(harness: ClaimsHarness, seconds: float = 5, *, unsettled: str = "") -> None:
    async with harness.leading(unsettled=unsettled):
        await harness.settle(seconds)


async def test_the_claim_is_made_allocated_and_told_before_its_pod_is_bound() -> None:
    harness = cluster(2)
    name = pod(harness, "p", count=2)

    await run(harness)

    assert harness.api.log == [f"create {name}", f"status {name}", "tell p", "bind p"]
    claim = harness.api.claims[name]
    assert claim["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    ]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    request = {"name": "container-0-request-1", "exactly": exactly}
    assert claim["spec"] == {"devices": {"requests": [request]}}
    assert harness.held() == {name: ["n0/d0", "n0/d1"]}
    assert harness.consumers(name) == ["p"]
    assert said(harness, "p") == {
        "resourceClaimName": name,
        "requestMappings": [
            {
                "containerName": "main",
                "resourceName": GPU,
                "requestName": "container-0-request-1",
            }
        ],
    }


async def test_a_pod_on_a_node_that_offers_the_resource_has_no_claim() -> None:
    harness = cluster(4)
    offers(harness, "n0", 1)
    pod(harness, "p")

    await run(harness)

    assert harness.api.log == ["bind p"]
    assert harness.api.claims == {}
    assert len(harness.builder.state.devices.use) == 0


async def test_none_of_a_gang_is_bound_before_all_of_its_claims_stand() -> None:
    harness = cluster(1, 1)
    harness.builder.node("native")
    offers(harness, "native", 1)
    harness.observe(harness.builder.gang("g", 3))
    names = {f"p{at}": pod(harness, f"p{at}", "g") for at in range(3)}

    await run(harness)

    first = next(at for at, line in enumerate(harness.api.log) if line.startswith("bind"))
    steps = Counter(line.split()[0] for line in harness.api.log[:first])
    assert (steps["create"], steps["status"], steps["tell"]) == (2, 2, 2)
    assert [line.split()[0] for line in harness.api.log[first - 2 : first]] == ["tell", "tell"]
    held = harness.held()
    for name, node in harness.api.bound.items():
        assert held.get(names[name]) == (None if node == "native" else [f"{node}/d0"])


async def test_a_gang_that_lacks_a_device_writes_nothing() -> None:
    harness = cluster(1, 1)
    harness.observe(harness.builder.gang("g", 3))
    for at in range(3):
        pod(harness, f"p{at}", "g")

    await run(harness)
    assert harness.api.log == []
    harness.builder.node("n2")
    harness.devices("n2", 1)
    await run(harness)

    assert len(harness.api.bound) == len(harness.held()) == 3


@pytest.mark.parametrize("step", ["create", "status", "tell"])
async def test_a_write_that_fails_for_a_while_is_repeated(step: str) -> None:
    harness = cluster(1)
    name = pod(harness, "p")
    left = [3]

    def fail(_name: str, now: str | None) -> None:
        if now == step and left[0]:
            left[0] -= 1
            raise ServerError(500, "InternalError", "not now")

    harness.api.before_write = fail
    await run(harness)

    assert harness.api.bound == {"p": "n0"}
    assert harness.held() == {name: ["n0/d0"]}


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("create", Forbidden(403, "Forbidden", "exceeded quota: claims")),
        ("create", Invalid(422, "Invalid", "spec.devices")),
        ("tell", Forbidden(403, "Forbidden", "no")),
    ],
)
async def test_what_was_made_for_a_pod_that_is_not_bound_is_deleted(
    step: str, error: Exception
) -> None:
    harness = cluster(1)
    name = pod(harness, "p")

    def fail(_name: str, now: str | None) -> None:
        if now == step:
            raise error

    harness.api.before_write = fail
    with capture_logs() as logs:
        await run(harness, 20, unsettled="it is refused for ever")
    assert harness.api.bound == {}
    assert {each["error"] for each in logs if "error" in each} == {str(error)}

    harness.api.before_write = lambda _name, _step: None
    await harness.new_term()
    await run(harness, 120)
    assert harness.api.bound == {"p": "n0"}
    assert harness.held() == {name: ["n0/d0"]}


async def test_an_api_server_that_does_not_keep_the_status_gets_no_pod_bound() -> None:
    harness = cluster(1)
    harness.extends = False
    pod(harness, "p")

    with capture_logs() as logs:
        await run(harness, 3, unsettled="it is refused for ever")

    assert harness.api.bound == {}
    problems = {each["error"] for each in logs if "error" in each}
    assert [text for text in problems if "feature gate DRAExtendedResource is off" in text]


async def test_a_pod_whose_devices_went_to_another_gets_others() -> None:
    harness = cluster(1, 1)
    harness.builder.state.remove_node("n1")
    name = pod(harness, "p")
    harness.claim("theirs")
    node = {"cpu": 8000, "memory": 1 << 36, "pods": 110}
    fired: list[str] = []

    def steal(_name: str, step: str | None) -> None:
        if step == "create" and not fired:
            fired.append(step)
            harness.foreign("theirs", "n0", "d0", "other")
            harness.builder.state.set_node(NodeInfo("n1", node))

    harness.api.before_write = steal
    await run(harness, 60)

    assert harness.api.bound == {"p": "n1"}
    assert harness.held() == {"theirs": ["n0/d0"], name: ["n1/d0"]}
    assert f"delete {name}" in harness.api.log


async def test_a_pod_that_goes_where_the_resource_is_offered_is_told_of_no_claim() -> None:
    """Otherwise the kubelet would wait for a deleted claim."""
    harness = cluster(1)
    offers(harness, "n0", 1)
    name = pod(harness, "p")
    stale = harness.api.pods["p"]
    stale["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": name,
        "requestMappings": [],
    }
    harness.pod_event(stale)

    await run(harness)

    assert harness.api.log == ["tell p", "bind p"]
    assert said(harness, "p") is None


async def test_the_requests_of_an_earlier_claim_of_the_same_name_are_replaced() -> None:
    """It served a node that lacks other resources; the kubelet would look for its requests."""
    harness = cluster(1)
    name = pod(harness, "p")
    stale = harness.api.pods["p"]
    old = {"containerName": "c", "resourceName": "example.com/other", "requestName": "other"}
    stale["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": name,
        "requestMappings": [old],
    }
    harness.pod_event(stale)

    await run(harness)

    told = said(harness, "p")
    assert harness.api.bound == {"p": "n0"}
    assert (told["resourceClaimName"], len(told["requestMappings"])) == (name, 1)
    assert old not in told["requestMappings"]


async def test_a_pod_that_names_a_claim_for_good_is_not_bound_without_it() -> None:
    """Since 1.37 the name cannot be removed, and the kubelet would wait for the claim."""
    harness = cluster(1)
    harness.keeps = True
    offers(harness, "n0", 1)
    name = pod(harness, "p")
    stale = harness.api.pods["p"]
    mappings = {"resourceClaimName": name, "requestMappings": []}
    stale["status"]["extendedResourceClaimStatus"] = mappings
    harness.pod_event(stale)

    with capture_logs() as logs:
        await run(harness, 3, unsettled="it is refused until it is recreated")

    assert harness.api.bound == {}
    problems = {each["error"] for each in logs if "error" in each}
    assert [text for text in problems if text.endswith("(Kubernetes 1.37): recreate the pod")]


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_pod_names_no_claim_before_all_claims_of_its_gang_are_ready(*, keeps: bool) -> None:
    """What is lost before leaves nothing on the pods."""
    harness = cluster(1, 1)
    harness.keeps = keeps
    harness.observe(harness.builder.gang("g", 2))
    for name in ("a", "b"):
        pod(harness, name, "g")
    left = [1]

    def fail(_name: str, now: str | None) -> None:
        if now == "status" and left[0]:
            left[0] -= 1
            raise Forbidden(403, "Forbidden", "no")

    harness.api.before_write = fail
    async with harness.leading(unsettled="it is about to be tried again"):
        await harness.settle(0.5)
    assert (harness.api.bound, said(harness, "a"), said(harness, "b")) == ({}, None, None)
    await run(harness, 120)

    assert len(harness.api.bound) == 2


async def test_a_claim_of_that_name_that_is_not_the_pods_keeps_it_waiting() -> None:
    harness = cluster(2)
    name = pod(harness, "p")
    harness.claim(name, owner="other")

    await run(harness)
    assert harness.api.log == []
    assert "Pod is not owner" in waiting(harness, "p").info.unclaimed

    harness.api.drop_claim(name)
    await run(harness)
    assert harness.api.bound == {"p": "n0"}


async def test_a_claim_that_goes_while_it_is_written_is_made_anew() -> None:
    harness = cluster(1)
    name = pod(harness, "p")
    gone: list[str] = []

    def remove(_name: str, step: str | None) -> None:
        if step == "status" and not gone:
            gone.append(name)
            harness.api.drop_claim(name)

    harness.api.before_write = remove
    await run(harness, 60)

    assert harness.api.bound == {"p": "n0"}
    assert harness.held() == {name: ["n0/d0"]}


async def test_a_class_that_comes_later_wakes_the_pods_that_request_its_resource() -> None:
    harness = ClaimsHarness()
    harness.builder.node("n0")
    harness.devices("n0", 1)
    harness.device_class()
    pod(harness, "p")
    await run(harness)
    assert harness.api.bound == {}

    harness.device_class(resource=GPU)
    await run(harness)

    assert harness.api.bound == {"p": "n0"}


@pytest.mark.parametrize("served", [False, True])
async def test_where_claims_are_not_placed_the_pod_is_refused(*, served: bool) -> None:
    refused = "resourceClaims (the feature gate DeviceClaims is off)" if served else ""
    harness = cluster(1, harness=ClaimsHarness(claims_refused=refused, serves_claims=served))
    pod(harness, "p")

    await run(harness)

    assert harness.api.bound == {}
    (text,) = waiting(harness, "p").info.requirements.unsupported
    assert text.startswith(f"{GPU} by resourceClaims (")


async def test_claims_of_pods_that_wait_or_run_are_not_taken_for_left_over() -> None:
    """They are users' own claims, whatever their names and owners."""
    harness = cluster(0)
    name = pod(harness, "p")
    harness.claim(f"{name}x", owner="p")
    harness.claim("p-extended-resources-00000000", owner="p")

    await run(harness, 60)

    assert not [line for line in harness.api.log if line.startswith("delete")]


# Another leader


async def test_who_does_not_lead_notes_nothing_of_what_the_leader_writes() -> None:
    """It would keep that for as long as it is a standby."""
    leader, standby = cluster(1), cluster(1)
    name = pod(leader, "p")
    pod(standby, "p")
    await run(leader)
    allocated = leader.api.claims[name]

    for claim in ({**allocated, "status": {}}, allocated):
        standby.api.store(copy.deepcopy(claim))

    releases = standby.binder._claim_releases
    assert releases is not None
    assert (len(releases._offered), len(releases._idle)) == (0, 0)


STEPS = 14
"""More writes than the binding of a gang of three needs."""


def mortal() -> MortalHarness:
    harness = MortalHarness()
    cluster(1, 1, 1, harness=harness)
    harness.observe(harness.builder.gang("g", 3))
    return harness


async def killed(after: int, *, carries_out_the_last: bool) -> MortalHarness:
    harness = mortal()
    for at in range(3):
        pod(harness, f"p{at}", "g")
    harness.api.left = after
    harness.api.carries_out_the_last = carries_out_the_last
    async with harness.leading(unsettled="it dies"):
        await harness.settle(3)
    return harness


@pytest.mark.parametrize("carries_out_the_last", [False, True])
@pytest.mark.parametrize("after", range(1, STEPS))
async def test_the_next_leader_completes_the_gang(after: int, carries_out_the_last: bool) -> None:
    dead = await killed(after, carries_out_the_last=carries_out_the_last)
    harness = successor(dead, mortal)

    await lead(harness, 60)

    assert sorted(harness.api.bound) == ["p0", "p1", "p2"]
    held = harness.held()
    assert held.keys() == harness.api.claims.keys()
    for name, node in harness.api.bound.items():
        claim = said(harness, name)["resourceClaimName"]
        assert held[claim] == [f"{node}/d0"]
        assert harness.consumers(claim) == [name]
    assert harness.api.reservations == {}


@pytest.mark.parametrize("after", range(1, 9))
async def test_what_was_made_for_a_gang_that_is_gone_is_deleted(after: int) -> None:
    dead = await killed(after, carries_out_the_last=True)
    assert dead.api.bound == {}
    harness = successor(dead, mortal)
    # A member was deleted meanwhile: the others may not be decided any more.
    own = claim_key(waiting(harness, "p2").info)[1]
    harness.delete_pod("p2")

    await lead(harness, 60)

    assert harness.api.bound == {}
    assert [name for name in harness.api.claims if name != own] == []
