"""A PriorityClass is recreated with another value while a gang runs: the gang continues."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.objects import job, of_job
from e2e.harness.priorities import known_class
from kube.client.resources import JOBS, PODS, PRIORITY_CLASSES
from tools.testing.effort import selected

pytestmark = pytest.mark.timeout(200)


@pytest.mark.parametrize(
    "lost", selected({"one pod is replaced": 1, "all pods are new": 2}, {"one pod is replaced"})
)
async def test_a_gang_goes_on_with_pods_of_another_priority(env: Environment, lost: int) -> None:
    await env.add_node(cpu=2)
    async with known_class(env, "usual", 10) as name:
        gang = job("train", env.name, pods=2)
        gang["spec"]["backoffLimit"] = 6
        gang["spec"]["template"]["spec"]["priorityClassName"] = name
        await env.create(JOBS, gang)
        await env.runs(of_job("train"), 2)

        await env.client.delete(PRIORITY_CLASSES, name)
        await env.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 5})
        before = await env.pods(of_job("train"))
        for pod in before[:lost]:
            await env.client.delete(PODS, pod["metadata"]["name"], env.name)
        gone = {pod["metadata"]["uid"] for pod in before[:lost]}

        async def replaced() -> bool:
            pods = await env.pods(of_job("train"))
            bound = [pod for pod in pods if pod["spec"].get("nodeName")]
            new = [pod for pod in bound if pod["metadata"]["uid"] not in gone]
            return sorted(pod["spec"]["priority"] for pod in new) == [5] * lost + [10] * (2 - lost)

        await env.until("the new pods to be bound", replaced)
