"""Kubernetes' native gangs alongside Muster's: 1.36 with all its alpha gates for workloads.

kube-scheduler places the gangs that the Job controller creates (WorkloadWithJob) and those created
by hand. Muster must not touch them, and kube-scheduler must not touch Muster's. The suite has its
own control plane: elsewhere the gates have their default, off.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.constants import FOREIGN_GROUPS_ENABLED, LABEL_FOREIGN_GROUPS
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import TAINT, Environment
from e2e.harness.groups import members
from e2e.harness.muster import Muster
from e2e.harness.objects import (
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
)
from e2e.harness.running import installed, started
from e2e.harness.settled import settled
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, NAMESPACES, PODS, Resource

GATES = (
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "WorkloadWithJob",
)
NATIVE_GROUP = "scheduling.k8s.io"
NATIVE_WORKLOADS = Resource(NATIVE_GROUP, "v1alpha2", "workloads", "Workload")
NATIVE_POD_GROUPS = Resource(NATIVE_GROUP, "v1alpha2", "podgroups", "PodGroup")
DEFAULT = "default-scheduler"
OURS = "muster-scheduler"
READS = {"get", "list", "watch"}

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.since("1.36", "Kubernetes has PodGroups and these gates since 1.36"),
    pytest.mark.until("1.37", "1.37 has other gates, and Muster serves its groups"),
]


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("the gates need a real control plane: run with --cluster=real")
    made = ControlPlane(
        Options(
            scheduler=True,
            feature_gates=dict.fromkeys(GATES, True),
            runtime_config=(f"{NATIVE_GROUP}/v1alpha2=true",),
            extra_controllers=("podgroup-protection-controller",),
        )
    )
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def indexed(name: str, env: Environment, *, mode: str | None) -> Json:
    """Return a Job for which the Job controller creates a gang."""
    made = job(name, env.name, mode=mode)
    made["spec"]["completionMode"] = "Indexed"
    return made


async def native_gang(env: Environment, name: str, pods: int) -> None:
    """Create a Workload, its PodGroup, and pods that name it by the field."""
    policy = {"gang": {"minCount": pods}}
    template = {"name": "workers", "schedulingPolicy": policy}
    workload = {"metadata": {"name": name}, "spec": {"podGroupTemplates": [template]}}
    reference = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
    group = {
        "metadata": {"name": name},
        "spec": {"podGroupTemplateRef": reference, "schedulingPolicy": policy},
    }
    await env.create(NATIVE_WORKLOADS, workload)
    await env.create(NATIVE_POD_GROUPS, group)
    for index in range(pods):
        await env.create(PODS, named_by_field(f"{name}-{index}", env, name))


def named_by_field(name: str, env: Environment, group: str, scheduler: str = DEFAULT) -> Json:
    made = pod(name, env.name, scheduler=scheduler)
    made["metadata"]["labels"] = {"gang": group}
    made["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


async def native_scheduled(env: Environment, name: str) -> bool:
    """Return True if kube-scheduler reports the group as scheduled."""
    status = (await env.client.get(NATIVE_POD_GROUPS, name, env.name)).get("status") or {}
    said = {c["type"]: c["status"] for c in status.get("conditions") or []}
    return said.get("PodGroupScheduled") == "True"


async def names(env: Environment, kind: Resource) -> list[str]:
    found = (await env.client.list(kind, env.name))["items"]
    return [each["metadata"]["name"] for each in found]


async def waiting(env: Environment, selector: str, count: int) -> None:
    """Wait until that many pods exist, and each is unschedulable for its scheduler."""

    async def probe() -> bool:
        pods = await env.pods(selector)
        said = [
            {c["type"]: c["status"] for c in each["status"].get("conditions") or []}
            for each in pods
        ]
        return len(pods) == count and all(it.get("PodScheduled") == "False" for it in said)

    await env.until(f"{count} pods of {selector} to be refused", probe)


def touched(audit: Path, namespace: str) -> list[str]:
    """Return the writes of Muster's accounts to native objects, and to the namespace."""
    found = []
    for line in audit.read_text().splitlines():
        entry = json.loads(line)
        about = entry.get("objectRef", {})
        native = about.get("apiGroup") == NATIVE_GROUP and about["resource"] != "priorityclasses"
        there = about.get("namespace") == namespace
        if entry["verb"] not in READS and (native or there):
            found.append(f"{entry['verb']} {about['resource']} {about.get('name')}")
    return found


