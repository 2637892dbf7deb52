"""The prerequisites of a page's commands."""

import shutil
from collections.abc import AsyncIterator

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.environment import Environment
from e2e.harness.muster import NAMESPACE, Muster
from e2e.install.docs.reader import PATH
from kube.client.client import Client
from kube.client.resources import LEASES


@pytest.fixture(scope="module", autouse=True)
def kubectl() -> None:
    """The check for kubectl, made before any cluster is started."""
    if shutil.which("kubectl", path=PATH) is None:
        pytest.skip("there is no kubectl here: make e2e-modules")


@pytest.fixture
async def default(cluster: Cluster, muster: Muster, client: Client) -> AsyncIterator[Environment]:
    """The default namespace, on the cluster that all suites share."""
    env = Environment(cluster, muster, client, "default")
    await env.until("both leaders", lambda: _both_lead(client))
    yield env
    await env.clear()


async def _both_lead(client: Client) -> bool:
    leases = (await client.list(LEASES, NAMESPACE))["items"]
    return [bool(lease["spec"].get("holderIdentity")) for lease in leases] == [True, True]
