"""6012-010: prefill and decode of a model in one tree, with the controllers of their kinds.

They do not run on the shared cluster: their controllers would also create pods of Muster's
Deployments.
"""

from typing import Any

import pytest

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_TREE
from e2e.flows.owners.workloads.examples import reports
from e2e.harness import muster as processes
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import Json, pod_spec
from kube.client.resources import DEPLOYMENTS, STATEFUL_SETS, Resource


@pytest.fixture(scope="module")
def cluster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> ControlPlane:
    return with_kube_scheduler[0]


@pytest.fixture(scope="module")
def running_muster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> Muster:
    return with_kube_scheduler[1]


OWNERS = {"prefill": STATEFUL_SETS, "decode": DEPLOYMENTS}


@pytest.mark.parametrize(
    "order", [("prefill", "decode"), pytest.param(("decode", "prefill"), marks=pytest.mark.long)]
)
async def test_prefill_and_decode_start_only_together(
    env: Environment, running_muster: Muster, order: tuple[str, str]
) -> None:
    first, second = order
    await env.add_node(cpu=3)
    await add(env, first, 2)
    await reports(env, OWNERS[first], first, "waits for 1 more owner of tree serve")
    await add(env, second, 2)
    # Each of them fits alone.
    await reports(env, OWNERS[first], first, "Insufficient cpu")
    assert await env.bound() == 0

    running_muster.kill(processes.CONTROLLER)
    await env.add_node(cpu=2)
    await env.runs("app=prefill", 2)
    await env.runs("app=decode", 2)
    await running_muster.start(processes.CONTROLLER)
    for name, kind in OWNERS.items():
        await reports(env, kind, name, "")

    await env.delete(OWNERS[first], first)
    await env.has_pods(f"app={first}", 0)
    assert await env.running(f"app={second}") == 2
    await add(env, first, 3)
    await env.runs(f"app={first}", 3)

    for name in order:
        await env.delete(OWNERS[name], name)
    await env.empty()


async def add(env: Environment, name: str, pods: int) -> None:
    kind = OWNERS[name]
    await env.create(kind, serving(env, kind, name, pods))


def serving(env: Environment, kind: Resource, name: str, replicas: int) -> Json:
    labels = {"app": name}
    spec: dict[str, Any] = pod_spec(env.name) | {"restartPolicy": "Always"}
    # Without grace period: only deletion ends these pods.
    spec["terminationGracePeriodSeconds"] = 0
    made: Json = {
        "selector": {"matchLabels": labels},
        "replicas": replicas,
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    if kind == STATEFUL_SETS:
        made |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    asks = {ANNOTATION_GANG_MODE: "Gang", ANNOTATION_TREE: "serve=2"}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "annotations": asks},
        "spec": made,
    }
