"""Jobs and JobSets whose groups are Kubernetes' own: `groups.api`.

The suite has its own control plane: elsewhere the gates have their default, off. The Job controller
creates native groups there, too (WorkloadWithJob), but not for Jobs of Muster's.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUPS_API,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_NOT_NATIVE,
    ANNOTATION_START_TIMEOUT,
    ANNOTATION_WAITING_FOR,
    NATIVE_GROUP,
    NATIVE_POD_GROUP,
)
from e2e.flows.native.control_plane import MARKS, serving
from e2e.harness.controlplane.commands import POD_MAKERS
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, NAMESPACE, SCHEDULER, WEBHOOK, Muster
from e2e.harness.objects import (
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod_spec,
    replicated_job,
)
from e2e.harness.running import installed, no_deployments
from e2e.harness.settled import settled
from e2e.harness.support import command
from kube.client.patch import PatchBuilder
from kube.client.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, JOBSETS, Resource

GROUPS = Resource(*NATIVE_POD_GROUP)
NATIVE_WORKLOADS = Resource(NATIVE_GROUP, "v1beta1", "workloads", "Workload")
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
RACK = "example.com/rack"

pytestmark = MARKS


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    gates = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadWithJob")
    controllers = ("podgroup-protection-controller", *POD_MAKERS)
    with serving(server_kind, gates, ["v1beta1"], extra_controllers=controllers) as made:
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster, groups={"api": "native"}) as muster:
        asyncio.run(no_deployments(cluster))
        yield muster


async def switch(env: Environment, muster: Muster, api: str) -> None:
    """Change the setting, which the processes read when they start."""
    muster.configure(groups={"api": api})
    for name in (WEBHOOK, CONTROLLER):
        await muster.restart(name)

    # The webhook discovers the API before it is asked for the first time, or soon after.
    async def probe() -> bool:
        found = await env.client.create(JOBS, job("probe", env.name) | {}, env.name, dry_run=True)
        return (ANNOTATION_GROUPS_API in found["metadata"]["annotations"]) == (api != "muster")

    await env.until(f"the webhook to use {api}", probe)


@pytest.fixture
async def native(env: Environment, running_muster: Muster) -> None:
    await switch(env, running_muster, "native")


async def names(env: Environment, kind: Resource) -> list[str]:
    return sorted(it["metadata"]["name"] for it in (await env.client.list(kind, env.name))["items"])


async def ours(env: Environment) -> list[str]:
    """Return the native groups of Muster's, without those of the Job controller."""
    return [it for it in await names(env, GROUPS) if it.startswith("pg-")]


async def owner(env: Environment, kind: Resource, name: str) -> Json:
    return await env.client.get(kind, name, env.name)


async def message(env: Environment, name: str) -> str:
    """Return the message of a native group's condition."""
    status = (await env.client.get(GROUPS, name, env.name)).get("status") or {}
    return " ".join(it["message"] for it in status.get("conditions", []))


async def waits(env: Environment, kind: Resource, name: str, text: str) -> None:
    async def probe() -> bool:
        notes = (await owner(env, kind, name))["metadata"].get("annotations", {})
        return text in notes.get(ANNOTATION_WAITING_FOR, "")

    await env.until(f"{name} to report that it waits for {text}", probe)


@pytest.mark.usefixtures("native")
async def test_a_job_that_does_not_start_in_time_is_suspended(env: Environment) -> None:
    await env.add_node(cpu=3)
    made = job("late", env.name)
    made["metadata"]["annotations"] |= {ANNOTATION_START_TIMEOUT: "5s"}
    await env.create(JOBS, made)

    async def suspended() -> bool:
        return (await owner(env, JOBS, "late"))["spec"].get("suspend") is True

    await env.until("the Job to be suspended", suspended)
    await env.has_pods(of_job("late"), 0)
    await env.add_node(cpu=1)
    await env.client.patch(JOBS, "late", PatchBuilder().add("/spec/suspend", False), env.name)
    await env.runs(of_job("late"), 4)


