"""Golden pairs: what a Job or JobSet gets, to the letter. In `golden/`: input, objects, pods.

The examples of KEP-1068 are there with its own counts.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import LABEL_POD_GROUP, SCHEDULER_NAME
from e2e.suite.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS, Json
from e2e.suite.stage import Stage
from kube.resources import JOBS, JOBSETS, Resource

GOLDEN = {
    path.stem: list(yaml.safe_load_all(path.read_text()))
    for path in sorted((Path(__file__).parent / "golden").glob("*.yaml"))
}
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
_KINDS = {"Job": JOBS, "JobSet": JOBSETS}
_MADE = (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS)
# What admission computes from PriorityClasses.
_COMPUTED = {"priority", "preemptionPolicy"}


@pytest.mark.parametrize("name", GOLDEN)
async def test_an_owner_gets_exactly_these_objects(stage: Stage, name: str) -> None:
    said, wanted, pods = GOLDEN[name]
    await stage.create(_KINDS[said["kind"]], said)

    await settled(stage, wanted, pods)


async def test_jobs_of_one_generate_name_have_a_group_each(stage: Stage) -> None:
    said = dict(GOLDEN["job-gang"][0])
    notes = said["metadata"]["annotations"]
    said["metadata"] = {"generateName": "sweep-", "annotations": notes}
    for _ in range(2):
        await stage.create(JOBS, said)

    await stage.has_pods("", 6)

    async def probe() -> bool:
        return len((await stage.client.list(POD_GROUPS, stage.name))["items"]) == 2

    await stage.until("two groups", probe)
    groups = {it["metadata"]["name"] for it in await items(stage, POD_GROUPS)}
    assert await pods_by_group(stage) == dict.fromkeys(groups, 3)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_cron_job_s_jobs_have_groups(stage: Stage, server_kind: str) -> None:
    if server_kind == "local":
        pytest.skip("the embedded cluster has no CronJobs")
    said = GOLDEN["job-gang"][0]
    notes = {"annotations": said["metadata"]["annotations"]}
    spec = {"schedule": "* * * * *", "jobTemplate": {"metadata": notes, "spec": said["spec"]}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    await stage.create(CRON_JOBS, cron_job | {"spec": spec})
    stage.patience = 90.0

    await stage.has_pods("", 3)
    await stage.client.delete(CRON_JOBS, "nightly", stage.name, propagation="Orphan")

    (job,) = await items(stage, JOBS)
    assert await pods_by_group(stage) == {f"pg-job-{job['metadata']['name']}": 3}
    await stage.grouped(f"pg-job-{job['metadata']['name']}")


async def items(stage: Stage, resource: Any) -> list[Json]:
    found: list[Json] = (await stage.client.list(resource, stage.name))["items"]
    return found


async def pods_by_group(stage: Stage) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for pod in await stage.pods():
        group = pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP)
        if group:
            assert pod["spec"]["schedulerName"] == SCHEDULER_NAME
            counts[group] += 1
    return dict(counts)


async def made(stage: Stage) -> list[Json]:
    found = []
    for resource in _MADE:
        for obj in await items(stage, resource):
            spec = {key: value for key, value in obj["spec"].items() if key not in _COMPUTED}
            found.append({"kind": resource.kind, "name": obj["metadata"]["name"], "spec": spec})
    return found


async def settled(stage: Stage, wanted: list[Json], pods: dict[str, int]) -> None:
    """Wait until objects and pods are the wanted ones; nothing more may come afterwards."""

    def order(objects: list[Json]) -> list[Json]:
        return sorted(objects, key=lambda it: (it["kind"], it["name"]))

    async def probe() -> bool:
        enough = len(await made(stage)) >= len(wanted) and len(await stage.pods()) > 0
        return enough and sum((await pods_by_group(stage)).values()) >= sum(pods.values())

    await stage.until("the objects to be there", probe)
    assert order(await made(stage)) == order(wanted)
    assert await pods_by_group(stage) == pods
