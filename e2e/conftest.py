"""Options of the suites, and the one cluster that a run uses."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.clusters.foreign import Foreign
from e2e.clusters.local import Local
from e2e.clusters.protocol import Cluster
from e2e.controlplane.commands import Options
from e2e.controlplane.controlplane import ControlPlane
from e2e.support.rest import Rest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("muster")
    group.addoption(
        "--cluster",
        choices=("local", "real"),
        default="local",
        help="the embedded cluster, or a real control plane built from Go modules",
    )
    group.addoption("--kubeconfig", type=Path, help="any cluster instead, kind for instance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        if item.get_closest_marker("timeout") is None:
            # The first test of a run also starts the cluster.
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def server_kind(pytestconfig: pytest.Config) -> str:
    """`local`, `real` or `foreign`, for the few tests that fit one server only."""
    if pytestconfig.getoption("--kubeconfig"):
        return "foreign"
    return str(pytestconfig.getoption("--cluster"))


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config, server_kind: str) -> Iterator[Cluster]:
    """The cluster under test, started for the session.

    Its servers are processes, so that it belongs to no event loop and lives on between tests.
    """
    made: Foreign | Local | ControlPlane
    if server_kind == "foreign":
        made = Foreign(pytestconfig.getoption("--kubeconfig").resolve())
    elif server_kind == "real":
        made = ControlPlane(Options())
    else:
        made = Local()
    with asyncio.Runner() as runner:
        try:
            runner.run(made.start())
            yield made
        finally:
            runner.run(made.stop())


@pytest.fixture
async def rest(cluster: Cluster) -> AsyncIterator[Rest]:
    """A raw HTTP client with the admin's credentials."""
    async with Rest.open(cluster.kubeconfig) as client:
        yield client
