"""A gang whose pods share a claim of their group: placement and deallocation."""

import pytest

from api.constants import ANNOTATION_SHARED_CLAIMS
from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    CLAIMS,
    Devices,
    claim_template,
    request,
    with_claims,
)
from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job
from kube.client.resources import JOBS

pytestmark = pytest.mark.since("1.34", "resource.k8s.io/v1 is served from 1.34 on")


def sharing(name: str, room: str) -> Json:
    made = job(name, room)
    made["metadata"]["annotations"][ANNOTATION_SHARED_CLAIMS] = "imex"
    template = made["spec"]["template"]
    entries = {"imex": {"resourceClaimTemplateName": "channel"}}
    template["spec"] = with_claims(template["spec"], entries)
    return made


@pytest.mark.long
async def test_gangs_take_turns_with_the_one_device_that_each_shares(
    env: Environment, devices: Devices
) -> None:
    channels = await devices.add_class()
    with_device = await env.add_node(cpu=8)
    await env.add_node(cpu=8)
    await devices.publish(with_device, 1)
    await env.create(CLAIM_TEMPLATES, claim_template("channel", request(channels)))

    await env.create(JOBS, sharing("a", env.name))
    await env.runs(of_job("a"), 4)
    assert {pod["spec"]["nodeName"] for pod in await env.pods(of_job("a"))} == {with_device}
    assert list(await devices.held()) == ["pg-job-a.imex"]
    (claim,) = await devices.claims()
    consumers = {one["uid"] for one in claim["status"]["reservedFor"]}
    assert consumers == await env.uids(of_job("a"))

    await env.create(JOBS, sharing("b", env.name))
    await env.waits("pg-job-b", needed=4)
    await env.delete(JOBS, "a")
    await env.runs(of_job("b"), 4)
    assert list(await devices.held()) == ["pg-job-b.imex"]

    await env.delete(JOBS, "b")
    await env.empty()
    await devices.nothing_left_allocated()

    async def gone() -> bool:
        return not (await env.client.list(CLAIMS, env.name))["items"]

    await env.until("the claims to go with their groups", gone)
