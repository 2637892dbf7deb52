"""A separate cluster: every other flow needs what is removed here."""

from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.harness import muster as processes
from e2e.harness.clusters.local import Local
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import QUOTA_AND_VOLUMES, ROLES, Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import Muster
from e2e.harness.running import Started, started
from e2e.harness.support.rest import Rest
from e2e.install.removal import neighbours
from e2e.install.removal.inventory import Inventory, take


@pytest.fixture(scope="package")
def cluster(server_kind: str) -> Iterator[Cluster]:
    """A cluster with kube-scheduler, if real, so that released pods run under it."""
    if server_kind == "existing":
        pytest.skip("a cluster that somebody uses is not one to take Muster out of")
    made: Started
    if server_kind == "real":
        made = ControlPlane(Options(scheduler=True, extra_controllers=(*QUOTA_AND_VOLUMES, *ROLES)))
    else:
        made = Local()
    with started(made):
        yield made


@pytest.fixture
async def before(cluster: Cluster, rest: Rest, server_kind: str) -> Inventory:
    """All objects before Muster's installation: CRDs of the same plural names, and objects."""
    await neighbours.install(rest, real=server_kind == "real")
    return await take(rest)


@pytest.fixture
async def muster(cluster: Cluster, before: Inventory) -> AsyncIterator[Muster]:
    """A new, running installation."""
    made = Muster(cluster.kubeconfig)
    try:
        await made.install()
        await cluster.kinds_installed()
        await made.start(*processes.ALL)
        yield made
    finally:
        made.stop()
