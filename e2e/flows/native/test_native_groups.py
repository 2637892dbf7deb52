"""Kubernetes' own groups on one control plane, with kube-scheduler next to Muster.

Each schedules the groups of its own pods: whole or not at all, and no group is served by both. The
suite has its own control plane: elsewhere the gates have their default, off.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_EVICTION_COST,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    NATIVE_COMPOSITE_POD_GROUP,
    NATIVE_GROUP,
    NATIVE_POD_GROUP,
)
from api.eviction import preemptions_of
from e2e.flows.native.control_plane import MARKS, serving
from e2e.harness.controlplane.commands import DEVICES
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    Devices,
    claim_template,
    request,
    with_claims,
)
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import POD_GROUPS, Json, job, of_job, pod
from e2e.harness.running import installed
from e2e.harness.settled import settled
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, PODS, PRIORITY_CLASSES, Resource

GROUPS = Resource(*NATIVE_POD_GROUP)
COMPOSITES = Resource(*NATIVE_COMPOSITE_POD_GROUP)
WORKLOADS = Resource(NATIVE_GROUP, "v1beta1", "workloads", "Workload")
GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
    "WorkloadWithJob",
)
DEFAULT = "default-scheduler"
OURS = "muster-scheduler"
RACK = "example.com/rack"

pytestmark = MARKS


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    controllers = ("podgroup-protection-controller", *DEVICES)
    versions = ["v1beta1", "v1alpha3"]
    with serving(
        server_kind, GATES, versions, scheduler=True, extra_controllers=controllers
    ) as made:
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


async def group(env: Environment, name: str, minimum: int | None, **spec: Any) -> Json:
    """Create a PodGroup of Kubernetes' own; without a minimum, of the policy `basic`."""
    policy: Json = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    obj = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
    return await env.create(GROUPS, obj)


async def pods(
    env: Environment, of: str, count: int, scheduler: str = OURS, **spec: Any
) -> list[Json]:
    """Create pods that name the group by the field."""
    made = []
    for _ in range(count):
        member = pod("", env.name, scheduler=scheduler)
        member["metadata"] = {"generateName": f"{of}-", "labels": {"gang": of}}
        member["spec"] |= {"schedulingGroup": {"podGroupName": of}, **spec}
        made.append(await env.create(PODS, member))
    return made


async def condition(env: Environment, name: str, kind: Resource = GROUPS) -> Json:
    status = (await env.client.get(kind, name, env.name)).get("status") or {}
    found = status.get("conditions") or []
    return next((it for it in found if it["type"].endswith("InitiallyScheduled")), {})


async def until(
    env: Environment, name: str, reason: str, kind: Resource = GROUPS, *, words: str = ""
) -> Json:
    """Wait until the group's condition has this reason and these words, and return the condition.

    A group has the same reason, with other words, before all of its pods exist.
    """
    found: Json = {}

    async def probe() -> bool:
        nonlocal found
        found = await condition(env, name, kind)
        return found.get("reason") == reason and words in found.get("message", "")

    await env.until(f"{name} to be {reason}", probe)
    return found


async def test_two_schedulers_serve_the_groups_of_their_own_pods(env: Environment) -> None:
    """Neither starts half, and each reports its own alone."""
    await env.add_node(cpu=3)
    for name, scheduler in (("ours", OURS), ("theirs", DEFAULT)):
        await group(env, name, 4)
        await pods(env, name, 4, scheduler)
    waits = await until(env, "ours", "Unschedulable", words="Insufficient cpu")
    await until(env, "theirs", "Unschedulable")
    assert await env.bound() == 0
    assert "Insufficient cpu" in waits["message"]

    await env.add_node(cpu=5)
    await env.runs("gang=ours", 4)
    await env.runs("gang=theirs", 4)
    await until(env, "ours", "Scheduled")
    await until(env, "theirs", "Scheduled")
    ours = await env.client.get(GROUPS, "ours", env.name)
    assert list(ours["status"]) == ["conditions"]
    finalizers = ours["metadata"].get("finalizers", [])
    assert not any("muster" in each for each in finalizers)


async def test_a_tree_starts_in_one_rack_or_not_at_all(env: Environment) -> None:
    topology = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    templates = [{"name": it, "schedulingPolicy": {"gang": {"minCount": 2}}} for it in ("a", "b")]
    composite = {
        "name": "root",
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        "podGroupTemplates": templates,
    }
    alpha = Resource(NATIVE_GROUP, "v1alpha3", "workloads", "Workload")
    spec = {"compositePodGroupTemplates": [composite]}
    await env.create(alpha, {"metadata": {"name": "tree"}, "spec": spec})
    root = {
        "metadata": {"name": "root"},
        "spec": {
            "workloadRef": {"workloadName": "tree", "templateName": "root"},
            "schedulingPolicy": composite["schedulingPolicy"],
            **topology,
        },
    }
    await env.create(COMPOSITES, root)
    for name in ("a", "b"):
        await group(
            env, name, 2, parentCompositePodGroupName="root",
            workloadRef={"workloadName": "tree", "templateName": name},
        )  # fmt: skip
        await pods(env, name, 2)
    for index in range(3):
        await env.add_node(cpu=2, labels={RACK: f"r{index}"})
    refused = await until(env, "root", "Unschedulable", COMPOSITES, words=RACK)
    below = await until(env, "a", "Unschedulable", words="ancestor")
    assert await env.bound() == 0
    assert RACK in refused["message"]
    assert below["message"] == 'ancestor composite pod group "root" is unschedulable'

    await env.add_node(cpu=2, labels={RACK: "r1"})
    await env.runs("gang=a", 2)
    await env.runs("gang=b", 2)
    await until(env, "root", "Scheduled", COMPOSITES)