@pytest.mark.usefixtures("native")
async def test_a_job_starts_whole_in_a_native_group_and_another_says_why_it_waits(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await env.create(JOBS, job("first", env.name))
    await waits(env, JOBS, "first", "Insufficient cpu")
    assert await env.bound() == 0

    await env.add_node(cpu=2)
    await env.runs(of_job("first"), 4)
    (group,) = await names(env, GROUPS)
    assert (
        group
        == (await owner(env, JOBS, "first"))["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    )
    assert group.startswith("pg-job-first-")
    for pod in await env.pods(of_job("first")):
        assert pod["spec"]["schedulingGroup"] == {"podGroupName": group}
    assert await names(env, POD_GROUPS) == await names(env, WORKLOADS) == []
    assert await names(env, NATIVE_WORKLOADS) == []

    await env.create(JOBS, job("second", env.name))
    await waits(env, JOBS, "second", "Insufficient cpu")
    assert "Insufficient cpu" in await message(env, (await names(env, GROUPS))[1])
    assert await env.bound(of_job("second")) == 0
    explained = await command.muster(
        env.cluster.kubeconfig, "explain", "job/second", "-n", env.name
    )
    assert "Insufficient cpu" in explained.output
    tree = await command.muster(env.cluster.kubeconfig, "tree", "-n", env.name)
    assert f"PodGroup.{NATIVE_GROUP} {group}" in tree.output
    left = await command.muster(env.cluster.kubeconfig, "gc", "--check", "-n", env.name)
    assert left.code == 0, left
    await env.delete(JOBS, "first")
    await env.runs(of_job("second"), 4)
    await env.waits_for_nothing(JOBS, "second")


@pytest.mark.usefixtures("native")
@pytest.mark.long
async def test_a_jobset_starts_whole_in_native_groups(env: Environment) -> None:
    """One group for all of it, or one for each Job."""
    await env.add_node(cpu=7)
    await env.create(JOBSETS, jobset("wide", replicated_job("w", env.name)))
    await waits(env, JOBSETS, "wide", "Insufficient cpu")
    assert await env.bound() == 0
    await env.add_node(cpu=1)
    await env.runs(of_jobset("wide"), 8)

    each = replicated_job("r", env.name, mode="ReplicatedGang")
    await env.create(JOBSETS, jobset("each", each, mode=None))
    await env.has_pods(of_jobset("each"), 8)
    await env.add_node(cpu=4)
    await env.runs(of_jobset("each"), 4)
    await env.add_node(cpu=4)
    await env.runs(of_jobset("each"), 8)
    found = await names(env, GROUPS)
    assert [it.rpartition("-")[0] for it in found] == ["pg-each-r-0", "pg-each-r-1", "pg-wide"]
    assert await names(env, POD_GROUPS) == await names(env, WORKLOADS) == []


@pytest.mark.usefixtures("native")
@pytest.mark.long
async def test_a_job_of_the_same_name_gets_a_group_of_its_own(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, job("again", env.name))
    await env.runs(of_job("again"), 4)
    (before,) = await names(env, GROUPS)
    await env.delete(JOBS, "again")
    # It also asks the Job controller for a group, which would be a second one.
    both = job("again", env.name, pods=2)
    both["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    await env.create(JOBS, both)
    await env.runs(of_job("again"), 2)

    async def probe() -> bool:
        return len(await names(env, GROUPS)) == 1

    await env.until("only the new group to exist", probe)
    assert await names(env, GROUPS) != [before]


@pytest.mark.usefixtures("native")
@pytest.mark.long
async def test_a_job_resumes_in_its_native_group(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, job("paused", env.name))
    await env.runs(of_job("paused"), 4)
    await patch(env, "paused", suspend=True)
    await env.has_pods(of_job("paused"), 0)
    await patch(env, "paused", suspend=False)
    await env.runs(of_job("paused"), 4)


@pytest.mark.usefixtures("native")
@pytest.mark.long
async def test_a_deployment_starts_whole_in_a_native_group_and_scales(env: Environment) -> None:
    """Its pods name the group at their creation, as those of kinds of other projects do."""
    await env.add_node(cpu=3)
    labels = {"app": "serve"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(env.name)}
    template["spec"].pop("restartPolicy")
    made = {
        "metadata": {"name": "serve", "annotations": {ANNOTATION_GANG_MODE: "Gang"}},
        "spec": {"replicas": 4, "selector": {"matchLabels": labels}, "template": template},
    }
    await env.create(DEPLOYMENTS, made)
    await waits(env, DEPLOYMENTS, "serve", "Insufficient cpu")
    assert await env.bound() == 0
    await env.add_node(cpu=4)
    await env.runs("app=serve", 4)
    (group,) = await names(env, GROUPS)
    await patch(env, "serve", DEPLOYMENTS, replicas=6)
    await env.runs("app=serve", 6)
    named = {it["spec"]["schedulingGroup"]["podGroupName"] for it in await env.pods("app=serve")}
    assert named == {group}
    policy = (await env.client.get(GROUPS, group, env.name))["spec"]["schedulingPolicy"]
    assert policy == {"gang": {"minCount": 6}}
    await env.delete(DEPLOYMENTS, "serve")

    async def probe() -> bool:
        return await names(env, GROUPS) == []

    await env.until("the group to be deleted", probe)


async def patch(env: Environment, name: str, kind: Resource = JOBS, **spec: Any) -> None:
    ops = PatchBuilder()
    for key, value in spec.items():
        ops.add(f"/spec/{key}", value)
    await env.client.patch(kind, name, ops, env.name)


@pytest.mark.usefixtures("native")
@pytest.mark.long
async def test_without_the_right_a_job_says_so_and_starts_once_it_is_given(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    name = "muster-controller-native-groups"
    binding = await env.client.get(BINDINGS, name)
    # Doctor reads the configuration there, the processes of this suite read a file.
    file = f"namespace: {NAMESPACE}\ngroups: {{api: native}}\n"
    ops = PatchBuilder().add("/data/muster.yaml", file)
    await env.client.patch(CONFIG_MAPS, "muster", ops, NAMESPACE)
    await env.client.delete(BINDINGS, name)
    try:
        await env.create(JOBS, job("denied", env.name))
        await waits(env, JOBS, "denied", "podgroups.scheduling.k8s.io is forbidden")
        doctor = await command.muster(env.cluster.kubeconfig, "doctor")
        assert "it cannot create, delete, get, list, patch, watch" in doctor.output
        assert "native-groups-controller-rbac.yaml" in doctor.output
    finally:
        kept = {key: binding["metadata"][key] for key in ("name", "labels")}
        await env.client.create(BINDINGS, binding | {"metadata": kept})
    await env.runs(of_job("denied"), 4)


@pytest.mark.long
async def test_what_native_groups_cannot_state_falls_back_or_waits(
    env: Environment, running_muster: Muster
) -> None:
    await env.add_node(cpu=16, labels={RACK: "r"})
    tree = jobset("tree", replicated_job("w", env.name), mode="Composite")
    await switch(env, running_muster, "auto")
    await env.create(JOBSETS, tree)
    await env.runs(of_jobset("tree"), 8)
    notes = (await owner(env, JOBSETS, "tree"))["metadata"]["annotations"]
    assert "minGroupCount" in notes[ANNOTATION_NOT_NATIVE]
    racked = job("racked", env.name)
    racked["metadata"]["annotations"]["scheduling.muster.dev/topology"] = RACK
    await env.create(JOBS, racked)
    await env.runs(of_job("racked"), 4)
    (group,) = await names(env, GROUPS)
    spec = (await env.client.get(GROUPS, group, env.name))["spec"]
    assert spec["schedulingConstraints"] == {"topology": [{"key": RACK}]}
    assert [it.partition("-")[0] for it in await names(env, POD_GROUPS)] == ["pg", "pg"]

    await switch(env, running_muster, "native")
    await env.create(JOBSETS, tree | {"metadata": {**tree["metadata"], "name": "waits"}})
    await waits(env, JOBSETS, "waits", "groups.api is native, so its pods wait")
    assert await env.bound(of_jobset("waits")) == 0
    await switch(env, running_muster, "auto")
    await env.add_node(cpu=8)
    await env.runs(of_jobset("waits"), 8)


@pytest.mark.long
async def test_running_gangs_keep_their_groups_when_the_setting_changes(
    env: Environment, running_muster: Muster
) -> None:
    """From Muster's groups to native ones and back: nothing restarts, and nothing gets two."""
    await switch(env, running_muster, "muster")
    await env.add_node(cpu=24)
    await env.create(JOBS, job("a", env.name))
    await env.create(JOBSETS, jobset("s", replicated_job("w", env.name, replicas=1)))
    await env.runs(of_job("a"), 4)
    await env.runs(of_jobset("s"), 4)

    await switch(env, running_muster, "native")
    await env.create(JOBS, job("b", env.name))
    await env.create(JOBSETS, jobset("t", replicated_job("w", env.name, replicas=1)))
    await env.runs(of_job("b"), 4)
    await env.runs(of_jobset("t"), 4)

    await switch(env, running_muster, "muster")
    await running_muster.restart(SCHEDULER)
    await env.create(JOBS, job("c", env.name))
    await env.runs(of_job("c"), 4)

    selectors = [of_job("a"), of_job("b"), of_job("c"), of_jobset("s"), of_jobset("t")]
    before = {it: await env.uids(it) for it in selectors}
    assert await names(env, POD_GROUPS) == ["pg-job-a", "pg-job-c", "pg-s"]
    found = await ours(env)
    assert [it.rpartition("-")[0] for it in found] == ["pg-job-b", "pg-t"]

    await switch(env, running_muster, "native")
    await settled(env)
    assert {it: await env.uids(it) for it in selectors} == before
    assert await names(env, POD_GROUPS) == ["pg-job-a", "pg-job-c", "pg-s"]
    assert await ours(env) == found
