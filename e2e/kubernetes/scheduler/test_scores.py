"""Where kube-scheduler binds pods without a group, and Muster's points of these nodes."""

import asyncio
import json
import random
from typing import Any

import pytest

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.support.rest import Rest
from scheduler.core.framework.node_resources_balanced_allocation import POINTS
from scheduler.core.search.scored_nodes import ScoredNodes
from scheduler.core.state.state import State
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_node, decode_pod, decode_service
from scheduler.watch.object_handlers import node_handler, service_handler
from tools.testing.effort import seeds

Json = dict[str, Any]

NODES, PODS = 7, 24
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
IMAGES = {"web:1": 700 << 20, "db:1": 90 << 20, "large:1": 4 << 30}


def node(dice: random.Random, index: int) -> Json:
    labels = {HOST: f"n{index}"}
    if dice.random() < 0.8:
        labels[ZONE] = dice.choice("ab")
    amounts = {"cpu": dice.choice(("4", "8", "16")), "memory": "32Gi", "pods": "110"}
    images = [
        {"names": [name], "sizeBytes": size} for name, size in IMAGES.items() if dice.random() < 0.5
    ]
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    return {
        "metadata": {"name": f"n{index}", "labels": labels},
        "spec": {"taints": [soft] if dice.random() < 0.2 else []},
        "status": {"capacity": amounts, "allocatable": amounts, "images": images},
    }


def replica_set(name: str) -> Json:
    labels = {"app": "web", "set": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def pod(dice: random.Random, index: int, sets: dict[str, str]) -> Json:
    requests = dice.choice(({}, {"cpu": "200m"}, {"cpu": "1", "memory": "2Gi"}))
    container = {
        "name": "c",
        "image": dice.choice((*IMAGES, "none:1")),
        "resources": {"requests": requests},
    }
    meta: Json = {"name": f"p{index}", "labels": {"app": dice.choice(("web", "db", "job"))}}
    if dice.random() < 0.4:
        name, uid = dice.choice(list(sets.items()))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid}
        meta["labels"] = {"app": "web", "set": name}
        meta["ownerReferences"] = [owner | {"controller": True}]
    return {"metadata": meta, "spec": {"containers": [container]}}


async def items(rest: Rest, path: str) -> list[bytes]:
    found = (await rest.get(path)).ok()["items"]
    return [json.dumps(each).encode() for each in found]


async def state_of(rest: Rest, space: str) -> State:
    state = State()
    state.set_release(await rest.release())
    nodes, services = node_handler(state, lambda: None), service_handler(state)
    for raw in await items(rest, "/api/v1/nodes"):
        nodes.upsert(decode_node(raw))
    for raw in await items(rest, f"/api/v1/namespaces/{space}/services"):
        services.upsert(decode_service(raw))
    for raw in await items(rest, f"/api/v1/namespaces/{space}/pods"):
        state.set_pod(decode.pod_info(decode_pod(raw)))
    return state


def points(state: State, candidate: Json) -> dict[str, int]:
    """Return Muster's points of each node for a pod, as if the pod were Muster's."""
    candidate = {**candidate, "spec": {**candidate["spec"], "schedulerName": "muster-scheduler"}}
    added = state.set_pod(decode.pod_info(decode_pod(json.dumps(candidate).encode())))
    assert added is not None
    nodes = ScoredNodes(state, added.shape)
    found = nodes.points(added.info) // POINTS
    names = map(state.nodes.name_of, nodes.rows.tolist())
    return dict(zip(names, found.tolist(), strict=True))


async def bound(rest: Rest, path: str) -> str:
    for _ in range(600):
        found = (await rest.get(path)).ok()["spec"].get("nodeName")
        if found:
            return str(found)
        await asyncio.sleep(0.05)
    raise TimeoutError(f"kube-scheduler did not bind {path} within 30 s")


async def test_kube_scheduler_binds_to_a_node_that_has_the_most_points(server_kind: str) -> None:
    if server_kind != "real":
        pytest.skip("only a real control plane has a kube-scheduler")
    options = Options(
        controllers=False, kwok=False, jobset=False, scheduler=True, taint_nodes=False
    )
    async with ControlPlane(options) as plane, plane.client() as rest:
        for seed in seeds(2, 20):
            assert await differences(rest, seed) == []


async def differences(rest: Rest, seed: int) -> list[tuple[str, dict[str, int]]]:
    """Return kube-scheduler's node for each pod whose node has fewer points than another."""
    dice, space = random.Random(seed), f"scores-{seed}"
    core, pods = f"/api/v1/namespaces/{space}", f"/api/v1/namespaces/{space}/pods"
    (await rest.post("/api/v1/namespaces", {"metadata": {"name": space}})).ok()
    for index in range(NODES):
        (await rest.post("/api/v1/nodes", node(dice, index))).ok()
    for name, selector in (("web", {"app": "web"}), ("db", {"app": "db"})):
        spec = {"selector": selector, "ports": [{"port": 80}]}
        (await rest.post(f"{core}/services", {"metadata": {"name": name}, "spec": spec})).ok()
    sets = {}
    for name in ("first", "second"):
        path = f"/apis/apps/v1/namespaces/{space}/replicasets"
        made = (await rest.post(path, replica_set(name))).ok()
        sets[name] = made["metadata"]["uid"]
    wrong: list[tuple[str, dict[str, int]]] = []
    for index in range(PODS):
        state = await state_of(rest, space)
        candidate = (await rest.post(pods, pod(dice, index, sets))).ok()
        chosen = await bound(rest, f"{pods}/p{index}")
        found = points(state, candidate)
        if found[chosen] != max(found.values()):
            wrong.append((chosen, found))
    (await rest.delete(pods, {"gracePeriodSeconds": 0})).ok()
    (await rest.delete("/api/v1/nodes")).ok()
    return wrong
