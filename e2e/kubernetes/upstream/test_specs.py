"""Kubernetes' own end-to-end specs for scheduling pass on its scheduler and on Muster."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.controlplane import build
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.running import installed, no_deployments, started
from e2e.kubernetes.upstream import cluster, specs

COUNT = 35

pytestmark = [
    pytest.mark.long,
    # A spec waits five minutes to see that a pod stays without a node.
    pytest.mark.timeout(2400),
    pytest.mark.since("1.37", "the specs are those of this version"),
]


@pytest.fixture(scope="module")
def plane(server_kind: str) -> Iterator[ControlPlane]:
    """A control plane with both schedulers, the nodes of the specs, and nothing else."""
    if server_kind != "real":
        pytest.skip("the specs need kube-scheduler and the controllers of Kubernetes")
    build.build(neighbours=True)
    made = ControlPlane(cluster.options())
    with started(made), installed(made):
        asyncio.run(no_deployments(made))
        asyncio.run(cluster.add_nodes(made))
        yield made


async def test_all_pass_on_kube_scheduler(plane: ControlPlane, tmp_path: Path) -> None:
    """Otherwise this cluster lacks something that they need."""
    check(await specs.run(plane, tmp_path))


async def test_all_pass_on_muster(plane: ControlPlane, tmp_path: Path) -> None:
    async with cluster.pods_of_muster(plane):
        found = await specs.run(plane, tmp_path)
    check(found)


def check(found: list[specs.Spec]) -> None:
    failed = [it for it in found if it.outcome != specs.PASSED]
    for it in failed:
        print(it.outcome, it.name, it.reason, sep="\n")
    assert [it.name for it in failed] == []
    assert len(found) == COUNT
