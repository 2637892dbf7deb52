"""Members that may not share a node: each has one of its own, and a gang too many waits whole."""

import pytest

from e2e.suite.objects import Json, job, of_job
from e2e.suite.stage import Stage
from kube.resources import JOBS

PORT: Json = {"containerPort": 80, "hostPort": 8080}


def apart(name: str) -> Json:
    """No two pods of the Job on one node."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": name}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize("rule", ["anti-affinity", "host port"])
async def test_members_that_may_not_share_a_node(stage: Stage, rule: str) -> None:
    for _ in range(3):
        await stage.add_node(cpu=3)
    for name, pods in (("fits", 3), ("waits", 4)):
        gang = job(name, stage.name, pods=pods)
        spec = gang["spec"]["template"]["spec"]
        if rule == "anti-affinity":
            spec["affinity"] = apart(name)
        else:
            spec["containers"][0]["ports"] = [PORT]
        await stage.create(JOBS, gang)
        if name == "fits":
            await stage.runs_whole(of_job(name), 3)

    nodes = [pod["spec"]["nodeName"] for pod in await stage.pods(of_job("fits"))]
    assert len(set(nodes)) == 3
    await stage.waits("pg-job-waits", needed=4)
    assert await stage.bound(of_job("waits")) == 0
    for name in ("fits", "waits"):
        await stage.delete(JOBS, name)
    await stage.empty()
