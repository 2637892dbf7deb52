"""A user reserves capacity by a group, and creates its pods later; others wait meanwhile."""

from collections.abc import Iterator

import pytest

from api.constants import (
    ANNOTATION_HOLD_FROM,
    ANNOTATION_HOLD_SECONDS,
    HOLD_FROM_CREATION,
    SCHEDULER_NAME,
)
from api.features import Feature
from e2e.harness.environment import Environment
from e2e.harness.gates import switched_on
from e2e.harness.groups import held, leaf_group, members
from e2e.harness.muster import CONTROLLER, SCHEDULER, Muster
from e2e.harness.objects import POD_GROUPS, Json, pod, pod_spec
from kube.client.resources import PODS

pytestmark = pytest.mark.timeout(600)

NAME, COUNT = "later", 3


@pytest.fixture(scope="module", autouse=True)
def gate(running_muster: Muster) -> Iterator[None]:
    with switched_on(running_muster, Feature.EXPECTED_PODS, Feature.RESERVATIONS):
        yield


def reservation(env: Environment, *, seconds: int = 600) -> Json:
    made = leaf_group(NAME, COUNT)
    made["metadata"]["annotations"] = {
        ANNOTATION_HOLD_FROM: HOLD_FROM_CREATION,
        ANNOTATION_HOLD_SECONDS: str(seconds),
    }
    template = {"spec": pod_spec(env.name) | {"schedulerName": SCHEDULER_NAME}}
    made["spec"]["expectedPods"] = [{"name": "worker", "count": COUNT, "template": template}]
    return made


async def members_come(env: Environment) -> None:
    for index in range(COUNT):
        await env.create(PODS, pod(f"{NAME}-{index}", env.name, group=NAME))


async def test_others_wait_until_the_pods_of_the_reservation_have_their_places(
    env: Environment,
) -> None:
    """KEP-4671 (future work): capacity that pods consume later, and a new leader that keeps it."""
    await env.add_node(cpu=2)
    await env.add_node(cpu=1)
    await env.create(POD_GROUPS, reservation(env))
    await held(env, NAME, COUNT)
    status = (await env.group(NAME))["status"]
    assert not any(it["status"] == "True" for it in status.get("conditions", ()))
    before = status["heldPlaces"]

    await env.create(PODS, pod("other", env.name))
    await env.until("the other pod to wait", lambda: _is_refused(env, "other"))
    env.muster.kill(SCHEDULER)
    await env.muster.start(SCHEDULER)
    env.muster.kill(CONTROLLER)
    await env.muster.start(CONTROLLER)
    await held(env, NAME, COUNT)
    assert (await env.group(NAME))["status"]["heldPlaces"] == before

    await members_come(env)
    await env.runs(members(NAME), COUNT)
    assert await env.bound() == COUNT


async def test_places_that_nobody_uses_are_free_after_their_time(env: Environment) -> None:
    await env.add_node(cpu=COUNT)
    await env.create(POD_GROUPS, reservation(env, seconds=10))
    await held(env, NAME, COUNT)
    await env.create(PODS, pod("other", env.name))

    await env.until("the other pod to run", lambda: _is_bound(env, "other"))
    await members_come(env)
    await env.waits(NAME, needed=COUNT, free=COUNT - 1)
    # With pods that wait, places can be held again.
    await env.until("the places to be forgotten", lambda: _holds_nothing(env))


async def test_deleting_the_group_frees_the_places(env: Environment) -> None:
    await env.add_node(cpu=COUNT)
    await env.create(POD_GROUPS, reservation(env))
    await held(env, NAME, COUNT)
    await env.delete(POD_GROUPS, NAME)

    await env.create(PODS, pod("other", env.name))
    await env.until("the other pod to run", lambda: _is_bound(env, "other"))


async def _holds_nothing(env: Environment) -> bool:
    return "heldPlaces" not in (await env.group(NAME))["status"]


async def _is_refused(env: Environment, name: str) -> bool:
    status = (await env.client.get(PODS, name, env.name))["status"]
    said = [it["message"] for it in status.get("conditions", ()) if it["type"] == "PodScheduled"]
    return any("Insufficient cpu" in message for message in said)


async def _is_bound(env: Environment, name: str) -> bool:
    return bool((await env.client.get(PODS, name, env.name))["spec"].get("nodeName"))
