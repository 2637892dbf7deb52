"""docs/guide.md, on a cluster with its prerequisites."""

from pathlib import Path

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.environment import Environment
from e2e.install.docs.reader import Reader

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path, record: bool) -> Reader:
    return Reader("guide.md", cluster.kubeconfig, tmp_path, record=record)


async def test_every_command_of_the_guide_works(reader: Reader, default: Environment) -> None:
    for _ in range(5):
        await default.add_node(cpu=4)

    await reader.follow("A first gang")
    await reader.follow("What Muster creates")
    await reader.follow("Why does it wait")
    await reader.follow("Clean up")

    reader.finish()
    assert await default.remaining() == {}
