"""Workloads of other projects, whose controllers run in pods as their users install them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import ANNOTATION_GANG_MODE, SCHEDULER_NAME
from e2e.flows.owners.workloads.examples import EXAMPLES
from e2e.harness.support.kubectl import Kubectl
from e2e.nodes import programs
from e2e.nodes.cluster.places import BUSYBOX
from e2e.nodes.programs import JOBSET, LWS, TRAINER
from e2e.nodes.tenant import Json, Tenant

pytestmark = pytest.mark.timeout(900)

_CONTAINER: Json = {
    "image": BUSYBOX,
    "imagePullPolicy": "Never",
    "command": ["sleep", "86400"],
    "resources": {"requests": {"cpu": "100m"}},
}


@pytest.fixture
async def jobset(kubectl: Kubectl, tmp_path: Path) -> None:
    await programs.install(kubectl, JOBSET, tmp_path / "manifests", jobset_of("example", "1m"))


async def starts_whole(tenant: Tenant, count: int, labels: str) -> list[Json]:
    """Wait until all pods with these labels run, and return them; Muster has placed them."""
    found = await tenant.until(
        f"{count} pods of {labels} to run",
        lambda pods: [it["status"].get("phase") for it in pods] == ["Running"] * count,
        labels=labels,
    )
    assert {pod["spec"]["schedulerName"] for pod in found} == {SCHEDULER_NAME}
    return found


async def waits(tenant: Tenant, count: int, labels: str) -> None:
    """Wait until as many pods exist; none of them may have a node."""
    found = await tenant.until(
        f"{count} pods of {labels} to wait", lambda pods: len(pods) == count, labels=labels
    )
    assert [pod["spec"].get("nodeName") for pod in found] == [None] * count


def jobset_of(name: str, cpu: str) -> Json:
    """Return a JobSet of a driver and two workers that start together."""
    container = _CONTAINER | {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}

    def job(pods: int) -> Json:
        return {
            "spec": {"parallelism": pods, "completions": pods, "template": {"spec": pod}},
        }

    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {ANNOTATION_GANG_MODE: "Gang"}},
        "spec": {
            "replicatedJobs": [
                {"name": "driver", "template": job(1)},
                {"name": "workers", "template": job(2)},
            ]
        },
    }


@pytest.mark.usefixtures("jobset")
async def test_a_jobset_starts_whole_and_a_large_one_waits(tenant: Tenant) -> None:
    await tenant.apply(jobset_of("large", "900m"), jobset_of("train", "100m"))

    await starts_whole(tenant, 3, "jobset.sigs.k8s.io/jobset-name=train")
    await waits(tenant, 3, "jobset.sigs.k8s.io/jobset-name=large")


async def test_each_replica_of_a_leader_worker_set_starts_whole(
    tenant: Tenant, kubectl: Kubectl, tmp_path: Path
) -> None:
    serve = _example("leaderworkerset-gang.yaml")[0]
    await programs.install(kubectl, LWS, tmp_path / "manifests", serve)
    spec = serve["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    spec["containers"] = [_CONTAINER | {"name": "main"}]

    await tenant.apply(serve)

    await starts_whole(tenant, 6, "leaderworkerset.sigs.k8s.io/name=serve")


@pytest.mark.usefixtures("jobset")
async def test_the_nodes_of_a_train_job_start_together(
    tenant: Tenant, kubectl: Kubectl, tmp_path: Path
) -> None:
    runtime, job = _example("trainer-runtime.yaml")
    await programs.install(kubectl, TRAINER, tmp_path / "manifests", runtime)
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    spec = node["template"]["spec"]["template"]["spec"]
    spec["containers"] = [_CONTAINER | {"name": "node"}]

    await tenant.apply(runtime)
    await tenant.apply(job)

    await starts_whole(tenant, 4, "jobset.sigs.k8s.io/jobset-name=tune")


def _example(name: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))
