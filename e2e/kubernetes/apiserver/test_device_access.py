"""Claims and slices: permissions to allocate and report, selectors and lists."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.harness.controlplane.places import before
from e2e.harness.devices import SINCE
from e2e.harness.support.rest import Answer, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.accounts import Account, rule
from e2e.kubernetes.apiserver.devices.builders import ALLOCATED, DRIVER, GROUP, POOL, Object
from e2e.kubernetes.apiserver.devices.flows import Claims
from e2e.kubernetes.apiserver.objects import Namespace

RESOURCES = GROUP.partition("/")[0]
SLICES = f"/apis/{GROUP}/resourceslices"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DEVICE = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}


pytestmark = pytest.mark.since(*SINCE)
# DRAResourceClaimGranularStatusAuthorization
RIGHTS = ("1.36", "API servers ask for a right of its own since 1.36")


@pytest.fixture
async def claims(rest: Rest, ns: Namespace) -> Claims:
    made = Claims(rest, ns)
    await made.create("c")
    return made


@pytest.fixture
async def reporter(account: Account) -> Account:
    """An account that may write the status of claims."""
    await account.may(rule(RESOURCES, "resourceclaims/status", "patch", "update"))
    await account.may(rule(RESOURCES, "resourceclaims", "get"))
    path = account.ns.path(GROUP, "resourceclaims", "absent")
    await eventually(lambda: account.allowed(path), "the account's rights")
    return account


async def _patch(account: Account, status: Object) -> Answer:
    path = account.ns.path(GROUP, "resourceclaims", "c")
    return await account.rest.patch(f"{path}/status", {"status": status})


def _causes(account: Account, answer: Answer) -> list[tuple[str, str]]:
    found = answer.expect(422)["details"]["causes"]
    return [(one["field"], one["message"].replace(account.user, "USER")) for one in found]


async def _until_allowed(account: Account, status: Object) -> None:
    async def allowed() -> bool:
        return (await _patch(account, status)).status == 200

    await eventually(allowed, "the right to be known")


@pytest.mark.since(*RIGHTS)
@pytest.mark.parametrize("verb", ["patch", "update"])
async def test_to_allocate_takes_a_right_of_its_own(
    claims: Claims, reporter: Account, verb: str
) -> None:
    # In the namespace it has no effect: devices are cluster-scoped.
    await reporter.may(rule(RESOURCES, "resourceclaims/binding", "patch", "update"))
    if verb == "patch":
        answer = await _patch(reporter, ALLOCATED)
    else:
        path = f"{claims.path('resourceclaims', 'c')}/status"
        body = {**await claims.read("c"), "status": ALLOCATED}
        answer = await reporter.rest.put(path, body)

    text = (
        "Forbidden: changing status.allocation or status.reservedFor requires "
        f'resource="resourceclaims/binding", verb="{verb}" permission: '
        f'resourceclaims.{RESOURCES} is forbidden: User "USER" cannot {verb} resource '
        f'"resourceclaims/binding" in API group "{RESOURCES}" at the cluster scope'
    )
    assert _causes(reporter, answer) == [("status.allocation", text)]


async def test_who_has_the_right_may_allocate(claims: Claims, reporter: Account) -> None:
    await reporter.may_everywhere(rule(RESOURCES, "resourceclaims/binding", "patch"))

    await _until_allowed(reporter, ALLOCATED)

    assert "allocation" in (await claims.read("c"))["status"]


@pytest.mark.since(*RIGHTS)
async def test_to_report_on_a_device_takes_the_right_for_its_driver(
    claims: Claims, reporter: Account
) -> None:
    await claims.allocate("c")

    answer = await _patch(reporter, {"devices": [DEVICE]})

    ((field, message),) = _causes(reporter, answer)
    assert field == "status.devices"
    assert message == (
        'Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        f'verb="[arbitrary-node:patch]" permission: resourceclaims.{RESOURCES} "{DRIVER}" is '
        'forbidden: User "USER" cannot arbitrary-node:patch resource "resourceclaims/driver" in '
        f'API group "{RESOURCES}" in the namespace "{reporter.ns.name}"'
    )
    of_driver = rule(RESOURCES, "resourceclaims/driver", "arbitrary-node:patch", names=(DRIVER,))
    await reporter.may(of_driver)
    await _until_allowed(reporter, {"devices": [DEVICE]})


async def test_what_is_not_changed_takes_no_right(claims: Claims, reporter: Account) -> None:
    await claims.allocate("c")

    (await _patch(reporter, (await claims.read("c"))["status"])).expect(200)


async def test_the_kinds_are_discovered(rest: Rest, since_1_37: bool) -> None:
    listed = (await rest.get(f"/apis/{GROUP}")).expect(200)

    found = {one["name"]: (one["kind"], one["namespaced"]) for one in listed["resources"]}
    if since_1_37:
        assert found.pop("devicetaintrules") == ("DeviceTaintRule", False)
        del found["devicetaintrules/status"]
    assert found == {
        "deviceclasses": ("DeviceClass", False),
        "resourceclaims": ("ResourceClaim", True),
        "resourceclaims/status": ("ResourceClaim", True),
        "resourceclaimtemplates": ("ResourceClaimTemplate", True),
        "resourceslices": ("ResourceSlice", False),
    }
    index = (await rest.get("/openapi/v3")).expect(200)
    path = index["paths"][f"apis/{GROUP}"]["serverRelativeURL"]
    schemas = (await rest.get(path)).expect(200)["components"]["schemas"]
    claim = schemas["io.k8s.api.resource.v1.ResourceClaim"]
    assert {"spec", "status"} <= claim["properties"].keys()


@pytest.fixture
async def slices(rest: Rest) -> AsyncIterator[tuple[str, str]]:
    """The names of two slices: of a node, and of all nodes and another driver."""
    prefix = secrets.token_hex(3)
    names = f"{prefix}-one", f"{prefix}-every"
    one: dict[str, Any] = {"driver": f"{prefix}.example.com", "nodeName": f"{prefix}-n"}
    every = {"driver": f"other.{prefix}.example.com", "allNodes": True}
    for name, spec in zip(names, (one, every), strict=True):
        body = {"metadata": {"name": name}, "spec": {**spec, "pool": POOL}}
        (await rest.post(SLICES, body)).expect(201)
    yield names
    for name in names:
        await rest.delete(f"{SLICES}/{name}")


async def test_slices_are_found_by_node_and_driver(rest: Rest, slices: tuple[str, str]) -> None:
    async def found(selector: str) -> list[str]:
        listed = (await rest.get(SLICES, params={"fieldSelector": selector})).expect(200)
        names = [item["metadata"]["name"] for item in listed["items"]]
        return [name for name in names if name in slices]

    prefix = slices[0].partition("-")[0]
    assert await found(f"spec.nodeName={prefix}-n") == [slices[0]]
    assert await found(f"spec.driver=other.{prefix}.example.com") == [slices[1]]
    assert await found("spec.nodeName=") == [slices[1]]
    # The pool can be selected since 1.37.
    field = "spec.pool.name" if before("1.37") else "spec.pool.generation"
    refused = await rest.get(SLICES, params={"fieldSelector": f"{field}=a"})
    text = f"field label not supported for {GROUP}, Kind=ResourceSlice: {field}"
    assert refused.expect(400)["message"].endswith(text)


async def test_a_watch_of_a_nodes_slices_sees_no_others(
    rest: Rest, slices: tuple[str, str]
) -> None:
    prefix = slices[0].partition("-")[0]
    listed = (await rest.get(SLICES)).expect(200)
    params = {
        "fieldSelector": f"spec.nodeName={prefix}-n",
        "resourceVersion": listed["metadata"]["resourceVersion"],
    }
    async with rest.watch(SLICES, params) as watch:
        for name in reversed(slices):
            patch = {"metadata": {"labels": {"seen": "yes"}}}
            (await rest.patch(f"{SLICES}/{name}", patch)).expect(200)

        event = await watch.next()

    assert (event["type"], event["object"]["metadata"]["name"]) == ("MODIFIED", slices[0])


async def test_what_is_printed_of_claims_and_slices(
    rest: Rest, claims: Claims, slices: tuple[str, str]
) -> None:
    prefix = slices[0].partition("-")[0]
    selector = {"fieldSelector": f"metadata.name={slices[0]}"}
    table = (await rest.get(SLICES, accept=TABLE, params=selector)).expect(200)
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Node", "Driver", "Pool", "Age"]
    cells = table["rows"][0]["cells"]
    assert cells[:4] == [slices[0], f"{prefix}-n", f"{prefix}.example.com", "node-1"]

    async def printed() -> str:
        path = claims.path("resourceclaims", "c")
        row = (await rest.get(path, accept=TABLE)).expect(200)["rows"][0]
        return str(row["cells"][1])

    assert await printed() == "pending"
    await claims.allocate("c")
    assert await printed() == "allocated"
    await claims.allocate("c", await claims.pod("p", one={"resourceClaimName": "c"}))
    assert await printed() == "allocated,reserved"
    await claims.protect("c")
    await claims.delete("c")
    assert await printed() == "deleted,allocated,reserved"
