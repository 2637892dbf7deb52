"""A claim with blanks in its parameters, which the API server lets no JSON client change."""

import json

import pytest

from e2e.harness.devices import CLAIMS, Devices, claim, request, with_claims
from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job
from e2e.harness.support.rest import Rest
from kube.client.resources import JOBS

pytestmark = pytest.mark.since("1.34", "resource.k8s.io/v1 is served from 1.34 on")

BLANKS = json.dumps
"""Python's JSON encoder, with blanks after colons and commas."""


def configured(devices: Devices, device_class: str) -> Json:
    """Return a claim with parameters for the flow's driver."""
    parameters = {"kind": "Config", "of": ["a", "b"]}
    config = [{"opaque": {"driver": devices.driver, "parameters": parameters}}]
    return claim("shared", request(device_class), config=config)


async def test_a_gang_whose_claim_cannot_be_changed_says_so_and_runs_once_it_is_made_anew(
    env: Environment, devices: Devices, rest: Rest, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip("the embedded API server keeps no blanks: run with --cluster=real")
    made = configured(devices, await devices.add_class())
    await devices.publish(await env.add_node(cpu=8), 1)
    path = f"/apis/{CLAIMS.api_version}/namespaces/{env.name}/resourceclaims"
    (await rest.post(path, BLANKS(made).encode())).expect(201)
    gang = job("train", env.name, pods=2)
    template = gang["spec"]["template"]
    template["spec"] = with_claims(template["spec"], {"gpu": {"resourceClaimName": "shared"}})

    await env.create(JOBS, gang)

    async def refused() -> bool:
        said = (await env.blocker("pg-job-train")).get("summary", "")
        return "resourceclaim shared cannot be patched" in said and "create it" in said

    await env.until("the gang to say why its claim is not used", refused)
    assert await env.bound(of_job("train")) == 0
    assert await devices.held() == {}

    await env.delete(CLAIMS, "shared")
    await env.create(CLAIMS, made)

    await env.runs(of_job("train"), 2)
    assert list(await devices.held()) == ["shared"]
    await env.delete(JOBS, "train")
    await env.empty()
    await devices.nothing_left_allocated()
