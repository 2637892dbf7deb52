"""Preemption with a real kube-scheduler, whose Deployments and DaemonSets recreate pods."""

import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from e2e.faults.hostile.shared_pools import (
    KINDS,
    PER_NODE,
    SINCE_SHARES,
    Crowd,
    followed,
    publish,
    selector,
)
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import before
from e2e.harness.devices import SINCE, devices_in
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, remove_finalizers
from e2e.harness.muster import SCHEDULER, Muster
from e2e.harness.objects import Json, pod, pod_spec
from e2e.harness.settled import settled
from kube.client.meta import RawObject
from kube.client.resources import NODES, PODS, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEFAULT = "default-scheduler"
HOLD = "test.muster.dev/hold"
ELSEWHERE = "test.muster.dev/elsewhere"
"""The label of nodes that Deployments prefer."""
DECISIONS = 20


@pytest.fixture(scope="module")
def cluster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> ControlPlane:
    return with_kube_scheduler[0]


@pytest.fixture(scope="module")
def running_muster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> Muster:
    return with_kube_scheduler[1]


async def test_an_important_gang_gets_its_place_and_deployments_run_elsewhere(
    env: Environment, important: str
) -> None:
    for _ in range(3):
        await env.add_node(cpu=4)
    async with (
        applied(env, DAEMON_SETS, daemon_set("agent", env.name)),
        applied(env, DEPLOYMENTS, deployment("web", env.name, 6)),
    ):
        await env.runs("app=web", 6)
        for _ in range(3):
            # With the agent, the node is too small for a pod of the gang.
            await env.add_node(cpu=3, labels={ELSEWHERE: "yes"})
        await env.runs("app=agent", 6)
        agents = await env.uids("app=agent")

        async with evictions(env, "app=web") as evicted:
            await leaf(env, "high", 3, priority_class=important,
                       of_pod=asking("3", priorityClassName=important))  # fmt: skip
            await env.runs(members("high"), 3)
            await env.runs("app=web", 6)

        # All six must be evicted; if some took the capacity again before the gang did, once more.
        assert 6 <= len(evicted) <= 2 * 6
        assert await env.uids("app=agent") == agents


@pytest.mark.long
async def test_a_place_that_others_take_again_is_not_emptied_again_and_again(
    env: Environment, important: str
) -> None:
    """The gang needs two nodes; while one is slow to empty, web takes the other again."""
    slow, quick = await env.add_node(cpu=4), await env.add_node(cpu=4)
    await hold(env, "slow", slow)
    async with (
        applied(env, DEPLOYMENTS, deployment("web", env.name, 4)),
        evictions(env, "app=web") as evicted,
    ):
        await env.runs("app=web", 4)
        assert {p["spec"]["nodeName"] for p in await env.pods("app=web")} == {quick}

        await leaf(env, "high", 2, priority_class=important,
                   of_pod=asking("4", priorityClassName=important))  # fmt: skip
        await env.until("web to be evicted and back", lambda: _back(env, evicted))
        await remove_finalizers(env, "app=slow")

        for _ in range(DECISIONS):
            await _decide(env)
            await env.until("somebody to have the place", lambda: _taken(env, quick))
        # Once at first, and at most once more: either the gang or web may be quicker.
        assert len(evicted) <= 2 * 4


async def _decide(env: Environment) -> None:
    """Make the scheduler decide on all pending pods, as a new leader does."""
    page = env.muster.page(SCHEDULER, "/debug/decide")
    async with aiohttp.ClientSession(trust_env=False) as session, session.post(page) as answer:
        assert (await answer.json())["leads"]


async def _taken(env: Environment, node: str) -> bool:
    pods = [pod for pod in await env.pods() if pod["spec"].get("nodeName") == node]
    leaving = any("deletionTimestamp" in pod["metadata"] for pod in pods)
    asked = sum(int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in pods)
    return not leaving and asked == 4


@pytest.mark.long
async def test_a_place_that_kube_scheduler_nominated_is_left_to_its_pod(
    env: Environment, important: str, cluster: ControlPlane
) -> None:
    node = await env.add_node(cpu=4)
    await hold(env, "slow", node)
    vip = pod("vip", env.name, scheduler=DEFAULT)
    vip["spec"] |= asking("4", priorityClassName=important)
    await env.create(PODS, vip)

    async def nominated() -> bool:
        found = await env.client.get(PODS, "vip", env.name)
        return bool(found["status"].get("nominatedNodeName") == node)

    await env.until("kube-scheduler to nominate the node", nominated)
    mine = pod("mine", env.name)
    mine["spec"] |= asking("4")
    await env.create(PODS, mine)
    await env.until("mine to be refused", lambda: _refused(env, "mine"))
    # Its own pod must find the slot empty, however late it arrives.
    scheduler = cluster.processes["kube-scheduler"]
    scheduler.send(signal.SIGSTOP)
    try:
        await remove_finalizers(env, "app=slow")
        await env.has_pods("app=slow", 0)
        await settled(env)
        assert await env.bound() == 0
    finally:
        scheduler.send(signal.SIGCONT)
    await env.until("vip to have its place", lambda: _has_node(env, "vip"))
    assert await env.bound() == 1


async def _has_node(env: Environment, name: str) -> bool:
    return "nodeName" in (await env.client.get(PODS, name, env.name))["spec"]


