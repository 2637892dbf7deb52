"""A namespace for each test, and a node for those that run pods."""

import secrets
from collections.abc import AsyncIterator

import pytest

from e2e.clusters.protocol import Cluster
from e2e.conformance.objects import Namespace
from e2e.support.rest import Rest


@pytest.fixture
async def ns(rest: Rest) -> AsyncIterator[Namespace]:
    """A new namespace; it is deleted afterwards, though not waited for."""
    name = f"conformance-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await rest.post("/api/v1/namespaces", body)).expect(201)
    yield Namespace(name)
    await rest.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
async def node(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a Ready node that is gone afterwards."""
    name = f"conformance-{secrets.token_hex(3)}"
    await cluster.add_node(name, capacity={"pods": "1000", "cpu": "100"})
    yield name
    await cluster.remove_node(name)
