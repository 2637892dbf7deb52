"""A namespace for each test, a node for tests that run pods, an account without permissions."""

import secrets
from collections.abc import AsyncIterator

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.places import before
from e2e.harness.support import accounts
from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.accounts import Account
from e2e.kubernetes.apiserver.objects import Namespace


@pytest.fixture
def since_1_37(server_kind: str) -> bool:
    """True if the server answers as Kubernetes 1.37: the embedded one answers as 1.36."""
    return server_kind != "local" and not before("1.37")


@pytest.fixture
async def ns(cluster: Cluster, rest: Rest) -> AsyncIterator[Namespace]:
    """A new namespace, unused afterwards."""
    name = f"conformance-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await rest.post("/api/v1/namespaces", body)).expect(201)
    yield Namespace(name)
    await cluster.leave_namespace(name)


@pytest.fixture
async def node(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a Ready node, deleted afterwards."""
    name = f"conformance-{secrets.token_hex(3)}"
    await cluster.add_node(name, capacity={"pods": "1000", "cpu": "100"})
    yield name
    await cluster.remove_node(name)


@pytest.fixture
async def account(rest: Rest, ns: Namespace) -> AsyncIterator[Account]:
    """A ServiceAccount in the test's namespace."""
    (await rest.post(ns.core("serviceaccounts"), {"metadata": {"name": "account"}})).expect(201)
    token = await accounts.token(rest, ns.name, "account")
    async with Rest(rest.access, token=token) as own:
        made = Account(rest, own, ns, "account")
        yield made
        await made.close()
