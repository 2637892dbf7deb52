"""The statuses of pods about the claim that provides their extended resources."""

from typing import Any

import pytest

from e2e.harness.support.rest import JSON_PATCH, Answer, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.devices.builders import CLAIM_SPEC
from e2e.kubernetes.apiserver.devices.flows import Claims
from e2e.kubernetes.apiserver.objects import Namespace, pod

pytestmark = pytest.mark.since("1.36", "devices stand for extended resources from 1.36 on")

GPU = "example.com/gpu"
PATH = "/status/extendedResourceClaimStatus"
USE = {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
SAID: dict[str, Any] = {"resourceClaimName": "c", "requestMappings": [USE]}


@pytest.fixture
async def path(rest: Rest, ns: Namespace) -> str:
    """The status path of a pod that requests the resource."""
    made = pod("p")
    container = made["spec"]["containers"][0]
    container["name"] = "main"
    container["resources"] = {"requests": {GPU: "2"}, "limits": {GPU: "2"}}
    (await rest.post(ns.pods(), made)).expect(201)
    return f"{ns.pods('p')}/status"


async def say(rest: Rest, path: str, status: Any) -> Answer:
    return await rest.patch(path, [{"op": "add", "path": PATH, "value": status}], JSON_PATCH)


async def test_the_status_is_kept_and_can_be_taken_back(
    rest: Rest, path: str, since_1_37: bool
) -> None:
    said = (await say(rest, path, SAID)).expect(200)["status"]["extendedResourceClaimStatus"]
    assert said == SAID

    gone = await rest.patch(path, [{"op": "remove", "path": PATH}], JSON_PATCH)

    left = gone.expect(200)["status"].get("extendedResourceClaimStatus")
    # It is kept when a write leaves it out.
    assert left == (SAID if since_1_37 else None)


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ({**SAID, "requestMappings": []}, ["requestMappings"]),
        ({**SAID, "requestMappings": [{**USE, "containerName": "x"}]}, ["[0].containerName"]),
        ({**SAID, "requestMappings": [{**USE, "resourceName": "a.b/c"}]}, ["[0].resourceName"]),
        ({**SAID, "requestMappings": [{**USE, "requestName": "A"}]}, ["Status.requestName"]),
        (
            {**SAID, "requestMappings": [USE, USE]},
            ["[1].containerName", "[1].resourceName", "[1].requestName"],
        ),
        ({**SAID, "resourceClaimName": ""}, ["resourceClaimName"]),
        ({**SAID, "resourceClaimName": "A"}, ["resourceClaimName"]),
    ],
)
async def test_a_status_that_is_wrong_is_refused(
    rest: Rest, path: str, status: dict[str, Any], fields: list[str]
) -> None:
    answer = (await say(rest, path, status)).expect(422)

    found = [cause["field"] for cause in answer["details"]["causes"]]
    assert len(found) == len(fields), found
    for field, end in zip(found, fields, strict=True):
        assert field.endswith(end)


async def test_a_claim_can_be_made_with_the_finalizer(rest: Rest, ns: Namespace) -> None:
    claims = Claims(rest, ns)
    finalizer = "resource.kubernetes.io/delete-protection"
    body = {"metadata": {"name": "made", "finalizers": [finalizer]}, "spec": CLAIM_SPEC}

    made = (await rest.post(claims.path("resourceclaims"), body)).expect(201)

    assert made["metadata"]["finalizers"] == [finalizer]


@pytest.mark.parametrize("allocated", [False, True])
async def test_the_claim_goes_with_the_pod_that_owns_it(
    rest: Rest, ns: Namespace, *, allocated: bool
) -> None:
    """The deletion does not depend on the pod's status."""
    claims = Claims(rest, ns)
    owner = await claims.pod("p")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"]}
    metadata = {
        "name": "made",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [{**reference, "controller": True}],
    }
    body = {"metadata": metadata, "spec": CLAIM_SPEC}
    (await rest.post(claims.path("resourceclaims"), body)).expect(201)
    if allocated:
        await claims.allocate("made", owner)

    (await rest.delete(ns.pods("p"), {"gracePeriodSeconds": 0})).expect(200)

    async def gone() -> bool:
        return (await rest.get(claims.path("resourceclaims", "made"))).status == 404

    await eventually(gone, "the claim to be gone", 30)
