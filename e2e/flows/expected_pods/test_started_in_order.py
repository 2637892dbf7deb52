"""A JobSet-wide gang whose JobSet creates pods only after others run: its places are held.

Between driver and workers there is a replicatedJob outside the gang, whose pod has a scheduling
gate: the flow decides when the workers are created.
"""

import pytest

from api.constants import SCHEDULER_NAME
from api.features import Feature
from e2e.harness import muster as processes
from e2e.harness.environment import Environment
from e2e.harness.groups import held
from e2e.harness.muster import Muster
from e2e.harness.objects import Json, job, jobset, of_job, replicated_job
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, PODS

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("expected_pods")]

WORKERS = 8
GATE = "test.muster.dev/not-yet"


def ordered(env: Environment, order: str, *, mode: str = "Gang", first: str | None = None) -> Json:
    """Return a JobSet of driver, with mode `first`, gated replicatedJob, and workers."""
    between = replicated_job("between", env.name, replicas=1, pods=1, mode="Off")
    pod = between["template"]["spec"]["template"]["spec"]
    pod |= {"schedulerName": SCHEDULER_NAME, "schedulingGates": [{"name": GATE}]}
    pod["containers"][0]["resources"] = {}
    driver = replicated_job("driver", env.name, replicas=1, pods=1, mode=first)
    workers = replicated_job("workers", env.name, replicas=1, pods=WORKERS)
    made = jobset("train", driver, between, workers, mode=mode)
    if order == "InOrder":
        made["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    else:
        workers["dependsOn"] = [{"name": it, "status": order} for it in ("driver", "between")]
        workers["dependsOn"][1]["status"] = "Ready"
    return made


def part(name: str) -> str:
    return f"jobset.sigs.k8s.io/replicatedjob-name={name}"


async def go_on(env: Environment) -> None:
    """Remove the gate between driver and workers, so that the workers are created."""
    await env.has_pods(part("between"), 1)
    (pod,) = await env.pods(part("between"))
    ops = PatchBuilder().replace("/spec/schedulingGates", [])
    await env.client.patch(PODS, pod["metadata"]["name"], ops, env.name)


async def driver_runs_and_another_waits(env: Environment, made: Json, group: str) -> None:
    """Start the driver with capacity for exactly the nine, and another gang afterwards.

    It has as many pods as there are workers.
    """
    await env.add_node(cpu=WORKERS + 1)
    await env.create(JOBSETS, made)
    await env.runs(part("driver"), 1)
    await held(env, group, WORKERS)
    await env.create(JOBS, job("other", env.name, pods=WORKERS))
    await env.waits("pg-job-other", needed=WORKERS)
    assert await env.bound(of_job("other")) == 0
    assert await env.bound(part("workers")) == 0
    # A gang with held places does not count as waiting, though most of its pods are still missing.
    assert await env.blocker(group) == {}
    await env.waits_for_nothing(JOBSETS, "train")


@pytest.mark.parametrize(
    ("order", "mode", "first"),
    [
        ("InOrder", "Gang", None),
        pytest.param("Ready", "Gang", None, marks=pytest.mark.long),
        pytest.param("InOrder", "Composite", None, marks=pytest.mark.long),
        pytest.param("Ready", "Composite", "Basic", marks=pytest.mark.long),
    ],
)
async def test_the_workers_get_their_places_and_another_gang_waits(
    env: Environment, order: str, mode: str, first: str | None
) -> None:
    group = "pg-train" if mode == "Gang" else "pg-train-workers-0"
    made = ordered(env, order, mode=mode, first=first)
    await driver_runs_and_another_waits(env, made, group)

    await go_on(env)
    await env.runs(part("workers"), WORKERS)
    await held(env, group, 0)
    assert await env.bound(of_job("other")) == 0

    await env.delete(JOBSETS, "train")
    await env.runs(of_job("other"), WORKERS)


@pytest.mark.long
@pytest.mark.parametrize("end", ["deleted", "suspended"])
async def test_places_are_given_back_when_no_workers_come(env: Environment, end: str) -> None:
    await driver_runs_and_another_waits(env, ordered(env, "InOrder"), "pg-train")

    if end == "deleted":
        await env.delete(JOBSETS, "train")
    else:
        ops = PatchBuilder().add("/spec/suspend", True)
        await env.client.patch(JOBSETS, "train", ops, env.name)

    await env.runs(of_job("other"), WORKERS)


@pytest.mark.long
async def test_a_restart_begins_with_the_whole_again(env: Environment) -> None:
    made = ordered(env, "InOrder")
    made["spec"]["failurePolicy"] = {"maxRestarts": 3}
    await driver_runs_and_another_waits(env, made, "pg-train")
    await go_on(env)
    await env.runs(part("workers"), WORKERS)

    await env.cluster.finish_pods(env.name, part("driver"), "Failed")
    await go_on_again(env)

    await env.runs(part("driver"), 1)
    await env.runs(part("workers"), WORKERS)
    assert await env.bound(of_job("other")) == 0


async def go_on_again(env: Environment) -> None:
    """Wait until the gated pod of the next attempt exists, and remove its gate."""

    async def probe() -> bool:
        pods = await env.pods(part("between"))
        return len(pods) == 1 and bool(pods[0]["spec"].get("schedulingGates"))

    await env.until("the next attempt to wait", probe)
    await go_on(env)


@pytest.mark.long
async def test_a_driver_that_ends_before_its_workers_has_one_of_their_places(
    env: Environment,
) -> None:
    """With status Complete the workers are created after it: their capacity is enough for both."""
    await env.add_node(cpu=WORKERS)
    await env.create(JOBSETS, ordered(env, "Complete"))
    await env.runs(part("driver"), 1)
    said = (await env.group("pg-train"))["spec"]["expectedPods"]
    assert [(it["name"], it["count"], it["stage"]) for it in said] == [
        ("driver", 1, 1),
        ("workers", WORKERS, 2),
    ]
    await held(env, "pg-train", WORKERS)
    await env.create(JOBS, job("other", env.name, pods=1))
    await env.waits("pg-job-other", needed=1)

    await env.cluster.finish_pods(env.name, part("driver"))
    await go_on(env)

    await env.runs(part("workers"), WORKERS)
    assert await env.bound(of_job("other")) == 0


@pytest.mark.long
async def test_with_the_gate_off_nothing_is_held_and_on_again_the_whole_is_placed(
    env: Environment,
) -> None:
    """Running pods continue. The gate is on in all other flows."""
    await driver_runs_and_another_waits(env, ordered(env, "InOrder"), "pg-train")
    (driver,) = await env.pods(part("driver"))

    await restarted(env.muster, expects=False)
    try:
        await env.runs(of_job("other"), WORKERS)
        await go_on(env)
        await env.has_pods(part("workers"), WORKERS)
    finally:
        await restarted(env.muster, expects=True)
    await env.delete(JOBS, "other")

    await env.runs(part("workers"), WORKERS)
    (after,) = await env.pods(part("driver"))
    assert after["metadata"]["uid"] == driver["metadata"]["uid"]


async def restarted(muster: Muster, *, expects: bool) -> None:
    """Restart all processes with the gate on or off."""
    muster.configure(featureGates={str(Feature.EXPECTED_PODS): expects})
    for name in processes.ALL:
        muster.kill(name)
    await muster.start(*processes.ALL)
