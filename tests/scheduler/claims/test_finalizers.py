"""The finalizer of a pod's own claim is the only write before the pod is decided."""

import asyncio

import pytest

from kube.base.errors import Conflict, Invalid, ServerError
from kube.client.resources import RESOURCE_CLAIMS
from scheduler.claims.claim_finalizers import FINALIZERS
from tests.scheduler.claims.claims_harness import ClaimsHarness
from tests.support.memory_api import Request

FINALIZER = "resource.kubernetes.io/delete-protection"


def cluster(devices: int = 1) -> ClaimsHarness:
    harness = ClaimsHarness()
    harness.device_class()
    harness.builder.node("n0", cpu=8)
    harness.devices("n0", devices)
    return harness


def named(harness: ClaimsHarness, name: str) -> None:
    """Name the claim in the pod's status, as kube-controller-manager does."""
    pod = harness.api.pods[name]
    statuses = [{"name": "own0", "resourceClaimName": f"{name}-0"}]
    status = {"phase": "Pending", "resourceClaimStatuses": statuses}
    harness.pod_event({**pod, "status": status})


async def test_a_claim_that_comes_gets_its_finalizer_before_its_pod_names_it() -> None:
    harness = cluster()
    async with harness.leading():
        await harness.settle()
        harness.pod("p", named=False)
        harness.claim("p-0", owner="p")
        await harness.settle()
        before = list(harness.api.log)
        named(harness, "p")
        await harness.settle(1)

    assert before == ["metadata p-0"]
    assert harness.api.log == ["metadata p-0", "status p-0", "bind p"]
    assert harness.api.claims["p-0"]["metadata"]["finalizers"] == [FINALIZER]


@pytest.mark.parametrize(
    "what", ["no owner", "another scheduler's", "allocated", "going", "has it"]
)
async def test_other_claims_are_left_alone(what: str) -> None:
    harness = cluster()
    async with harness.leading():
        await harness.settle()
        scheduler = "another" if what == "another scheduler's" else "muster-scheduler"
        harness.pod("p", named=False, schedulerName=scheduler)
        harness.api.hold_events(RESOURCE_CLAIMS)
        claim = harness.claim("p-0", owner="" if what == "no owner" else "p")
        if what == "going":
            claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            claim["metadata"]["finalizers"] = ["example.dev/theirs"]
        if what == "has it":
            claim["metadata"]["finalizers"] = [FINALIZER]
        if what == "allocated":
            harness.foreign("p-0", "n0", "d0", "p")
        else:
            harness.api.store(claim)
        del harness.api.held_events[0]  # the previous version
        harness.api.release_events()
        await harness.settle()
        written = list(harness.api.writes)

    assert written == []


async def test_who_does_not_lead_writes_none() -> None:
    harness = cluster()
    harness.pod("p", named=False)
    harness.claim("p-0", owner="p")
    assert harness.api.writes == []

    async with harness.leading():
        await harness.settle()
        assert harness.api.writes == []
        named(harness, "p")
        await harness.settle(1)

    assert harness.api.log == ["metadata p-0", "status p-0", "bind p"]


@pytest.mark.parametrize(
    "error",
    [
        Conflict(409, "Conflict", "the object has been modified"),
        Invalid(422, "Invalid", "test failed"),
        ServerError(500, "InternalError", "no"),
        ValueError("what nobody expects"),
    ],
)
async def test_what_fails_is_written_when_the_claim_is_allocated(error: Exception) -> None:
    harness = cluster()
    errors = [error]

    def fail(_name: str, _subresource: str | None) -> None:
        if errors:
            raise errors.pop()

    harness.api.before_write = fail
    async with harness.leading():
        await harness.settle()
        harness.pod("p", named=False)
        harness.claim("p-0", owner="p")
        await harness.settle()
        assert (errors, harness.api.writes) == ([], [])
        named(harness, "p")
        await harness.settle(1)

    assert harness.api.log == ["metadata p-0", "status p-0", "bind p"]


async def test_claims_of_one_namespace_that_hang_keep_no_other_from_getting_theirs() -> None:
    harness = cluster()
    hanging = asyncio.Event()

    async def slow(request: Request) -> None:
        if request.name.startswith("many"):
            hanging.set()
            await asyncio.Event().wait()

    harness.api.on(slow, "patch", of=RESOURCE_CLAIMS)
    async with harness.leading(unsettled="some writes are never answered"):
        await harness.settle()
        for at in range(4 * FINALIZERS):
            harness.pod(f"many{at}", named=False, namespace="theirs")
            harness.claim(f"many{at}-0", owner=f"many{at}", namespace="theirs")
        await hanging.wait()
        harness.pod("p", named=False)
        harness.claim("p-0", owner="p")
        await harness.settle()
        written = list(harness.api.writes)

    assert written == [("p-0", None)]
