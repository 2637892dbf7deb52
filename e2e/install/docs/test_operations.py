"""docs/operations.md: the current leader, and a backup of users' objects."""

from pathlib import Path

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, job, pod_group
from e2e.install.docs.reader import Reader
from kube.client.resources import JOBS, SECRETS

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def reader(server_kind: str, cluster: Cluster, tmp_path: Path) -> Reader:
    if server_kind == "local":
        pytest.skip("kubectl validates a List by OpenAPI v2, which the embedded server has not")
    return Reader("operations.md", cluster.kubeconfig, tmp_path)


async def test_every_command_of_the_page_works(reader: Reader, default: Environment) -> None:
    await default.create(POD_GROUPS, pod_group("mine", 3))
    await default.create(JOBS, job("theirs", "nowhere"))
    await default.grouped("pg-job-theirs")
    kept = (await default.group("mine"))["spec"]

    await reader.follow("Leaders")
    await default.client.delete(SECRETS, "muster-webhook-certificates", "muster-system")
    await reader.follow("If the webhook's Secret is deleted")
    await reader.follow("What to keep")
    await default.clear()
    await reader.follow("To restore it")

    reader.finish()
    assert (await default.group("mine"))["spec"] == kept
    assert await default.remaining() == {POD_GROUPS.plural: ["mine"]}
