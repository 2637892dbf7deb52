import secrets
from collections.abc import AsyncIterator

import pytest

from e2e.harness.clusters.protocol import Cluster
from kube.client.client import Client
from kube.client.resources import NAMESPACES


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with await Client.connect(cluster.kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A new namespace, deleted afterwards without waiting."""
    name = f"client-{secrets.token_hex(4)}"
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield name
    await client.delete(NAMESPACES, name)
