"""docs/doctor.md, on a healthy installation: an exit code other than 0 would fail."""

import tarfile
from pathlib import Path

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.environment import Environment
from e2e.install.docs.reader import Reader

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Reader:
    return Reader("doctor.md", cluster.kubeconfig, tmp_path)


@pytest.mark.long
async def test_every_command_of_the_page_works(
    reader: Reader, default: Environment, tmp_path: Path
) -> None:
    await reader.follow("What is wrong, and what to do")
    await reader.follow("A support bundle")

    reader.finish()
    with tarfile.open(tmp_path / "checkout" / "support.tar.gz") as archive:
        assert "muster-support/missing.json" in archive.getnames()
