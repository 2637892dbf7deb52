"""docs/install.md, on a separate control plane: Muster is installed and removed three times.

It runs only on the real one: the embedded server lacks some kinds of the manifests.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import QUOTA_AND_VOLUMES, ROLES, Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.deployments import Deployments
from e2e.harness.objects import POD_GROUPS, job, pod_group
from e2e.harness.running import started
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.install.docs.reader import Reader
from e2e.install.removal import inventory
from kube.client.client import Client
from kube.client.resources import JOBS, PODS

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(kubectl: None, server_kind: str) -> Iterator[Cluster]:
    """A cluster with kube-scheduler, which takes over the released pods."""
    if server_kind != "real":
        pytest.skip(
            "what manifests/ installs needs a server of all kinds, and one to remove it from"
        )
    extra = (*QUOTA_AND_VOLUMES, *ROLES)
    made = ControlPlane(Options(scheduler=True, routes_services=True, extra_controllers=extra))
    with started(made):
        yield made


@pytest.fixture
async def reader(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Reader]:
    async with Deployments(cluster) as deployments:
        try:
            yield Reader("install.md", cluster.kubeconfig, tmp_path)
        finally:
            print(deployments.logs())


@pytest.mark.long
async def test_every_command_of_the_page_works(
    reader: Reader, cluster: Cluster, rest: Rest, client: Client
) -> None:
    before = await inventory.take(rest)

    async def gone() -> bool:
        return (await inventory.take(rest)).keys() <= before.keys()

    await reader.follow("Installing Muster")
    # The first apply after that succeeds, as the page states; the group waits for its pods.
    await client.create(POD_GROUPS, pod_group("mine", 4), "default")
    await reader.follow("Removing it")
    await eventually(gone, "all of it to be gone", 60)

    await reader.follow("Installing Muster")
    await client.create(JOBS, job("waits", "nowhere", pods=2), "default")
    await eventually(lambda: _scheduled_by(client, "muster-scheduler"), "pods of a gang", 60)
    await reader.follow("With gangs that run or wait")
    await eventually(lambda: _scheduled_by(client, "default-scheduler"), "pods given back", 60)
    await client.delete(JOBS, "waits", "default", propagation="Background")
    await eventually(gone, "all of it to be gone", 60)

    await reader.follow("Installing Muster")
    await client.create(POD_GROUPS, pod_group("lonely", 4), "default")
    await reader.follow("By kubectl alone")
    await eventually(gone, "all of it to be gone", 60)

    reader.finish()


async def _scheduled_by(client: Client, name: str) -> bool:
    pods = (await client.list(PODS, "default"))["items"]
    return [one["spec"]["schedulerName"] for one in pods] == [name] * 2
