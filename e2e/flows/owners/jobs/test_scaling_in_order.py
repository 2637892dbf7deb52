"""A JobSet that starts in order is scaled while places are held for its later pods.

Only the embedded JobSet controller allows changes of replicatedJobs (`test_scaling.py`).
"""

import pytest

from e2e.flows.expected_pods.test_started_in_order import WORKERS, go_on, ordered, part
from e2e.flows.owners.jobs.test_scaling import cluster, running_muster
from e2e.harness.environment import Environment
from e2e.harness.groups import held
from e2e.harness.objects import job, of_job
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS

__all__ = ["cluster", "running_muster"]

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("expected_pods")]


async def scale(env: Environment, workers: int) -> None:
    ops, spec = PatchBuilder(), "/spec/replicatedJobs/2/template/spec"
    for field in ("parallelism", "completions"):
        ops.replace(f"{spec}/{field}", workers)
    await env.client.patch(JOBSETS, "train", ops, env.name)


@pytest.mark.long
async def test_places_follow_the_size_of_what_is_still_to_come(env: Environment) -> None:
    await env.add_node(cpu=WORKERS + 1)
    await env.create(JOBSETS, ordered(env, "InOrder"))
    await env.runs(part("driver"), 1)
    await held(env, "pg-train", WORKERS)
    await env.create(JOBS, job("other", env.name, pods=WORKERS - 2))
    await env.waits("pg-job-other", needed=WORKERS - 2)

    await scale(env, 2)
    await held(env, "pg-train", 2)
    await env.runs(of_job("other"), WORKERS - 2)

    await scale(env, 4)
    await env.delete(JOBS, "other")
    await held(env, "pg-train", 4)
    await go_on(env)
    await env.runs(part("workers"), 4)
    group = await env.group("pg-train")
    assert [(it["name"], it["count"]) for it in group["spec"]["expectedPods"]] == [
        ("driver", 1),
        ("workers", 4),
    ]
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 5}}
