"""KubeRay's and the MPI operator's own controllers: their pods start together or not at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
import yaml

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_START_TIMEOUT,
    DEFAULT_SCHEDULER_NAME,
    LABEL_POD_GROUP,
    MPI_JOB,
    RAY_CLUSTER,
    RAY_JOB,
)
from api.reading import dig
from e2e.flows.owners.workloads.examples import EXAMPLES, reports
from e2e.harness import muster as processes
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import NODE_LABEL, POD_GROUPS, Json
from e2e.harness.running import installed, started
from kube.base.errors import Forbidden, Invalid
from kube.client.client import Client
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import EVENTS, PODS, Resource

pytestmark = pytest.mark.long

RAY_CLUSTERS, RAY_JOBS, MPI_JOBS = (Resource(*it) for it in (RAY_CLUSTER, RAY_JOB, MPI_JOB))
COUNT = 4


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("the operators need a real control plane")
    made = ControlPlane(Options(kuberay=True, mpi=True))
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def example(env: Environment, name: str) -> Json:
    """Return the example, on the nodes of this flow."""
    obj: Json = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    for template in templates(obj):
        template["spec"]["nodeSelector"] = {NODE_LABEL: env.name}
    return obj


def templates(obj: Json) -> list[Json]:
    spec = obj["spec"].get("rayClusterSpec", obj["spec"])
    if "mpiReplicaSpecs" in spec:
        return [it["template"] for it in spec["mpiReplicaSpecs"].values()]
    return [
        spec["headGroupSpec"]["template"],
        *(it["template"] for it in spec["workerGroupSpecs"]),
    ]


async def patched(env: Environment, path: str, value: int | bool) -> None:
    """Set a value in the RayCluster of the example."""
    await env.client.patch(RAY_CLUSTERS, "ring", PatchBuilder().add(path, value), env.name)


async def group_of(env: Environment) -> str:
    """Wait for the one group, and return its name."""
    found: list[str] = []

    async def probe() -> bool:
        groups = (await env.client.list(POD_GROUPS, env.name))["items"]
        found[:] = [it["metadata"]["name"] for it in groups]
        return len(found) == 1

    await env.until("one PodGroup", probe)
    return found[0]


SELECTORS = {
    "raycluster-gang": "ray.io/is-ray-node=yes",
    "rayjob-gang": "ray.io/is-ray-node=yes",
    "mpijob-gang": "training.kubeflow.org/job-name=ring",
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("raycluster-gang", RAY_CLUSTERS),
        ("mpijob-gang", MPI_JOBS),
        ("rayjob-gang", RAY_JOBS),
    ],
)
async def test_the_example_waits_whole_says_why_starts_and_leaves_nothing(
    env: Environment, name: str, kind: Resource
) -> None:
    obj = example(env, name)
    called, selector = obj["metadata"]["name"], SELECTORS[name]
    await env.add_node(cpu=COUNT - 1)
    await env.create(kind, obj)
    group = await group_of(env)
    await env.has_pods(selector, COUNT)
    await env.waits(group)
    assert await env.bound(selector) == 0
    await reports(env, kind, called, f"PodGroup {group}")
    if kind == RAY_JOBS:
        events = await env.client.list(EVENTS, env.name)
        reasons = {
            it["reason"] for it in events["items"] if it["involvedObject"]["kind"] == "RayJob"
        }
        assert "FailedScheduling" in reasons

    await env.add_node(cpu=1)
    await env.runs(selector, COUNT)
    await reports(env, kind, called, "")
    await env.delete(kind, called)
    await env.gone(POD_GROUPS, group)


async def test_a_cluster_of_ray_that_is_suspended_starts_whole_again(env: Environment) -> None:
    selector = SELECTORS["raycluster-gang"]
    await env.add_node(cpu=COUNT)
    await env.create(RAY_CLUSTERS, example(env, "raycluster-gang"))
    await env.runs(selector, COUNT)
    group = await group_of(env)
    uid = (await env.group(group))["metadata"]["uid"]

    await patched(env, "/spec/suspend", True)
    await env.gone(POD_GROUPS, group)
    await patched(env, "/spec/suspend", False)

    await env.runs(selector, COUNT)
    assert (await env.group(group))["metadata"]["uid"] != uid
    await env.delete(RAY_CLUSTERS, "ring")
    await env.gone(POD_GROUPS, group)


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("raycluster-gang", RAY_CLUSTERS, ("suspend",)),
        ("mpijob-gang", MPI_JOBS, ("runPolicy", "suspend")),
        ("rayjob-gang", RAY_JOBS, ("suspend",)),
    ],
)
async def test_one_that_does_not_start_in_time_is_suspended_and_starts_when_it_is_resumed(
    env: Environment, name: str, kind: Resource, path: tuple[str, ...]
) -> None:
    obj = example(env, name)
    obj["metadata"]["annotations"] |= {ANNOTATION_START_TIMEOUT: "5s"}
    called, selector = obj["metadata"]["name"], SELECTORS[name]
    await env.add_node(cpu=COUNT - 1)
    await env.create(kind, obj)

    async def suspended() -> bool:
        spec = (await env.client.get(kind, called, env.name))["spec"]
        return dig(spec, *path) is True

    await env.until("it to be suspended", suspended)
    await env.has_pods(selector, 0)
    await env.add_node(cpu=1)
    await env.client.patch(
        kind, called, PatchBuilder().add(pointer("spec", *path), False), env.name
    )
    await env.runs(selector, COUNT)
    await env.delete(kind, called)


async def test_the_controllers_account_may_suspend_what_has_a_limit_and_no_more(
    env: Environment, running_muster: Muster
) -> None:
    without, limited = example(env, "mpijob-gang"), example(env, "mpijob-gang")
    limited["metadata"] |= {"name": "limited"}
    limited["metadata"]["annotations"] |= {ANNOTATION_START_TIMEOUT: "1h"}
    ray = example(env, "raycluster-gang")
    ray["metadata"]["annotations"] |= {ANNOTATION_START_TIMEOUT: "1h"}
    for kind, obj in ((MPI_JOBS, without), (MPI_JOBS, limited), (RAY_CLUSTERS, ray)):
        await env.create(kind, obj)
    async with await Client.connect(running_muster.kubeconfig(processes.CONTROLLER)) as client:

        async def rejected(kind: Resource, name: str, ops: PatchBuilder) -> None:
            with pytest.raises((Invalid, Forbidden), match="nothing but the annotation"):
                await client.patch(kind, name, ops, env.name)

        policy, suspend = "/spec/runPolicy", "/spec/runPolicy/suspend"
        await rejected(MPI_JOBS, "ring", PatchBuilder().add(policy, {"suspend": True}))
        for ops in (
            PatchBuilder().add(policy, {"suspend": False}),
            PatchBuilder().add(policy, {"suspend": True, "cleanPodPolicy": "All"}),
            PatchBuilder().add(policy, {"suspend": True}).add("/spec/slotsPerWorker", 7),
        ):
            await rejected(MPI_JOBS, "limited", ops)
        workers = "/spec/workerGroupSpecs/0/replicas"
        for ops in (
            PatchBuilder().add("/spec/suspend", True).add(workers, 9),
            PatchBuilder().add(workers, 9),
            PatchBuilder().add("/spec/suspend", False),
        ):
            await rejected(RAY_CLUSTERS, "ring", ops)

        await client.patch(
            MPI_JOBS, "limited", PatchBuilder().add(policy, {"suspend": True}), env.name
        )
        await client.patch(
            RAY_CLUSTERS, "ring", PatchBuilder().add("/spec/suspend", True), env.name
        )
        await rejected(MPI_JOBS, "limited", PatchBuilder().add(suspend, False))
        await rejected(RAY_CLUSTERS, "ring", PatchBuilder().add("/spec/suspend", False))
    for kind, name in ((MPI_JOBS, "ring"), (MPI_JOBS, "limited"), (RAY_CLUSTERS, "ring")):
        await env.delete(kind, name)


@dataclass(frozen=True, slots=True)
class Elastic:
    """An example whose number of workers can change: its kind, its file, and their field."""

    kind: Resource
    name: str
    workers: Sequence[str | int]

    @property
    def selector(self) -> str:
        return SELECTORS[self.name]


RAY = Elastic(RAY_CLUSTERS, "raycluster-gang", ("spec", "workerGroupSpecs", 0))
MPI = Elastic(MPI_JOBS, "mpijob-gang", ("spec", "mpiReplicaSpecs", "Worker"))


@pytest.mark.parametrize("of", [RAY, MPI], ids=["RayCluster", "MPIJob"])
async def test_workers_that_are_added_join_the_gang_and_those_taken_away_are_not_missed(
    env: Environment, of: Elastic
) -> None:
    await env.add_node(cpu=COUNT + 2)
    obj = example(env, of.name)
    if of is RAY:
        obj["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 0, "maxReplicas": 9}
    await env.create(of.kind, obj)
    await env.runs(of.selector, COUNT)
    group = await group_of(env)
    for replicas in (5, 1):
        patch = PatchBuilder().add(pointer(*of.workers, "replicas"), replicas)
        await env.client.patch(of.kind, "ring", patch, env.name)
        await env.runs(of.selector, replicas + 1)

        async def probe(wanted: int = replicas + 1) -> bool:
            policy = (await env.group(group))["spec"]["schedulingPolicy"]
            return bool(policy["gang"]["minCount"] == wanted)

        await env.until("minCount to follow", probe)
    await env.delete(of.kind, "ring")
    await env.gone(POD_GROUPS, group)


async def test_a_late_launcher_is_created_once_its_workers_are_ready_and_is_not_in_the_gang(
    env: Environment,
) -> None:
    obj, selector = example(env, "mpijob-gang"), SELECTORS["mpijob-gang"]
    obj["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    await env.add_node(cpu=COUNT)
    await env.create(MPI_JOBS, obj)
    await env.runs(f"{selector},training.kubeflow.org/job-role=worker", COUNT - 1)
    group = await group_of(env)
    minimum = (await env.group(group))["spec"]["schedulingPolicy"]["gang"]["minCount"]
    assert minimum == COUNT - 1
    launcher = f"{selector},training.kubeflow.org/job-role=launcher"
    await env.has_pods(launcher, 1)
    (pod,) = await env.pods(launcher)
    assert pod["spec"]["schedulerName"] == DEFAULT_SCHEDULER_NAME
    assert LABEL_POD_GROUP not in pod["metadata"]["labels"]
    await env.delete(MPI_JOBS, "ring")
    await env.gone(POD_GROUPS, group)


@pytest.mark.parametrize(
    ("of", "role"),
    [
        pytest.param(RAY, "ray.io/node-type=worker", id="worker of a RayCluster"),
        pytest.param(RAY, "ray.io/node-type=head", id="head"),
        pytest.param(MPI, "training.kubeflow.org/job-role=worker", id="worker of an MPIJob"),
        pytest.param(MPI, "training.kubeflow.org/job-role=launcher", id="launcher"),
    ],
)
async def test_a_pod_that_is_lost_is_replaced_in_its_gang(
    env: Environment, of: Elastic, role: str
) -> None:
    await env.add_node(cpu=COUNT)
    await env.create(of.kind, example(env, of.name))
    await env.runs(of.selector, COUNT)
    group = await group_of(env)
    lost = (await env.pods(f"{of.selector},{role}"))[0]["metadata"]
    await env.client.delete(PODS, lost["name"], env.name)

    async def replaced() -> bool:
        pods = await env.pods(of.selector)
        alive = [it for it in pods if it["status"].get("phase") == "Running"]
        return len(alive) == COUNT and lost["uid"] not in {it["metadata"]["uid"] for it in alive}

    await env.until(f"{lost['name']} to be replaced", replaced)
    assert await group_of(env) == group
    await env.delete(of.kind, "ring")
    await env.gone(POD_GROUPS, group)


async def test_the_pod_that_cleans_up_after_a_deleted_cluster_waits_for_nobody(
    env: Environment,
) -> None:
    """KubeRay gives it five minutes, and keeps the RayCluster until it has ended."""
    selector = SELECTORS["raycluster-gang"]
    await env.add_node(cpu=COUNT)
    obj = example(env, "raycluster-gang")
    obj["spec"]["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    await env.create(RAY_CLUSTERS, obj)
    await env.runs(selector, COUNT)
    group = await group_of(env)

    await env.delete(RAY_CLUSTERS, "ring")
    cleanup = "ray.io/node-type=redis-cleanup"

    async def runs() -> bool:
        # Before, its node would write over the phase below.
        return any(it["status"].get("phase") == "Running" for it in await env.pods(cleanup))

    await env.until("the pod that cleans up to run", runs)
    (pod,) = await env.pods(cleanup)
    ended = PatchBuilder().add("/status/phase", "Succeeded")
    await env.client.patch(PODS, pod["metadata"]["name"], ended, env.name, subresource="status")
    await env.gone(POD_GROUPS, group)


async def test_what_is_wrong_with_a_rayjob_is_said_of_the_rayjob(env: Environment) -> None:
    obj = example(env, "rayjob-gang")
    obj["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"] |= {
        "schedulerName": "volcano"
    }
    with pytest.raises(Invalid) as refused:
        await env.create(RAY_JOBS, obj)
    assert "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.schedulerName" in str(
        refused.value
    )

    using = example(env, "rayjob-gang")
    using["spec"] = {"entrypoint": "true", "clusterSelector": {"ray.io/cluster": "other"}}
    with pytest.raises(Invalid, match=ANNOTATION_GANG_MODE.replace("/", ".")):
        await env.create(RAY_JOBS, using)


async def test_the_controllers_are_killed_while_a_gang_waits(
    env: Environment, running_muster: Muster
) -> None:
    selector = SELECTORS["mpijob-gang"]
    await env.add_node(cpu=COUNT - 1)
    running_muster.kill(processes.CONTROLLER)
    await env.create(MPI_JOBS, example(env, "mpijob-gang"))
    await env.has_pods(selector, COUNT)
    await running_muster.start(processes.CONTROLLER)
    group = await group_of(env)
    await env.waits(group)
    running_muster.kill(processes.CONTROLLER)
    await env.add_node(cpu=1)
    await env.runs(selector, COUNT)
    await running_muster.start(processes.CONTROLLER)
    await env.delete(MPI_JOBS, "ring")
    await env.gone(POD_GROUPS, group)
