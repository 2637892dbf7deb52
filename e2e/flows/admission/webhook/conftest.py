"""A separate cluster: these tests install and uninstall Muster at will."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.harness.clusters.local import Local
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.support.rest import Rest
from tools.testing.effort import selected

NAMESPACE = "team"


@pytest.fixture(scope="package")
def admin(server_kind: str) -> Iterator[Path]:
    """The administrator's kubeconfig of an API server without controllers and nodes."""
    with api_server(server_kind) as kubeconfig:
        yield kubeconfig


@contextmanager
def api_server(server_kind: str) -> Iterator[Path]:
    """Start an API server for the block; yields its administrator's kubeconfig."""
    if server_kind == "existing":
        pytest.skip("Muster is installed and removed many times: not on a cluster of others")
    bare = Options(controllers=False, kwok=False, jobset=False, routes_services=True)
    made = ControlPlane(bare) if server_kind == "real" else Local()
    with asyncio.Runner() as runner:
        try:
            runner.run(made.start())
            runner.run(_namespace(made.kubeconfig))
            yield made.kubeconfig
        finally:
            runner.run(made.stop())


# The ways of API servers to reach the replicas: their number, and True if by the Service.
WAYS = {"one by URL": (1, False), "two by URL": (2, False), "two by Service": (2, True)}


@pytest.fixture(params=selected(WAYS, ("two by Service",)))
def way(request: pytest.FixtureRequest) -> tuple[int, bool]:
    """Number of replicas, and True if API servers call their Service."""
    count, by_service = request.param
    return count, by_service


@pytest.fixture
async def api(admin: Path) -> AsyncIterator[Rest]:
    """Raw HTTP as the administrator."""
    async with Rest.open(admin) as rest:
        yield rest


async def _namespace(admin: Path) -> None:
    async with Rest.open(admin) as rest:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        (await rest.post("/api/v1/namespaces", body)).expect(201)
