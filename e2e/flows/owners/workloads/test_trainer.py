"""Kubeflow Trainer's own controller: its TrainJobs are gangs, and report what they wait for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_START_TIMEOUT
from e2e.flows.owners.workloads.examples import EXAMPLES, reports
from e2e.harness import muster as processes
from e2e.harness.controlplane import trainer
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import NODE_LABEL, POD_GROUPS, Json
from e2e.harness.running import installed, started
from kube.base.errors import NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import EVENTS, JOBSETS, Resource

pytestmark = pytest.mark.long

TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
RUNTIMES = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime")
GROUP, NODES = "pg-tune", 4
PODS = "jobset.sigs.k8s.io/jobset-name=tune"


@pytest.fixture(scope="module")
def cluster(server_kind: str, removed_at_end: Callable[[Path], None]) -> Iterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("Trainer needs a real control plane")
    removed_at_end(trainer.CERTIFICATES)
    made = ControlPlane(Options(trainer=True))
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def example(env: Environment, *, asks: bool = True) -> tuple[Json, Json]:
    """Return runtime and TrainJob of the example, on the nodes of this flow."""
    manifest = (EXAMPLES / "trainer-runtime.yaml").read_text()
    runtime, job = yaml.safe_load_all(manifest)
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    node["template"]["spec"]["template"]["spec"]["nodeSelector"] = {NODE_LABEL: env.name}
    if not asks:
        del runtime["spec"]["template"]["metadata"]
    return runtime, job


async def created(env: Environment, *objects: Json) -> None:
    runtime, job = objects
    await env.create(RUNTIMES, runtime)
    await env.create(TRAIN_JOBS, job)


async def suspended(env: Environment, suspend: bool) -> None:
    ops = PatchBuilder().add("/spec/suspend", suspend)
    await env.client.patch(TRAIN_JOBS, "tune", ops, env.name)


async def deleted(env: Environment) -> None:
    await env.delete(TRAIN_JOBS, "tune")
    await env.gone(POD_GROUPS, GROUP)

    async def probe() -> bool:
        try:
            await env.client.get(JOBSETS, "tune", env.name)
        except NotFound:
            return not await env.pods(PODS)
        return False

    await env.until("JobSet and pods to be gone", probe)
    await env.delete(RUNTIMES, "ring")


async def test_a_train_job_waits_whole_says_why_and_leaves_nothing(env: Environment) -> None:
    await env.add_node(cpu=NODES - 1)
    await created(env, *example(env))
    await env.waits(GROUP, needed=NODES, free=NODES - 1)
    assert await env.bound(PODS) == 0
    await reports(env, TRAIN_JOBS, "tune", f"PodGroup {GROUP}")
    events = await env.client.list(EVENTS, env.name)
    reasons = {it["reason"] for it in events["items"] if it["involvedObject"]["kind"] == "TrainJob"}
    assert "FailedScheduling" in reasons

    await env.add_node(cpu=1)
    await env.runs(PODS, NODES)
    await reports(env, TRAIN_JOBS, "tune", "")
    await deleted(env)


async def test_spec_annotations_of_a_train_job_ask_too(env: Environment) -> None:
    await env.add_node(cpu=NODES)
    runtime, job = example(env, asks=False)
    job["spec"]["annotations"] = {ANNOTATION_GANG_MODE: "Gang"}
    await created(env, runtime, job)

    await env.runs(PODS, NODES)

    assert (await env.group(GROUP))["spec"]["schedulingPolicy"]["gang"]["minCount"] == NODES
    await deleted(env)


async def test_one_that_does_not_start_in_time_is_suspended(env: Environment) -> None:
    await env.add_node(cpu=NODES - 1)
    runtime, job = example(env)
    job["spec"]["annotations"] = {ANNOTATION_START_TIMEOUT: "5s"}
    await created(env, runtime, job)

    async def is_suspended() -> bool:
        return (await env.client.get(TRAIN_JOBS, "tune", env.name))["spec"].get("suspend") is True

    await env.until("the TrainJob to be suspended", is_suspended)
    await env.has_pods(PODS, 0)
    await env.add_node(cpu=1)
    await suspended(env, suspend=False)
    await env.runs(PODS, NODES)
    await deleted(env)


async def test_it_is_suspended_and_resumed(env: Environment) -> None:
    await env.add_node(cpu=NODES)
    await created(env, *example(env))
    await env.runs(PODS, NODES)
    uid = (await env.group(GROUP))["metadata"]["uid"]

    await suspended(env, suspend=True)
    await env.gone(POD_GROUPS, GROUP)
    await suspended(env, suspend=False)

    await env.runs(PODS, NODES)
    assert (await env.group(GROUP))["metadata"]["uid"] != uid
    await deleted(env)


async def test_after_a_node_failed_all_start_again_together(env: Environment) -> None:
    await env.add_node(cpu=NODES)
    runtime, job = example(env)
    spec = runtime["spec"]["template"]["spec"]
    spec["failurePolicy"] = {"maxRestarts": 1}
    spec["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    await created(env, runtime, job)
    await env.runs(PODS, NODES)
    first = {it["metadata"]["uid"] for it in await env.pods(PODS)}

    at = "batch.kubernetes.io/job-completion-index=1"
    assert await env.cluster.finish_pods(env.name, f"{PODS},{at}", "Failed") == 1

    async def started_again() -> bool:
        running = [it for it in await env.pods(PODS) if it["status"].get("phase") == "Running"]
        return len({it["metadata"]["uid"] for it in running} - first) == NODES

    await env.until("all nodes to start again", started_again)
    await deleted(env)


async def test_both_controllers_are_killed_while_it_waits(
    env: Environment, cluster: ControlPlane, running_muster: Muster
) -> None:
    await env.add_node(cpu=NODES - 1)
    running_muster.kill(processes.CONTROLLER)
    await created(env, *example(env))
    cluster.kill("trainer")
    await running_muster.start(processes.CONTROLLER)
    await cluster.restart("trainer")
    await reports(env, TRAIN_JOBS, "tune", f"PodGroup {GROUP}")

    running_muster.kill(processes.CONTROLLER)
    await env.add_node(cpu=1)
    await env.runs(PODS, NODES)
    await running_muster.start(processes.CONTROLLER)

    await reports(env, TRAIN_JOBS, "tune", "")
    groups = (await env.client.list(POD_GROUPS, env.name))["items"]
    assert [it["metadata"]["name"] for it in groups] == [GROUP]
    await deleted(env)
