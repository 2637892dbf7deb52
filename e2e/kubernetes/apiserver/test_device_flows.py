"""The resource claim controller: claims created for pods, reserved for them, and released."""

import pytest

from e2e.harness.devices import SINCE
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.devices.flows import ENTRY_ANNOTATION, Claims
from e2e.kubernetes.apiserver.objects import Namespace

OWN = {"resourceClaimTemplateName": "gpu"}
SHARED = {"resourceClaimName": "shared"}
FREE = {"consumers": [], "allocated": False, "protected": False}


pytestmark = pytest.mark.since(*SINCE)


@pytest.fixture
def claims(rest: Rest, ns: Namespace) -> Claims:
    return Claims(rest, ns)


@pytest.mark.since("1.36", "before, claims also block the deletion of their pods")
async def test_a_claim_is_made_for_each_pod_and_template(claims: Claims) -> None:
    await claims.template("gpu", labels={"a": "b"}, annotations={"x": "y"})
    pod = await claims.pod("p", one=OWN, two=OWN)

    made = await claims.made_for("p")

    assert made.keys() == {"one", "two"}
    claim = await claims.read(made["one"])
    meta = claim["metadata"]
    assert meta["name"].startswith("p-one-")
    assert len(meta["name"]) == len("p-one-") + 5
    assert meta["generateName"] == "p-one-"
    assert meta["labels"] == {"a": "b"}
    assert meta["annotations"] == {"x": "y", ENTRY_ANNOTATION: "one"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
    assert meta["ownerReferences"] == [{**owner, "controller": True}]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert (await claims.read(made["two"]))["metadata"]["annotations"][ENTRY_ANNOTATION] == "two"


async def test_long_names_are_cut_in_the_claims(claims: Claims) -> None:
    await claims.template("gpu")
    await claims.pod("p" * 60, **{"e" * 50: OWN})

    made = await claims.made_for("p" * 60)

    base = (await claims.read(made["e" * 50]))["metadata"]["generateName"]
    assert base == "p" * 30 + "-" + "e" * 25


async def test_a_pod_waits_for_its_template(claims: Claims) -> None:
    await claims.pod("p", one=OWN)

    async def told() -> bool:
        return bool(await claims.events("FailedResourceClaimCreation"))

    await eventually(told, "the event about the template")
    assert set(await claims.events("FailedResourceClaimCreation")) == {
        (
            'PodResourceClaim one: resource claim template "gpu": '
            'resourceclaimtemplate.resource.k8s.io "gpu" not found'
        )
    }

    await claims.template("gpu")
    assert (await claims.made_for("p")).keys() == {"one"}


async def test_a_claim_that_was_deleted_is_not_made_anew(claims: Claims) -> None:
    await claims.template("gpu")
    await claims.pod("p", one=OWN)
    first = (await claims.made_for("p"))["one"]

    await claims.delete(first)

    await claims.gone(first)
    await claims.pod("q", one=OWN)
    await claims.made_for("q")
    assert await claims.made_for("p") == {"one": first}
    assert (await claims.rest.get(claims.path("resourceclaims", first))).status == 404


async def test_a_claim_by_name_is_not_made(claims: Claims, node: str) -> None:
    await claims.pod("p", one=SHARED)
    await claims.bind("p", node)

    assert "resourceClaimStatuses" not in (await claims.read_pod("p"))["status"]
    assert (await claims.rest.get(claims.path("resourceclaims", "shared"))).status == 404


async def test_a_pod_that_ends_gives_its_own_claim_back(claims: Claims, node: str) -> None:
    await claims.template("gpu")
    pod = await claims.pod("p", one=OWN)
    name = (await claims.made_for("p"))["one"]
    await claims.protect(name)
    await claims.allocate(name, pod)
    await claims.run("p", node)

    await claims.end("p")

    await claims.gone(name)


async def test_a_shared_claim_is_free_when_the_last_pod_ends(claims: Claims, node: str) -> None:
    await claims.create("shared")
    pods = [await claims.pod(name, one=SHARED) for name in ("a", "b", "c")]
    await claims.protect("shared")
    await claims.allocate("shared", *pods)
    for name in ("a", "b"):
        await claims.run(name, node)

    await claims.end("a", "Failed")
    await claims.until("shared", consumers=["b", "c"], allocated=True, protected=True)
    await claims.delete_pod("c")
    await claims.until("shared", consumers=["b"], allocated=True, protected=True)
    await claims.delete_pod("b")
    await claims.until("shared", **FREE)


async def test_without_the_finalizer_devices_stay(claims: Claims, node: str) -> None:
    await claims.create("shared")
    pod = await claims.pod("a", one=SHARED)
    await claims.allocate("shared", pod)
    await claims.run("a", node)

    await claims.end("a")

    await claims.until("shared", consumers=[], allocated=True, protected=False)


async def test_what_a_scheduler_released_stays_allocated(claims: Claims) -> None:
    await claims.create("shared")
    await claims.protect("shared")
    pod = await claims.pod("a", one=SHARED)
    await claims.allocate("shared", pod)

    await claims.allocate("shared")
    await claims.delete_pod("a")

    await claims.until("shared", consumers=[], allocated=True, protected=True)


async def test_a_bound_pod_is_reserved_an_allocated_claim(claims: Claims, node: str) -> None:
    await claims.create("shared")
    await claims.pod("a", one=SHARED)
    await claims.bind("a", node)
    assert (await claims.read("shared")).get("status", {}) == {}

    await claims.allocate("shared")

    await claims.until("shared", consumers=["a"], allocated=True)


async def test_a_claim_in_use_goes_when_its_pod_does(claims: Claims, node: str) -> None:
    await claims.create("shared")
    await claims.protect("shared")
    pod = await claims.pod("a", one=SHARED)
    await claims.allocate("shared", pod)
    await claims.run("a", node)
    await claims.delete("shared")
    assert "deletionTimestamp" in (await claims.read("shared"))["metadata"]

    await claims.end("a")

    await claims.gone("shared")


async def test_a_claim_that_nobody_uses_goes_with_its_devices(claims: Claims) -> None:
    await claims.create("shared")
    await claims.protect("shared")
    await claims.allocate("shared")

    await claims.delete("shared")

    await claims.gone("shared")


async def test_a_consumer_that_is_no_pod_of_that_uid_is_taken_out(claims: Claims) -> None:
    await claims.create("shared")
    await claims.protect("shared")
    pod = await claims.pod("a", one=SHARED)
    other = {"metadata": {**pod["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}

    await claims.allocate("shared", pod, other)
    await claims.until("shared", consumers=["a"], allocated=True)


@pytest.mark.parametrize("allocated", [True, False])
async def test_the_claims_of_a_pod_that_was_never_bound_go_with_it(
    claims: Claims, *, allocated: bool
) -> None:
    await claims.template("gpu")
    pod = await claims.pod("p", one=OWN)
    name = (await claims.made_for("p"))["one"]
    await claims.protect(name)
    if allocated:
        await claims.allocate(name, pod)

    await claims.delete_pod("p")

    await claims.gone(name)
