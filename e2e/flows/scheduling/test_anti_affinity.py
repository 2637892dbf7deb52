"""Members with anti-affinity by node: each gets its own, and a gang too large for them waits."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job
from kube.client.resources import JOBS

PORT: Json = {"containerPort": 80, "hostPort": 8080}


def apart(name: str) -> Json:
    """Return a term by which no two pods of the Job share a node."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": name}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize("rule", ["anti-affinity", "host port"])
async def test_members_that_may_not_share_a_node(env: Environment, rule: str) -> None:
    for _ in range(3):
        await env.add_node(cpu=3)
    for name, pods in (("fits", 3), ("waits", 4)):
        gang = job(name, env.name, pods=pods)
        spec = gang["spec"]["template"]["spec"]
        if rule == "anti-affinity":
            spec["affinity"] = apart(name)
        else:
            spec["containers"][0]["ports"] = [PORT]
        await env.create(JOBS, gang)
        if name == "fits":
            await env.runs(of_job(name), 3)

    nodes = [pod["spec"]["nodeName"] for pod in await env.pods(of_job("fits"))]
    assert len(set(nodes)) == 3
    await env.waits("pg-job-waits", needed=4)
    assert await env.bound(of_job("waits")) == 0
    for name in ("fits", "waits"):
        await env.delete(JOBS, name)
    await env.empty()
