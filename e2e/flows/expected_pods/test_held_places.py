"""Held places for the workers of a JobSet, between driver and workers.

A higher priority takes them, their time ends, their node is deleted; and devices are held with
them.
"""

import pytest

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_HOLD_SECONDS,
    ANNOTATION_ON_HOLD_EXPIRED,
)
from e2e.flows.expected_pods.test_started_in_order import WORKERS, go_on, go_on_again, ordered, part
from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    Devices,
    claim_template,
    request,
    with_claims,
)
from e2e.harness.environment import Environment
from e2e.harness.groups import held
from e2e.harness.objects import Json, job, of_job
from kube.client.resources import JOBS, JOBSETS

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("expected_pods")]

GROUP = "pg-train"
URGENT = 4


def annotated(made: Json, **annotations: str) -> Json:
    made["metadata"]["annotations"] |= annotations
    return made


async def driver(env: Environment, made: Json) -> str:
    """Start the driver, wait until its workers' places are held, and return its UID."""
    await env.create(JOBSETS, made)
    await env.runs(part("driver"), 1)
    await held(env, GROUP, WORKERS)
    (pod,) = await env.pods(part("driver"))
    return str(pod["metadata"]["uid"])


async def drivers(env: Environment) -> list[str]:
    """Return UIDs of the drivers that are not being deleted."""
    found = [pod["metadata"] for pod in await env.pods(part("driver"))]
    return [meta["uid"] for meta in found if "deletionTimestamp" not in meta]


async def is_gone(env: Environment, uid: str) -> None:
    async def probe() -> bool:
        return uid not in await drivers(env)

    await env.until("the driver to be gone", probe)


async def urgent(env: Environment, important: str) -> None:
    """Create a gang of four with a higher priority, and wait until it runs."""
    made = job("urgent", env.name, pods=URGENT)
    made["spec"]["template"]["spec"]["priorityClassName"] = important
    await env.create(JOBS, made)
    await env.runs(of_job("urgent"), URGENT)


async def test_a_higher_priority_takes_held_places_and_the_driver_goes_on(
    env: Environment, important: str
) -> None:
    await env.add_node(cpu=WORKERS + 1)
    uid = await driver(env, ordered(env, "InOrder"))

    await urgent(env, important)
    await go_on(env)
    await env.has_pods(part("workers"), WORKERS)
    assert await drivers(env) == [uid]

    await env.delete(JOBS, "urgent")
    await env.runs(part("workers"), WORKERS)
    assert await drivers(env) == [uid]


@pytest.mark.long
async def test_with_mode_all_the_driver_goes_with_the_places(
    env: Environment, important: str
) -> None:
    await env.add_node(cpu=WORKERS + 1)
    made = annotated(ordered(env, "InOrder"), **{ANNOTATION_DISRUPTION_MODE: "All"})
    made["spec"]["failurePolicy"] = {"maxRestarts": 3}
    uid = await driver(env, made)

    await urgent(env, important)
    await is_gone(env, uid)
    await held(env, GROUP, 0)

    await env.delete(JOBS, "urgent")
    await env.runs(part("driver"), 1)
    await held(env, GROUP, WORKERS)
    assert await drivers(env) != [uid]
    await go_on_again(env)
    await env.runs(part("workers"), WORKERS)


@pytest.mark.long
@pytest.mark.parametrize("then", ["Keep", "Evict"])
async def test_when_the_time_is_over_others_have_the_places(env: Environment, then: str) -> None:
    await env.add_node(cpu=WORKERS + 1)
    said = {ANNOTATION_HOLD_SECONDS: "6", ANNOTATION_ON_HOLD_EXPIRED: then}
    uid = await driver(env, annotated(ordered(env, "InOrder"), **said))
    await env.create(JOBS, job("other", env.name, pods=WORKERS))

    await env.runs(of_job("other"), WORKERS)
    await held(env, GROUP, 0)
    if then == "Evict":
        await is_gone(env, uid)
    else:
        assert await drivers(env) == [uid]


@pytest.mark.long
async def test_a_node_that_goes_has_its_places_chosen_anew_before_others(env: Environment) -> None:
    nodes = [await env.add_node(cpu=3) for _ in range(3)]
    uid = await driver(env, ordered(env, "InOrder"))
    (pod,) = await env.pods(part("driver"))
    await env.create(JOBS, job("other", env.name, pods=3))
    await env.waits("pg-job-other", needed=3)

    await env.remove_node(next(name for name in nodes if name != pod["spec"]["nodeName"]))
    await held(env, GROUP, WORKERS - 3)
    await env.add_node(cpu=3)
    await held(env, GROUP, WORKERS)
    assert await env.bound(of_job("other")) == 0

    await go_on(env)
    await env.runs(part("workers"), WORKERS)
    assert await drivers(env) == [uid]
    assert await env.bound(of_job("other")) == 0


@pytest.mark.since("1.34", "resource.k8s.io/v1 is served from 1.34 on")
async def test_devices_are_held_for_workers_and_nobody_else_gets_them(
    env: Environment, devices: Devices
) -> None:
    """Many pods fit, but only the eight workers, with claims from a template, get devices."""
    name = await devices.add_class()
    for _ in range(2):
        await devices.publish(await env.add_node(cpu=2 * WORKERS), WORKERS // 2)
    own = {"gpu": {"resourceClaimTemplateName": "one-gpu"}}
    made = ordered(env, "InOrder")
    workers = made["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]
    workers["spec"] = with_claims(workers["spec"], own)
    await env.create(JOBSETS, made)
    await env.grouped(GROUP)
    assert await env.bound(part("driver")) == 0  # no such template yet
    await env.create(CLAIM_TEMPLATES, claim_template("one-gpu", request(name)))
    await env.runs(part("driver"), 1)
    await held(env, GROUP, WORKERS)

    other = job("other", env.name, pods=1)
    template = other["spec"]["template"]
    template["spec"] = with_claims(template["spec"], own)
    await env.create(JOBS, other)
    await env.waits("pg-job-other", needed=1)

    await go_on(env)
    await env.runs(part("workers"), WORKERS)
    assert await env.bound(of_job("other")) == 0
    assert not await devices.held_twice()
    assert len(await devices.held()) == WORKERS

    await env.delete(JOBSETS, "train")
    await env.runs(of_job("other"), 1)
