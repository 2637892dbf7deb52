"""StatefulSets and Deployments whose pods ask for a group, with Kubernetes' own controllers.

One control plane of its own: elsewhere these would make pods of Muster's Deployments, too.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from api.constants import ANNOTATION_MIN_COUNT, LABEL_POD_GROUP
from e2e.controlplane.commands import POD_MAKERS, Options
from e2e.controlplane.controlplane import ControlPlane
from e2e.muster import Muster
from e2e.running import installed, no_deployments, started
from e2e.suite.environment import Environment
from e2e.suite.objects import Json, pod_spec
from e2e.workloads.examples import STATEFUL_SETS, gone, runs
from kube.patch import PatchBuilder, pointer
from kube.resources import Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
_TEMPLATE = ("spec", "template", "metadata", "annotations")


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("the embedded cluster has neither StatefulSets nor Deployments")
    made = ControlPlane(Options(extra_controllers=POD_MAKERS))
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        asyncio.run(no_deployments(cluster))
        yield muster


async def test_a_stateful_set_is_a_gang_through_an_update(env: Environment) -> None:
    await env.add_node(cpu=8)
    await env.create(STATEFUL_SETS, stateful_set(env))
    await env.scheduled("db")
    group = await env.group("db")
    assert group["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    try:
        ops = PatchBuilder().add(pointer(*_TEMPLATE, ANNOTATION_MIN_COUNT), "2")
        await env.client.patch(STATEFUL_SETS, "db", ops, env.name)

        async def follows() -> bool:
            spec = (await env.group("db"))["spec"]
            return bool(spec["schedulingPolicy"]["gang"]["minCount"] == 2)

        await env.until("minCount to follow the template", follows)
        await env.runs("app=db", 4)
        assert (await env.group("db"))["metadata"]["uid"] == group["metadata"]["uid"]
    finally:
        await env.delete(STATEFUL_SETS, "db")
    await gone(env, "db")


async def test_the_group_of_a_deployment_is_owned_by_it_and_not_by_a_replica_set(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    made = stateful_set(env) | {"kind": "Deployment"}
    for field in ("serviceName", "podManagementPolicy"):
        del made["spec"][field]
    uid = (await env.create(DEPLOYMENTS, made))["metadata"]["uid"]
    try:
        await env.scheduled("db")
        (owner,) = (await env.group("db"))["metadata"]["ownerReferences"]
        assert owner["uid"] == uid
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await gone(env, "db")


async def test_the_example_of_a_stateful_set_runs(env: Environment) -> None:
    await runs(env, "statefulset-gang", ["ring"])


def stateful_set(env: Environment) -> Json:
    labels = {"app": "db"}
    spec: dict[str, Any] = pod_spec(env.name) | {"restartPolicy": "Always"}
    # No grace: nothing ends these pods but their deletion, and each is replaced in turn.
    spec["terminationGracePeriodSeconds"] = 0
    meta = {"labels": labels | {LABEL_POD_GROUP: "db"}, "annotations": {ANNOTATION_MIN_COUNT: "4"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": spec},
        },
    }
