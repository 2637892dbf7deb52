"""Karpenter buys a gang's missing nodes, once, and no gang starts before all of them exist."""

import asyncio
from datetime import datetime

import pytest

from api.constants import ANNOTATION_PREEMPTION_DELAY, ANNOTATION_TOPOLOGY
from e2e.harness.controlplane.karpenter import ZONES
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, tree
from e2e.harness.objects import Json, job, jobset, of_job, of_jobset, pod, replicated_job
from e2e.neighbours.karpenter.nodepools import ZONE, NodePools, Offer
from kube.client.patch import PatchBuilder
from kube.client.resources import EVENTS, JOBS, JOBSETS, NODES, PODS

HOST = "kubernetes.io/hostname"

pytestmark = pytest.mark.timeout(240)


async def started_whole(env: Environment, selector: str = "") -> None:
    """Check that no pod was bound before the last node that the others needed existed."""
    pods = await env.pods(selector)
    names = {pod["spec"]["nodeName"] for pod in pods}
    nodes = [await env.client.get(NODES, name) for name in names]
    last = max(_time(node["metadata"]["creationTimestamp"]) for node in nodes)
    assert min(map(_scheduled, pods)) >= last


def _scheduled(pod: Json) -> datetime:
    (condition,) = (c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["status"] == "True"
    return _time(condition["lastTransitionTime"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def events_on_pods(env: Environment) -> list[str]:
    """Return the pods for which Muster recorded a reason, once for each event."""
    events = (await env.client.list(EVENTS, env.name))["items"]
    return [
        event["involvedObject"]["name"]
        for event in events
        if event["reason"] == "FailedScheduling"
        and event["reportingComponent"].startswith("muster")
        for _ in range(event["count"])
    ]


async def idle_nodes_went(env: Environment, nodepools: NodePools) -> None:
    """Wait until Karpenter has deleted a node that became idle after this call."""
    room = f"{env.name}-idle"
    async with nodepools.for_others(room) as others:
        decoy = pod("decoy", room, scheduler="default-scheduler")
        await env.create(PODS, decoy)
        await others.holds(1)
        await env.delete(PODS, "decoy")
        await others.holds(0)


async def test_a_plain_job_gets_what_it_lacks(env: Environment, nodepools: NodePools) -> None:
    """The pods are kube-scheduler's, for comparison: Karpenter runs and buys."""
    await env.add_node(cpu=10)
    await nodepools.create(env.name)

    await env.create(JOBS, job("plain", env.name, pods=16, mode=None))

    await env.runs(of_job("plain"), 16)
    assert len(nodepools.bought) == 2


async def test_a_gang_gets_what_it_lacks(env: Environment, nodepools: NodePools) -> None:
    await env.add_node(cpu=10)
    await nodepools.create(env.name)

    await env.create(JOBS, job("gang", env.name, pods=16))

    await env.runs(of_job("gang"), 16)
    await started_whole(env)
    assert (len(nodepools.bought), nodepools.held()) == (2, 2)


@pytest.mark.parametrize(("room", "nodes"), [(7, 1), (0, 3)], ids=["partial room", "no room"])
async def test_a_tree_gets_what_it_lacks(
    env: Environment, nodepools: NodePools, room: int, nodes: int
) -> None:
    """All of its groups count, though only one of them lacks capacity."""
    if room:
        await env.add_node(cpu=room)
    await nodepools.create(env.name)

    await tree(env, "root", 2)
    await leaf(env, "small", 4, parent="root")
    await leaf(env, "large", 6, parent="root")

    await env.runs("", 10)
    await started_whole(env)
    assert (len(nodepools.bought), nodepools.held()) == (nodes, nodes)


async def test_a_gang_waits_at_a_limit_until_it_is_raised(
    env: Environment, nodepools: NodePools, long: bool
) -> None:
    """The bought nodes are kept for it meanwhile, though they are idle."""
    await nodepools.create(env.name, Offer(limit=3))

    await env.create(JOBS, job("gang", env.name, pods=16))
    await nodepools.holds(3)
    await env.waits("pg-job-gang", needed=16, free=12)
    if long:
        await idle_nodes_went(env, nodepools)
    assert (len(nodepools.bought), nodepools.held(), await env.bound()) == (3, 3, 0)
    told = await events_on_pods(env)
    assert len(set(told)) == 16
    assert len(told) <= 3 * 16, "once for each change, and not for each node that came"

    await nodepools.raise_limit(env.name, 4)
    await env.runs(of_job("gang"), 16)
    await started_whole(env)
    assert (len(nodepools.bought), nodepools.held()) == (4, 4)


def in_one_zone(env: Environment, *, affinity: bool) -> Json:
    made = job("gang", env.name, pods=12)
    made["metadata"]["annotations"][ANNOTATION_TOPOLOGY] = ZONE
    if affinity:
        selector = {"matchLabels": {"batch.kubernetes.io/job-name": "gang"}}
        term = {"topologyKey": ZONE, "labelSelector": selector}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        made["spec"]["template"]["spec"]["affinity"] = {"podAffinity": required}
    return made


@pytest.mark.parametrize("affinity", [True, False], ids=["with an affinity", "by its constraint"])
async def test_a_gang_gets_its_nodes_in_one_zone(
    env: Environment, nodepools: NodePools, affinity: bool
) -> None:
    await nodepools.create(env.name, Offer(sizes=(2,), zones=ZONES))

    await env.create(JOBS, in_one_zone(env, affinity=affinity))

    await nodepools.holds(6)
    assert len(await nodepools.zones()) == 1
    await env.runs(of_job("gang"), 12)
    assert (len(nodepools.bought), nodepools.held()) == (6, 6)


async def test_new_members_get_nodes_in_the_zone_of_the_others(
    env: Environment, nodepools: NodePools
) -> None:
    await nodepools.create(env.name, Offer(sizes=(2,), zones=ZONES))
    made = in_one_zone(env, affinity=False)
    made["spec"] |= {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
    await env.create(JOBS, made)
    await env.runs(of_job("gang"), 4)

    grown = PatchBuilder().replace("/spec/parallelism", 12).replace("/spec/completions", 12)
    await env.client.patch(JOBS, "gang", grown, env.name)

    await env.runs(of_job("gang"), 12)
    assert len(await nodepools.zones()) == 1
    assert (len(nodepools.bought), nodepools.held()) == (6, 6)


async def test_a_jobset_gets_its_nodes_in_one_zone(env: Environment, nodepools: NodePools) -> None:
    await nodepools.create(env.name, Offer(sizes=(2,), zones=ZONES))
    made = jobset("s", replicated_job("w", env.name, replicas=3, pods=4), mode="Composite")
    made["metadata"]["annotations"][ANNOTATION_TOPOLOGY] = ZONE

    await env.create(JOBSETS, made)

    await env.runs(of_jobset("s"), 12)
    await started_whole(env)
    assert len(await nodepools.zones()) == 1
    assert (len(nodepools.bought), nodepools.held()) == (6, 6)


async def test_gangs_of_one_node_each_get_a_node_each(
    env: Environment, nodepools: NodePools
) -> None:
    """Karpenter does not know gangs: it packs single pods, the first pod of each onto one node."""
    await nodepools.create(env.name)

    worker = replicated_job("w", env.name, replicas=2, pods=3)
    worker["template"]["metadata"] = {"annotations": {ANNOTATION_TOPOLOGY: HOST}}
    await env.create(JOBSETS, jobset("s", worker, mode="Composite"))

    await env.runs(of_jobset("s"), 6)
    await started_whole(env)
    assert (len(nodepools.bought), nodepools.held()) == (2, 2)


async def test_nodes_come_before_anybody_is_evicted(
    env: Environment, nodepools: NodePools, important: str
) -> None:
    await env.add_node(cpu=4)
    await leaf(env, "low", 4)
    await env.runs(members("low"), 4)
    await nodepools.create(env.name)

    delay = {ANNOTATION_PREEMPTION_DELAY: "1h"}
    await leaf(env, "high", 4, priority_class=important, annotations=delay,
               of_pod={"priorityClassName": important})  # fmt: skip

    await env.runs(members("high"), 4)
    assert await env.running(members("low")) == 4
    assert (len(nodepools.bought), nodepools.held()) == (1, 1)


@pytest.mark.long
async def test_a_gang_outlives_the_node_pool_that_it_waits_for(
    env: Environment, nodepools: NodePools
) -> None:
    await nodepools.create(env.name, Offer(limit=2))
    await env.create(JOBS, job("gang", env.name, pods=16))
    await nodepools.holds(2)

    await nodepools.delete(env.name)
    await nodepools.holds(0)
    assert await env.bound() == 0
    await nodepools.create(f"{env.name}-other", room=env.name)

    await env.runs(of_job("gang"), 16)
    await started_whole(env)
    assert (len(nodepools.bought), nodepools.held()) == (6, 4)


async def test_two_gangs_at_once_get_what_both_lack(env: Environment, nodepools: NodePools) -> None:
    await env.add_node(cpu=5)
    await nodepools.create(env.name)

    await asyncio.gather(
        *(env.create(JOBS, job(name, env.name, pods=8)) for name in ("one", "two"))
    )

    await env.runs("", 16)
    for name in ("one", "two"):
        await started_whole(env, of_job(name))
    assert (len(nodepools.bought), nodepools.held()) == (3, 3)
