"""The messages of single pods that wait, beside those of kube-scheduler for the same pods."""

from collections.abc import Mapping

import pytest

from api.constants import SCHEDULER_NAME
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import Json, pod
from kube.client.patch import PatchBuilder
from kube.client.resources import NODES, PODS, PVCS

DEFAULT = "default-scheduler"
ZONE = "example.com/zone"
RUNS = {"app": "runs"}
PORT = {"containerPort": 9, "hostPort": 9}


def of_pods(kind: str, *, key: str = "kubernetes.io/hostname", labels: Json = RUNS) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def asking(**amounts: str) -> Json:
    requests = {name.replace("_", "/"): amount for name, amount in amounts.items()}
    resources = {"requests": requests, "limits": requests}
    return {"containers": [{"name": "main", "image": "none", "resources": resources}]}


def spread(key: str) -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": RUNS},
    }
    return {"topologySpreadConstraints": [constraint]}


def claiming(name: str) -> Json:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


@pytest.fixture(scope="module")
def cluster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> ControlPlane:
    return with_kube_scheduler[0]


@pytest.fixture(scope="module")
def running_muster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> Muster:
    return with_kube_scheduler[1]


PODS_THAT_WAIT: dict[str, Json] = {
    "cpu": asking(cpu="100"),
    "memory": asking(memory="1Ti"),
    "a device plugin's resource": asking(**{"example.com_gpu": "1"}),
    "two resources": asking(cpu="100", memory="1Ti"),
    "no such label": {"nodeSelector": {ZONE: "none"}},
    "an affinity to no running pod": of_pods("podAffinity", labels={"app": "none"}),
    "an anti-affinity to a running pod": of_pods("podAntiAffinity"),
    "a spread over a missing label": spread("example.com/missing"),
    "a port in use": {
        "containers": [
            {"name": "main", "image": "none", "ports": [{"containerPort": 1, "hostPort": 9}]}
        ]
    },
    "a claim that is not bound": claiming("unbound"),
    "a missing claim": claiming("missing"),
}


async def test_pods_say_what_kube_scheduler_says(env: Environment) -> None:
    """Three nodes: one takes the pods, one has a taint, one is cordoned."""
    taken = await env.add_node(cpu=4)
    await env.add_node(cpu=4, taints=[{"key": "team", "value": "blue", "effect": "NoSchedule"}])
    cordoned = await env.add_node(cpu=4)
    await env.client.patch(NODES, cordoned, PatchBuilder().add("/spec/unschedulable", value=True))
    await env.create(PVCS, unbound())
    runs = pod("runs", env.name)
    runs["metadata"]["labels"] |= RUNS
    runs["spec"]["nodeName"] = taken
    runs["spec"]["containers"][0]["ports"] = [PORT]
    await env.create(PODS, runs)
    await env.runs("app=runs", 1)

    theirs = await messages(env, DEFAULT)
    ours = await messages(env, SCHEDULER_NAME)

    wanted, found = first_sentences(theirs), first_sentences(ours)
    assert all(text.startswith("0/3 nodes are available: ") for text in wanted.values()), wanted
    assert found == wanted


def first_sentences(messages: Mapping[str, str]) -> dict[str, str]:
    """Return the first sentences: those of kube-scheduler about its own preemption follow.

    kube-scheduler names the taint until Kubernetes 1.34, and Muster always does.
    """
    first = {what: text.partition(". ")[0].removesuffix(".") for what, text in messages.items()}
    return {what: text.replace("taint {team: blue}", "taint(s)") for what, text in first.items()}


def unbound() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "unbound"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


async def messages(env: Environment, scheduler: str) -> dict[str, str]:
    """Return the message of the condition PodScheduled of each pod that waits."""
    names = {what: f"{scheduler}-{at}" for at, what in enumerate(PODS_THAT_WAIT)}
    for what, spec in PODS_THAT_WAIT.items():
        made = pod(names[what], env.name, scheduler=scheduler)
        selector = {**made["spec"]["nodeSelector"], **spec.get("nodeSelector", {})}
        made["spec"] |= spec | {"nodeSelector": selector}
        await env.create(PODS, made)
    found: dict[str, str] = {}

    async def probe() -> bool:
        for stored in await env.pods():
            for condition in stored.get("status", {}).get("conditions", ()):
                if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
                    found[stored["metadata"]["name"]] = condition["message"]
        return found.keys() >= set(names.values())

    await env.until("all pods to say why they wait", probe, 60)
    for name in names.values():
        await env.delete(PODS, name)
    return {what: found[name] for what, name in names.items()}
