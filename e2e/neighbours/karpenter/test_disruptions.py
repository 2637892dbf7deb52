"""Running gangs that others evict: Karpenter to save cost, a descheduler to move pods."""

import pytest

from api.constants import ANNOTATION_DISRUPTION_MODE
from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job
from e2e.harness.support.rest import Rest
from e2e.neighbours.karpenter.nodepools import DO_NOT_DISRUPT, NodePools, Offer
from kube.client.resources import EVENTS, JOBS, PODS

pytestmark = pytest.mark.timeout(240)

UNDERUTILIZED = "WhenEmptyOrUnderutilized"


def gang(env: Environment, pods: int, **annotations: str) -> Json:
    made = job("gang", env.name, pods=pods)
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


async def evict(rest: Rest, pod: Json) -> None:
    where = {key: pod["metadata"][key] for key in ("name", "namespace")}
    path = f"{PODS.path(where['namespace'], where['name'])}/eviction"
    asked = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where}
    (await rest.post(path, asked)).ok()


async def unmanaged_warnings(env: Environment) -> bool:
    """Return True if Karpenter reports that a pod's annotation blocks its disruption.

    Its report about a nominated node, just after it bought it, does not count.
    """
    events = (await env.client.list(EVENTS))["items"]
    names = {pod["spec"].get("nodeName") for pod in await env.pods()}
    return any(
        event["reason"] == "DisruptionBlocked"
        and event["involvedObject"]["name"] in names
        and DO_NOT_DISRUPT in event["message"]
        for event in events
    )


@pytest.mark.long
@pytest.mark.parametrize("by_mode", [False, True], ids=["by annotation", "by its mode"])
async def test_a_running_gang_is_not_taken_apart_to_save_money(
    env: Environment, nodepools: NodePools, by_mode: bool
) -> None:
    await nodepools.create(env.name, Offer(consolidation=UNDERUTILIZED))
    made = gang(env, 5, **({} if by_mode else {DO_NOT_DISRUPT: "true"}))
    if by_mode:
        made["metadata"]["annotations"][ANNOTATION_DISRUPTION_MODE] = "All"
    await env.create(JOBS, made)
    await env.runs(of_job("gang"), 5)

    # One pod has a node of four CPUs to itself; half of that would be enough.
    cheaper = Offer(sizes=(2,), consolidation=UNDERUTILIZED)
    await nodepools.create(f"{env.name}-cheaper", cheaper, room=env.name)

    async def decided() -> bool:
        return await unmanaged_warnings(env) or await env.running() < 5

    # It reports the same node at most once in two minutes.
    await env.until("Karpenter to have looked at it", decided, 200)
    assert await env.running() == 5
    assert (len(nodepools.bought), nodepools.held()) == (2, 2)


@pytest.mark.long
async def test_an_evicted_member_is_replaced_and_the_others_stay(
    env: Environment, nodepools: NodePools, rest: Rest
) -> None:
    """The test acts as a descheduler, which requests one eviction after another."""
    await nodepools.create(env.name)
    made = gang(env, 4)
    made["spec"]["backoffLimit"] = 6
    await env.create(JOBS, made)
    await env.runs(of_job("gang"), 4)
    first, *others = await env.pods(of_job("gang"))

    await evict(rest, first)

    async def replaced() -> bool:
        running = {
            pod["metadata"]["uid"]
            for pod in await env.pods(of_job("gang"))
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }
        return len(running) == 4 and first["metadata"]["uid"] not in running

    await env.until("the pod to be replaced", replaced)
    kept = await env.uids(of_job("gang"))
    assert {pod["metadata"]["uid"] for pod in others} <= kept
    assert (len(nodepools.bought), nodepools.held()) == (1, 1)
