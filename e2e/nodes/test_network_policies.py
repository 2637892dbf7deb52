"""NetworkPolicies that are enforced, in an overlay network like that of flannel."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.nodes.cluster.cluster import CONTROL_PLANE
from e2e.nodes.cluster.network import PODS
from e2e.nodes.cluster.places import BUSYBOX
from e2e.nodes.installation import NAMESPACE, pods, rolled_out
from e2e.nodes.tenant import Json, Tenant, job

_PROTECTION = str(ROOT / "manifests/protection")
_COLLECTOR = "monitoring"
"""The namespace that manifests/protection admits to the health ports."""
_WEBHOOK = "/spec/ingress/0/from"

pytestmark = pytest.mark.timeout(900)


@asynccontextmanager
async def _protection(kubectl: Kubectl) -> AsyncIterator[None]:
    """Apply manifests/protection for the block."""
    await kubectl("apply", "-k", _PROTECTION)
    try:
        yield
    finally:
        await kubectl("delete", "-k", _PROTECTION)


async def test_others_reach_the_webhook_alone_and_gangs_start(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    webhook = await _webhook(kubectl)
    async with _client(kubectl, tenant.name), _client(kubectl, _COLLECTOR):
        await _reaches(kubectl, tenant.name, webhook, 8080)  # without a policy

        async with _protection(kubectl):
            await _reaches(kubectl, tenant.name, webhook, 8080, ever=False)
            await _reaches(kubectl, tenant.name, webhook, 9443)
            await _reaches(kubectl, _COLLECTOR, webhook, 8080)
            await tenant.apply(job("gang", 4))
            await tenant.running("gang", 4)
            await rolled_out(kubectl)  # kubelets reach the health port


async def test_a_port_that_is_closed_to_pods_stops_gangs_unless_it_admits_the_tunnels(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    """An API server that runs on a node sends with its tunnel's address, which is one of pods."""
    async with _client(kubectl, tenant.name), _protection(kubectl):
        await _admit(kubectl, {"cidr": "0.0.0.0/0", "except": [PODS]})
        # Policies leave connections alone that API servers have already.
        await kubectl("rollout", "restart", "deployment/muster-webhook", "-n", NAMESPACE)
        await rolled_out(kubectl)
        webhook = await _webhook(kubectl)

        async def is_stopped() -> bool:
            return not await tenant.kubectl.succeeds(*_DRY_RUN, stdin=job("gang", 4))

        await _reaches(kubectl, tenant.name, webhook, 9443, ever=False)
        await eventually(is_stopped, "admission to fail", 120)
        error = await tenant.kubectl(*_DRY_RUN, stdin=job("gang", 4), fails=True)
        assert "failed calling webhook" in error

        tunnel = tenant.nodes.nodes[CONTROL_PLANE].addresses.tunnel
        await _admit(kubectl, {"cidr": "0.0.0.0/0", "except": [PODS]}, {"cidr": f"{tunnel}/32"})

        async def is_admitted() -> bool:
            return await tenant.kubectl.succeeds(*_DRY_RUN, stdin=job("gang", 4))

        await eventually(is_admitted, "admission to succeed", 120)
        await _reaches(kubectl, tenant.name, webhook, 9443, ever=False)
        await tenant.apply(job("gang", 4))
        await tenant.running("gang", 4)


_DRY_RUN = ("create", "--dry-run=server", "-f", "-")


async def _webhook(kubectl: Kubectl) -> str:
    """Return the address of a pod that serves the webhook."""
    component = "app.kubernetes.io/component"
    found = (
        pod for pod in await pods(kubectl) if pod["metadata"]["labels"][component] == "webhook"
    )
    return str(next(found)["status"]["podIP"])


async def _admit(kubectl: Kubectl, *blocks: Json) -> None:
    """Let these blocks of addresses alone reach the webhook's port."""
    admitted = [{"ipBlock": block} for block in blocks]
    patch = [{"op": "add", "path": _WEBHOOK, "value": admitted}]
    policy = ("networkpolicy", "muster-webhook", "-n", NAMESPACE)
    await kubectl("patch", *policy, "--type=json", f"--patch={json.dumps(patch)}")


@asynccontextmanager
async def _client(kubectl: Kubectl, namespace: str) -> AsyncIterator[None]:
    """Run a pod in a namespace, which is created unless it exists."""
    created = not await kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name")
    if created:
        await kubectl("create", "namespace", namespace)
    container = {"name": "main", "image": BUSYBOX, "command": ["sleep", "86400"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "client", "namespace": namespace},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    await kubectl("create", "-f", "-", stdin=pod)
    await kubectl("wait", "pod/client", "-n", namespace, "--for=condition=Ready", "--timeout=180s")
    try:
        yield
    finally:
        await kubectl("delete", "pod/client", "-n", namespace)
        if created:
            await kubectl("delete", "namespace", namespace)


async def _reaches(
    kubectl: Kubectl, namespace: str, address: str, port: int, *, ever: bool = True
) -> None:
    """Wait until the namespace's pod can connect to a port, or until it cannot."""
    connect = ("sh", "-c", f"nc -w 3 {address} {port} < /dev/null")

    async def probe() -> bool:
        done = await kubectl.succeeds("exec", "client", "-n", namespace, "--", *connect)
        return done is ever

    await eventually(probe, f"{namespace} {'to' if ever else 'not to'} reach port {port}", 120)
