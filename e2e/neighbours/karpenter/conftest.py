"""A separate control plane, with Karpenter and kube-scheduler alongside Muster."""

from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.running import installed, started
from e2e.neighbours.karpenter.nodepools import NodePools
from kube.client.client import Client


@pytest.fixture(scope="package")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    """The cluster; on a shared one Karpenter would buy nodes for the pods of every other flow."""
    if server_kind != "real":
        pytest.skip("Karpenter runs beside a real control plane: run with --cluster=real")
    made = ControlPlane(Options(scheduler=True, karpenter=True))
    with started(made):
        yield made


@pytest.fixture(scope="package")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


@pytest.fixture
async def nodepools(cluster: ControlPlane, client: Client) -> AsyncIterator[NodePools]:
    """The NodePools of a flow; they and their nodes are deleted afterwards."""
    async with NodePools.opened(client) as pools:
        yield pools


@pytest.fixture
async def env(nodepools: NodePools, env: Environment) -> Environment:
    """The environment, closed before the NodePools, because Karpenter drains deleted nodes."""
    return env
