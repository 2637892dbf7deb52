"""A gang whose template fits no node can be corrected by an update, as without Muster.

The flow acts as the Deployment controller and the StatefulSet controller: no cluster of these
suites runs them (`test_sets.py` does, on the real control plane).
"""

from copy import deepcopy

import pytest

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_MANAGED_GROUP
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, Json, pod_spec
from kube.client.patch import PatchBuilder
from kube.client.resources import DEPLOYMENTS, PODS, STATEFUL_SETS, Resource

REPLICAS = 4
_REQUESTS = "/spec/template/spec/containers/0/resources"


@pytest.mark.parametrize(
    ("resource", "first"), [(DEPLOYMENTS, 2), (STATEFUL_SETS, 1)], ids=["Deployment", "StatefulSet"]
)
async def test_a_template_that_fits_no_node_can_be_corrected(
    env: Environment, resource: Resource, first: int
) -> None:
    """The controller creates `first` pods of the new template before one of them is ready."""
    await env.add_node(cpu=REPLICAS)
    stored = await env.create(resource, app(env, resource, cpu="64"))
    group = str(stored["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP])
    await pods(env, stored, "old", range(REPLICAS))
    await status(env, resource, REPLICAS, REPLICAS)
    await env.waits(group, needed=REPLICAS)

    ops = PatchBuilder().replace(_REQUESTS, {"requests": {"cpu": "1"}})
    stored = await env.client.patch(resource, "web", ops, env.name)
    await status(env, resource, REPLICAS, 0)
    await env.delete(PODS, "old-0")
    await pods(env, stored, "new", range(first))
    await status(env, resource, REPLICAS - 1 + first, first)
    await env.runs("of=new", first)

    for at in range(1, REPLICAS):
        await env.delete(PODS, f"old-{at}")
    await pods(env, stored, "new", range(first, REPLICAS))
    await status(env, resource, REPLICAS, REPLICAS)
    await env.runs("of=new", REPLICAS)

    async def waits_for_all() -> bool:
        policy = (await env.group(group))["spec"]["schedulingPolicy"]
        return bool(policy["gang"]["minCount"] == REPLICAS)

    await env.until("minCount to be all replicas", waits_for_all)
    await env.delete(resource, "web")
    for at in range(REPLICAS):
        await env.delete(PODS, f"new-{at}")
    await env.gone(POD_GROUPS, group)


def app(env: Environment, resource: Resource, cpu: str) -> Json:
    spec = pod_spec(env.name) | {"restartPolicy": "Always"}
    spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    labels = {"app": "web"}
    made: Json = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    if resource == STATEFUL_SETS:
        made |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
    metadata = {"name": "web", "annotations": {ANNOTATION_GANG_MODE: "Gang"}}
    return {
        "apiVersion": "apps/v1",
        "kind": resource.kind,
        "metadata": metadata,
        "spec": made,
    }


async def pods(env: Environment, stored: Json, of: str, numbers: range) -> None:
    """Create as many pods of the stored template."""
    for at in numbers:
        template = deepcopy(stored["spec"]["template"])
        template["metadata"] |= {"name": f"{of}-{at}"}
        template["metadata"]["labels"] |= {"of": of}
        await env.create(PODS, {"apiVersion": "v1", "kind": "Pod", **template})


async def status(env: Environment, resource: Resource, replicas: int, updated: int) -> None:
    said = {"replicas": replicas, "updatedReplicas": updated}
    ops = PatchBuilder().add("/status", said)
    await env.client.patch(resource, "web", ops, env.name, subresource="status")
