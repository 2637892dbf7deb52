"""Faults in another namespace during a block."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from api.constants import ANNOTATION_SCHEDULE_TIMEOUT
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.support import ports
from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.webhooks import Object, registered, serving, webhook
from kube.client.resources import EVENTS

TIMEOUT = "3s"
"""Bind timeout of a gang with a rejected Binding."""


@asynccontextmanager
async def refused_bindings(env: Environment, folder: Path) -> AsyncIterator[set[str]]:
    """Reject Bindings of the pods in the set, by a webhook that an administrator installed."""
    names: set[str] = set()
    async with serving(folder) as server, Rest.open(env.cluster.kubeconfig) as rest:
        server.answer = lambda request: _answer(request, names)
        made = _hook("bindings", server.client_config(), env.name, "CREATE", "pods/binding")
        made["rules"].append({**made["rules"][0], "resources": ["configmaps"]})

        async def called() -> bool:
            path = f"/api/v1/namespaces/{env.name}/configmaps"
            await rest.post(path, {"metadata": {"name": "probe"}}, params={"dryRun": "All"})
            return bool(server.requests)

        async with registered(rest, "validating", f"{env.name}-bindings", made, probe=called):
            yield names


def _answer(request: Object, names: set[str]) -> Object:
    if request["resource"]["resource"] == "pods" and request["name"] in names:
        return {"allowed": False, "status": {"code": 403, "message": "not on this cluster"}}
    return {"allowed": True}


@asynccontextmanager
async def failing_deletions(env: Environment) -> AsyncIterator[None]:
    """Fail every deletion of a pod in the namespace: the webhook for it is down."""
    (port,) = ports.free(1)
    made = _hook("deletions", {"url": f"https://127.0.0.1:{port}/"}, env.name, "DELETE", "pods")

    async def fails() -> bool:
        path = f"/api/v1/namespaces/{env.name}/pods/probe"
        return (await rest.delete(path, params={"dryRun": "All"})).status == 500

    async with Rest.open(env.cluster.kubeconfig) as rest:
        pod = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "nobody"}
        body = {"metadata": {"name": "probe"}, "spec": pod}
        await rest.post(f"/api/v1/namespaces/{env.name}/pods", body)
        async with registered(rest, "validating", f"{env.name}-deletions", made, probe=fails):
            yield


def _hook(name: str, client: Object, namespace: str, operation: str, resource: str) -> Object:
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": [operation],
            "resources": [resource],
        }
    ]
    made = webhook(name, client, namespace, rules=rules)
    del made["objectSelector"]
    return made


@asynccontextmanager
async def other_namespace(env: Environment) -> AsyncIterator[Environment]:
    """Create another tenant, with nodes of its own."""
    other = Environment(env.cluster, env.muster, env.client, f"{env.name}-other")
    await other.open()
    try:
        yield other
    finally:
        await other.close()


async def half_bound(other: Environment, refused: set[str]) -> None:
    """Create a gang of the tenant that can be bound only partially, and must be rolled back."""
    await other.add_node(cpu=4)
    refused.add("stuck-3")
    await leaf(other, "stuck", 4, annotations={ANNOTATION_SCHEDULE_TIMEOUT: TIMEOUT})

    async def some() -> bool:
        return await other.bound(members("stuck")) == 3

    await other.until("three of four to be bound", some)


async def being_taken_back(other: Environment) -> None:
    """Wait until its bind timeout ends, and its pods are about to be deleted."""

    async def told() -> bool:
        events = (await other.client.list(EVENTS, other.name))["items"]
        return any(event["reason"] == "GangBindFailed" for event in events)

    await other.until("the gang to be given up", told)