async def test_a_job_whose_controller_creates_the_group_starts_whole(env: Environment) -> None:
    """The Job controller creates a gang if the Job asks for one, else a basic group."""
    await env.add_node(cpu=3)
    gang = job("gang", env.name, mode=None)
    gang["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    plain = job("plain", env.name, pods=1, mode=None)
    for each in (gang, plain):
        each["spec"]["template"]["spec"]["schedulerName"] = OURS
    await env.create(JOBS, gang)

    async def refused() -> bool:
        found = [it["status"].get("conditions") or [] for it in await env.pods(of_job("gang"))]
        said = [{c["type"]: c["status"] for c in each} for each in found]
        return len(said) == 4 and all(it.get("PodScheduled") == "False" for it in said)

    await env.until("the Job's pods to be refused", refused)
    assert await env.bound() == 0
    await env.create(JOBS, plain)
    await env.runs(of_job("plain"), 1)
    await env.add_node(cpu=2)
    await env.runs(of_job("gang"), 4)
    assert (await env.client.list(POD_GROUPS, env.name))["items"] == []


@pytest.mark.long
async def test_a_gang_of_muster_wins_over_the_job_controllers_group(env: Environment) -> None:
    await env.add_node(cpu=3)
    made = job("both", env.name)
    made["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    await env.create(JOBS, made)
    await env.waits("pg-job-both", needed=4)
    assert await env.bound() == 0
    await env.add_node(cpu=1)
    await env.runs(of_job("both"), 4)
    await env.scheduled("pg-job-both")


@pytest.mark.long
async def test_pods_of_a_basic_group_start_one_by_one_once_it_exists(env: Environment) -> None:
    await env.add_node(cpu=2)
    await pods(env, "loose", 3)
    await settled(env)
    assert await env.bound() == 0
    await group(env, "loose", None)
    await env.runs("gang=loose", 2)
    await until(env, "loose", "Scheduled")


@pytest.mark.long
async def test_a_gang_shares_the_claim_of_its_group(env: Environment, devices: Devices) -> None:
    """Kubernetes creates the claim from the template; it is reserved for the group alone."""
    channels = await devices.add_class()
    with_device = await env.add_node(cpu=4)
    await env.add_node(cpu=4)
    await devices.publish(with_device, 1)
    await env.create(CLAIM_TEMPLATES, claim_template("channel", request(channels)))
    entry = {"resourceClaimTemplateName": "channel"}
    await group(env, "sharing", 3, resourceClaims=[{"name": "imex", **entry}])
    member = with_claims(pod("", env.name)["spec"], {"imex": entry})
    spec = {key: member[key] for key in ("containers", "resourceClaims")}
    await pods(env, "sharing", 3, **spec)

    await env.runs("gang=sharing", 3)
    assert {it["spec"]["nodeName"] for it in await env.pods("gang=sharing")} == {with_device}
    (claim,) = await devices.claims()
    (consumer,) = claim["status"]["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("podgroups", "sharing")


@pytest.mark.long
async def test_a_tree_of_two_schedulers_starts_nothing(env: Environment) -> None:
    await env.add_node(cpu=8)
    await group(env, "mixed", 2)
    await pods(env, "mixed", 2, OURS)
    await env.runs("gang=mixed", 2)
    await group(env, "half", 2)
    await pods(env, "half", 1, DEFAULT)
    await pods(env, "half", 1, OURS)

    async def failed() -> bool:
        return str((await condition(env, "half")).get("reason")).endswith("Error")

    await env.until("the group to be in error", failed)
    await settled(env)
    assert await env.bound("gang=half") == 0


@pytest.mark.long
async def test_a_deleted_group_is_kept_for_its_pods_and_starts(env: Environment) -> None:
    """Kubernetes' finalizer keeps it until they have ended."""
    await env.add_node(cpu=1)
    await group(env, "leaving", 2)
    await pods(env, "leaving", 2)
    await until(env, "leaving", "Unschedulable")
    await env.client.delete(GROUPS, "leaving", env.name)
    assert (await env.client.get(GROUPS, "leaving", env.name))["metadata"]["deletionTimestamp"]
    await env.add_node(cpu=1)
    await env.runs("gang=leaving", 2)
    await until(env, "leaving", "Scheduled")


@asynccontextmanager
async def important(env: Environment) -> AsyncIterator[str]:
    """Create a PriorityClass of high priority; yield its name."""
    kind, name = PRIORITY_CLASSES, f"{env.name}-high"
    meta = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    await env.client.create(kind, meta | {"value": 1000})
    try:
        yield name
    finally:
        await env.client.delete(kind, name)


@pytest.mark.parametrize("mode", ["all", pytest.param("single", marks=pytest.mark.long)])
async def test_of_a_group_of_kube_scheduler_all_pods_go_or_none(
    env: Environment, mode: str
) -> None:
    """Mode `single` leaves the pods that need not go."""
    async with important(env) as high:
        for _ in range(4):
            await env.add_node(cpu=1)
        await group(env, "victim", 4, disruptionMode={mode: {}})
        await pods(env, "victim", 4, DEFAULT)
        await env.runs("gang=victim", 4)
        await until(env, "victim", "Scheduled")
        await group(env, "urgent", 2, priorityClassName=high)
        await pods(env, "urgent", 2, priorityClassName=high)
        await env.runs("gang=urgent", 2)
        left = [it for it in await env.pods("gang=victim") if it["spec"].get("nodeName")]
        assert len(left) == (0 if mode == "all" else 2)


async def test_the_group_with_the_lowest_cost_goes_and_counts_it(env: Environment) -> None:
    costs = {"cheap": "-1", "costly": "1", "usual": "0"}
    async with important(env) as high:
        for name, cost in costs.items():
            await env.add_node(cpu=1)
            await group(env, name, 1, disruptionMode={"all": {}})
            patch = PatchBuilder().add("/metadata/annotations", {ANNOTATION_EVICTION_COST: cost})
            await env.client.patch(GROUPS, name, patch, env.name)
            await pods(env, name, 1)
            await env.runs(f"gang={name}", 1)
        await group(env, "urgent", 1, priorityClassName=high)
        await pods(env, "urgent", 1, priorityClassName=high)
        await env.runs("gang=urgent", 1)

        async def counted() -> bool:
            found = {name: await env.client.get(GROUPS, name, env.name) for name in costs}
            counts = {name: preemptions_of(obj["status"])[0] for name, obj in found.items()}
            return counts == {"cheap": 1, "costly": 0, "usual": 0}

        await env.until("the preemption to be counted", counted)
        assert await env.running("gang=costly") == await env.running("gang=usual") == 1


async def test_a_native_group_is_cut_into_slices_by_its_annotations(env: Environment) -> None:
    """No webhook of Muster sees the group: a wrong value ends in its condition."""
    for number in range(3):
        await env.add_node(cpu=3, labels={RACK: f"r{number}"})
    await group(env, "g", 4)
    notes = {ANNOTATION_SLICE_SIZE: "1000000000", ANNOTATION_SLICE_TOPOLOGY: RACK}
    await env.client.patch(
        GROUPS, "g", PatchBuilder().add("/metadata/annotations", notes), env.name
    )
    await pods(env, "g", 4)

    refused = await until(env, "g", "PodGroupError", words="slice-size")
    assert "must be an integer between 1 and 100000" in refused["message"]
    assert await env.bound() == 0

    right = PatchBuilder().add("/metadata/annotations", notes | {ANNOTATION_SLICE_SIZE: "2"})
    await env.client.patch(GROUPS, "g", right, env.name)
    await env.runs("gang=g", 4)

    nodes = [each["spec"]["nodeName"] for each in await env.pods("gang=g")]
    assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2]


@pytest.mark.long
async def test_killed_schedulers_start_no_group_half(
    env: Environment, cluster: ControlPlane, running_muster: Muster
) -> None:
    """Both schedulers are killed while gangs of three of each start; room is for six of nine."""
    names = {f"g{at}": OURS if at % 2 else DEFAULT for at in range(9)}
    for name, scheduler in names.items():
        await group(env, name, 3)
        await pods(env, name, 3, scheduler)

    async def bound() -> dict[str, int]:
        return {name: await env.bound(f"gang={name}") for name in names}

    for at in range(6):
        await env.add_node(cpu=3)
        # At another moment of the decisions and Bindings each time.
        await asyncio.sleep(0.05 * at)
        running_muster.kill("scheduler")
        if at % 3 == 0:
            cluster.kill("kube-scheduler")
            await cluster.restart("kube-scheduler")
        await running_muster.restart("scheduler")

    ours = [name for name, scheduler in names.items() if scheduler == OURS]

    async def whole() -> bool:
        """Each group of Muster's is whole, and says so. A killed kube-scheduler may leave half."""
        now = await bound()
        said = {name: (await condition(env, name)).get("reason") for name in ours}
        wanted = {name: "Scheduled" if now[name] else "Unschedulable" for name in ours}
        return {now[name] for name in ours} <= {0, 3} and said == wanted

    await env.until("all groups of Muster's to run or to wait whole", whole)
    await settled(env)
    assert await whole()
    assert sum((await bound()).values()) >= 15
    for name, scheduler in names.items():
        found = await env.pods(f"gang={name}")
        assert {each["spec"]["schedulerName"] for each in found} == {scheduler}
