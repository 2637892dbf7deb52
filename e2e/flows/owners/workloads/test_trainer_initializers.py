"""A TrainJob whose initializers and nodes are one gang, by Trainer's own controller."""

import pytest
import yaml

from api.constants import ANNOTATION_HOLD_SECONDS
from e2e.flows.owners.workloads.examples import EXAMPLES, reports
from e2e.flows.owners.workloads.test_trainer import (
    GROUP,
    NODES,
    PODS,
    RUNTIMES,
    TRAIN_JOBS,
    cluster,
    created,
    running_muster,
)
from e2e.harness.environment import Environment
from e2e.harness.objects import NODE_LABEL, POD_GROUPS, Json, job, of_job
from kube.client.resources import JOBS

__all__ = ["cluster", "running_muster"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(400), pytest.mark.usefixtures("expected_pods")]

INITIALIZERS = ("dataset-initializer", "model-initializer")


def example(env: Environment) -> tuple[Json, Json]:
    """Return runtime and TrainJob of the example; pods of one CPU, on the nodes of this flow."""
    runtime, made = yaml.safe_load_all((EXAMPLES / "trainer-initializers.yaml").read_text())
    for part in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = part["template"]["spec"]["template"]["spec"]
        pod["nodeSelector"] = {NODE_LABEL: env.name}
        pod["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return runtime, made


def part(name: str) -> str:
    return f"jobset.sigs.k8s.io/replicatedjob-name={name}"


async def test_nodes_have_their_places_once_the_initializers_have_ended(env: Environment) -> None:
    await env.add_node(cpu=NODES + len(INITIALIZERS))
    await created(env, *example(env))
    await env.runs(part(INITIALIZERS[0]), 1)
    group = await env.group(GROUP)
    assert [(it["name"], it["count"], it["stage"]) for it in group["spec"]["expectedPods"]] == [
        ("dataset-initializer", 1, 1),
        ("model-initializer", 1, 2),
        ("node", NODES, 3),
    ]
    assert group["metadata"]["annotations"][ANNOTATION_HOLD_SECONDS] == "1800"
    await env.create(JOBS, job("other", env.name, pods=NODES))
    await env.waits("pg-job-other", needed=NODES)
    await reports(env, TRAIN_JOBS, "tune", "")

    for name in INITIALIZERS:
        await env.runs(part(name), 1)
        await env.cluster.finish_pods(env.name, part(name))
    await env.runs(part("node"), NODES)
    assert await env.bound(of_job("other")) == 0

    await env.delete(TRAIN_JOBS, "tune")
    await env.gone(POD_GROUPS, GROUP)
    await env.has_pods(PODS, 0)
    await env.runs(of_job("other"), NODES)
    await env.delete(RUNTIMES, "fetched")