@pytest.mark.long
async def test_pods_of_daemon_sets_and_of_the_kubelet_are_never_victims(
    env: Environment, important: str
) -> None:
    node = await env.add_node(cpu=4)
    own = (await env.client.get(NODES, node))["metadata"]["uid"]
    async with applied(env, DAEMON_SETS, daemon_set("agent", env.name)):
        await env.runs("app=agent", 1)
        agents = await env.uids("app=agent")
        mirror = pod("static", env.name, scheduler=DEFAULT)
        mirror["metadata"] |= {
            "annotations": {"kubernetes.io/config.mirror": "1"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node, "uid": own, "controller": True}
            ],
        }
        mirror["spec"]["nodeName"] = node
        await env.create(PODS, mirror)
        await env.runs("", 2)

        await leaf(env, "high", 1, priority_class=important,
                   of_pod=asking("3", priorityClassName=important))  # fmt: skip
        await env.waits("high", needed=1)
        assert await env.uids("app=agent") == agents
        await env.delete(PODS, "static")
        await env.runs(members("high"), 1)
        assert await env.uids("app=agent") == agents


@pytest.mark.long
@pytest.mark.since(*SINCE)
async def test_two_schedulers_take_devices_of_the_same_pools(env: Environment, long: bool) -> None:
    nodes = 6
    kinds = ("plain",) if before(SINCE_SHARES) else KINDS
    async with devices_in(env.client, env.name) as devices:
        await publish(env, devices, nodes)
        crowd = Crowd(env, random.Random(7), 60 if long else 12, kinds)
        async with followed(env) as ledger:
            await crowd.come_and_go(gangs=4, pods=6)
            await devices.nothing_left_allocated(timeout=60)

            # All devices, for both schedulers.
            per_node = {kind: count for kind, count in PER_NODE.items() if kind in kinds}
            last = [(f"ours-{kind}", kind, nodes) for kind in per_node]
            last += [
                (f"theirs-{kind}-{at}", kind, 1)
                for kind, count in per_node.items()
                for at in range((count - 1) * nodes)
            ]
            for name, kind, count in last:
                await crowd.come(name, kind, count)
            for name, _, count in last:
                await env.runs(selector(name), count)
            assert ledger.faults == []
            assert ledger.standing() == []
            await settled(env)
            for name, _, count in last:
                await crowd.go(name, count)
            await devices.nothing_left_allocated(timeout=60)
    print(f"ran {dict(crowd.ran)}, {ledger.allocations} allocations, gave back {ledger.lost} that"
          f" came second, {ledger.theirs_second} of theirs came second")  # fmt: skip
    assert min(crowd.ran["ours"], crowd.ran["theirs"]) > 0
    assert ledger.faults == []


async def hold(env: Environment, app: str, node: str) -> None:
    """Create a pod that fills the node and has a finalizer that delays its deletion."""
    made = pod(app, env.name, scheduler=DEFAULT)
    made["metadata"] |= {"labels": {"app": app}, "finalizers": [HOLD]}
    made["spec"] |= asking("4", nodeName=node)
    await env.create(PODS, made)
    await env.runs(f"app={app}", 1)


async def _back(env: Environment, evicted: set[str]) -> bool:
    """Return True if all of web was evicted once, and runs again in new pods."""
    pods = await env.pods("app=web")
    running = {p["metadata"]["uid"] for p in pods if p["status"].get("phase") == "Running"}
    return len(evicted) >= 4 and len(running - evicted) == 4


async def _refused(env: Environment, name: str) -> bool:
    status = (await env.client.get(PODS, name, env.name)).get("status") or {}
    said = {c["type"]: c["status"] for c in status.get("conditions") or []}
    return said.get("PodScheduled") == "False"


def asking(cpu: str, **spec: object) -> Json:
    """Return the spec of a pod that requests that many CPUs."""
    made = {"name": "main", "image": "registry.example/none:1"}
    return {"containers": [made | {"resources": {"requests": {"cpu": cpu}}}], **spec}


def _template(name: str, room: str) -> Json:
    spec = pod_spec(room)
    del spec["restartPolicy"]
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def deployment(name: str, room: str, replicas: int) -> Json:
    labels = {"matchLabels": {"app": name}}
    template = _template(name, room)
    term = {"matchExpressions": [{"key": ELSEWHERE, "operator": "Exists"}]}
    preferred = [{"weight": 100, "preference": term}]
    kind = "preferredDuringSchedulingIgnoredDuringExecution"
    template["spec"]["affinity"] = {"nodeAffinity": {kind: preferred}}
    spec = {"replicas": replicas, "selector": labels, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def daemon_set(name: str, room: str) -> Json:
    labels = {"matchLabels": {"app": name}}
    spec = {"selector": labels, "template": _template(name, room)}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def applied(env: Environment, kind: Resource, obj: Json) -> AsyncIterator[None]:
    """Create the object for the block; afterwards wait until its pods are deleted too."""
    name = obj["metadata"]["name"]
    await env.create(kind, obj)
    try:
        yield
    finally:
        await env.delete(kind, name)
        await env.has_pods(f"app={name}", 0)


@asynccontextmanager
async def evictions(env: Environment, selector: str) -> AsyncIterator[set[str]]:
    """Collect UIDs of pods with the label (`key=value`) that any scheduler marked for eviction."""
    key, _, value = selector.partition("=")
    found: set[str] = set()
    async with env.followed() as pods:

        def look(_old: RawObject | None, new: RawObject | None) -> None:
            if new is None or (new.raw["metadata"].get("labels") or {}).get(key) != value:
                return
            conditions = new.raw.get("status", {}).get("conditions") or []
            if any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions):
                found.add(new.metadata.uid)

        pods.subscribe(look)
        yield found