@pytest.mark.long
async def test_gangs_of_kube_scheduler_are_not_touched(
    env: Environment, cluster: ControlPlane
) -> None:
    """Both run completely: the Job controller's gang and one created by hand.

    Each fits three pods.
    """
    await env.add_node(cpu=3)
    await env.create(JOBS, indexed("theirs", env, mode=None))
    await waiting(env, of_job("theirs"), 4)
    await env.add_node(cpu=1)
    await env.runs(of_job("theirs"), 4)
    (made,) = await names(env, NATIVE_POD_GROUPS)
    assert await native_scheduled(env, made)

    await native_gang(env, "by-hand", 4)
    await waiting(env, "gang=by-hand", 4)
    assert await env.bound("gang=by-hand") == 0
    await env.add_node(cpu=4)
    await env.runs("gang=by-hand", 4)
    await env.until("the group to be scheduled", lambda: native_scheduled(env, "by-hand"))

    assert await names(env, POD_GROUPS) == []
    assert {each["spec"]["schedulerName"] for each in await env.pods()} == {DEFAULT}
    assert touched(cluster.audit_log, env.name) == []


@pytest.mark.long
async def test_both_wait_for_the_same_room_and_neither_starts_half(env: Environment) -> None:
    """With capacity for three, no pod of either gang runs.

    With capacity for a gang, one runs completely.
    """
    await env.add_node(cpu=3)
    await native_gang(env, "theirs", 4)
    await env.create(POD_GROUPS, pod_group("ours", 4))
    for index in range(4):
        member = pod(f"ours-{index}", env.name, group="ours")
        member["spec"]["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
        await env.create(PODS, member)
    await env.waits("ours", needed=4)
    await waiting(env, "gang=theirs", 4)
    assert await env.bound() == 0

    # Both schedulers may take the same capacity at the same moment: the taint lets one of them go
    # first.
    node = await env.add_node(cpu=1, tainted=True)
    await env.runs(members("ours"), 4)
    await kube_scheduler_has_seen_all_pods(env)
    await env.untaint_node(node)
    await settled(env)
    assert await env.bound("gang=theirs") == 0
    await env.add_node(cpu=4)
    await env.runs("gang=theirs", 4)


async def kube_scheduler_has_seen_all_pods(env: Environment) -> None:
    """Wait until kube-scheduler has placed a pod created after all Bindings.

    Its watch delivers these first.
    """
    late = pod("late", env.name, scheduler=DEFAULT)
    late["spec"]["containers"][0]["resources"] = {}
    await env.create(PODS, late)

    async def placed() -> bool:
        return "nodeName" in (await env.client.get(PODS, "late", env.name))["spec"]

    await env.until("kube-scheduler to place a pod", placed)


@pytest.mark.long
async def test_gangs_of_muster_are_whole_where_the_job_controller_makes_groups_too(
    env: Environment,
) -> None:
    """The Job controller creates a group for an Indexed Job, whatever its scheduler."""
    await env.add_node(cpu=3)
    await env.create(JOBS, indexed("ours", env, mode="Gang"))
    await waiting(env, of_job("ours"), 4)
    await env.waits("pg-job-ours", needed=4)
    pods = await env.pods(of_job("ours"))
    assert {each["spec"]["schedulerName"] for each in pods} == {OURS}
    assert all(each["spec"]["schedulingGroup"]["podGroupName"] for each in pods)
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs(of_job("ours"), 4)
    await env.scheduled("pg-job-ours")


@pytest.mark.long
async def test_a_jobset_of_muster_is_one_gang(env: Environment) -> None:
    await env.add_node(cpu=3)
    jobs = [replicated_job(name, env.name, replicas=1, pods=2) for name in ("a", "b")]
    await env.create(JOBSETS, jobset("ours", *jobs))
    await waiting(env, of_jobset("ours"), 4)
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs(of_jobset("ours"), 4)
    await env.scheduled("pg-ours")


@pytest.mark.long
async def test_the_field_names_musters_group_for_its_pods_and_where_a_namespace_opts_in(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    await env.create(POD_GROUPS, pod_group("chosen", 2))
    for index in range(2):
        made = named_by_field(f"chosen-{index}", env, "chosen", scheduler=OURS)
        await env.create(PODS, made)
    await env.runs("gang=chosen", 2)
    await env.scheduled("chosen")

    labels = PatchBuilder().add(
        f"/metadata/labels/{LABEL_FOREIGN_GROUPS.replace('/', '~1')}", FOREIGN_GROUPS_ENABLED
    )
    await env.client.patch(NAMESPACES, env.name, labels)
    await env.create(POD_GROUPS, pod_group("given", 2))

    async def given() -> bool:
        """API servers observe the namespace's new label by their own watch."""
        name = f"given-{len(await env.pods('gang=given'))}"
        made = await env.create(PODS, named_by_field(name, env, "given", scheduler=""))
        if made["spec"]["schedulerName"] == OURS:
            return True
        await env.delete(PODS, name)
        await env.has_pods("gang=given", 0)
        return False

    await env.until("the namespace's pods to be Muster's", given)
    await env.create(PODS, named_by_field("given-1", env, "given", scheduler=""))
    await env.runs("gang=given", 2)
    await env.scheduled("given")
