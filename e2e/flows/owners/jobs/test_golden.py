"""Golden files: the exact objects of a Job or JobSet.

In `golden/`: input, objects, pods.

They include the examples of KEP-1068 with their original counts.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import LABEL_POD_GROUP, SCHEDULER_NAME
from e2e.harness.environment import Environment
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS, Json
from kube.client.resources import JOBS, JOBSETS, Resource
from tools.testing.effort import selected

GOLDEN = {
    path.stem: list(yaml.safe_load_all(path.read_text()))
    for path in sorted((Path(__file__).parent / "golden").glob("*.yaml"))
}
NAMES = {name: name for name in GOLDEN}
WAITED_FOR = {"off", "job-off", "job-of-another-group"}
"""Cases in which no object is created; only the long run waits for that."""
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
_KINDS = {"Job": JOBS, "JobSet": JOBSETS}
_MADE = (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS)
# Fields that admission computes from PriorityClasses.
_COMPUTED = {"priority", "preemptionPolicy"}


@pytest.mark.parametrize("name", selected(NAMES, set(NAMES) - WAITED_FOR))
async def test_an_owner_gets_exactly_these_objects(env: Environment, name: str) -> None:
    said, wanted, pods = GOLDEN[name]
    await env.create(_KINDS[said["kind"]], said)

    await settled(env, wanted, pods)


async def test_jobs_of_one_generate_name_have_a_group_each(env: Environment) -> None:
    said = dict(GOLDEN["job-gang"][0])
    notes = said["metadata"]["annotations"]
    said["metadata"] = {"generateName": "sweep-", "annotations": notes}
    for _ in range(2):
        await env.create(JOBS, said)

    await env.has_pods("", 6)

    async def probe() -> bool:
        return len((await env.client.list(POD_GROUPS, env.name))["items"]) == 2

    await env.until("two groups", probe)
    groups = {it["metadata"]["name"] for it in await items(env, POD_GROUPS)}
    assert await pods_by_group(env) == dict.fromkeys(groups, 3)


@pytest.mark.long
async def test_a_cron_job_s_jobs_have_groups(env: Environment, server_kind: str) -> None:
    if server_kind == "local":
        pytest.skip("the embedded cluster has no CronJobs")
    said = GOLDEN["job-gang"][0]
    notes = {"annotations": said["metadata"]["annotations"]}
    spec = {"schedule": "* * * * *", "jobTemplate": {"metadata": notes, "spec": said["spec"]}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    await env.create(CRON_JOBS, cron_job | {"spec": spec})
    env.timeout_seconds = 90.0

    await env.has_pods("", 3)
    await env.client.delete(CRON_JOBS, "nightly", env.name, propagation="Orphan")

    (job,) = await items(env, JOBS)
    assert await pods_by_group(env) == {f"pg-job-{job['metadata']['name']}": 3}
    await env.grouped(f"pg-job-{job['metadata']['name']}")


async def items(env: Environment, resource: Any) -> list[Json]:
    found: list[Json] = (await env.client.list(resource, env.name))["items"]
    return found


async def pods_by_group(env: Environment) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for pod in await env.pods():
        group = pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP)
        if group:
            assert pod["spec"]["schedulerName"] == SCHEDULER_NAME
            counts[group] += 1
    return dict(counts)


async def made(env: Environment) -> list[Json]:
    found = []
    for resource in _MADE:
        for obj in await items(env, resource):
            spec = {key: value for key, value in obj["spec"].items() if key not in _COMPUTED}
            found.append({"kind": resource.kind, "name": obj["metadata"]["name"], "spec": spec})
    return found


async def settled(env: Environment, wanted: list[Json], pods: dict[str, int]) -> None:
    """Wait until objects and pods match; no more may appear afterwards."""

    def order(objects: list[Json]) -> list[Json]:
        return sorted(objects, key=lambda it: (it["kind"], it["name"]))

    async def probe() -> bool:
        enough = len(await made(env)) >= len(wanted) and len(await env.pods()) > 0
        return enough and sum((await pods_by_group(env)).values()) >= sum(pods.values())

    await env.until("the objects to be there", probe)
    assert order(await made(env)) == order(wanted)
    assert await pods_by_group(env) == pods
