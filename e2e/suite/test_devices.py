"""Gangs whose pods need devices: all of them get theirs, or none starts and none holds any."""

from collections.abc import AsyncIterator

import pytest

from e2e.suite.devices import (
    CLAIM_TEMPLATES,
    Devices,
    claim_template,
    devices_in,
    request,
    with_claims,
)
from e2e.suite.environment import Environment
from e2e.suite.objects import Json, job, of_job
from kube.resources import JOBS

pytestmark = pytest.mark.since("1.34", "resource.k8s.io/v1 is served from 1.34 on")


@pytest.fixture
async def devices(env: Environment) -> AsyncIterator[Devices]:
    """The devices of the flow."""
    async with devices_in(env.client, env.name) as made:
        yield made


def job_with_claims(name: str, room: str, entries: dict[str, Json], *, pods: int) -> Json:
    """A gang Job whose pods use these claims."""
    made = job(name, room, pods=pods)
    template = made["spec"]["template"]
    template["spec"] = with_claims(template["spec"], entries)
    return made


async def test_a_gang_starts_when_there_is_a_device_for_each_of_its_pods(
    env: Environment, devices: Devices
) -> None:
    gpus = await devices.add_class()
    for count in (4, 3):
        await devices.publish(await env.add_node(cpu=8), count)
    await env.create(CLAIM_TEMPLATES, claim_template("one-gpu", request(gpus)))
    entries = {"gpu": {"resourceClaimTemplateName": "one-gpu"}}
    await env.create(JOBS, job_with_claims("train", env.name, entries, pods=8))
    await env.waits("pg-job-train", needed=8)
    assert await devices.held() == {}

    await devices.publish(await env.add_node(cpu=8), 1)

    await env.runs(of_job("train"), 8)
    held = await devices.held()
    assert sorted(map(len, held.values())) == [1] * 8
    assert await devices.held_twice() == []
    await env.delete(JOBS, "train")
    await env.empty()
    await devices.nothing_left_allocated()
