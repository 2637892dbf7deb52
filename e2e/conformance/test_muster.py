"""Muster passes the conformance kit: its core in each run, all of it with `--long`."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.values.scenario import load
from e2e.conformance.kit import PROTECTED, muster_scheduler, run
from e2e.harness.clusters.local import Local
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import ROOT
from e2e.harness.muster import SCHEDULER, Muster
from e2e.harness.running import Started, installed, started
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually

NODES = "/api/v1/nodes?labelSelector=gang-conformance/run"


async def test_the_core_passes(cluster: Cluster, muster: Muster, tmp_path: Path) -> None:
    options = ["--adapter=muster", "--core"]
    results, text = await run(cluster.kubeconfig, muster_scheduler(muster), tmp_path, *options)
    await muster.ready(SCHEDULER)
    assert results == {it.name: "passed" for it in load() if it.core}, text


async def test_a_run_that_is_terminated_leaves_no_nodes(cluster: Cluster, muster: Muster) -> None:
    await muster.ready(SCHEDULER)
    options = ["--adapter=muster", "--scenario=gang-waits", "--quiet=600", "--patience=600"]
    command = [sys.executable, "-m", "conformance", f"--kubeconfig={cluster.kubeconfig}", *options]
    child = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    async with Rest.open(cluster.kubeconfig) as rest:

        async def has_nodes() -> bool:
            return bool((await rest.get(NODES)).ok()["items"])

        await eventually(has_nodes, "the nodes of the kit", 120)
        child.terminate()
        assert await child.wait() != 0
        assert not await has_nodes()


@pytest.fixture(scope="module")
def protecting(server_kind: str) -> Iterator[tuple[Cluster, Muster]]:
    """A cluster of its own whose Muster protects large groups from starvation."""
    if server_kind == "existing":
        pytest.skip("the configuration of its Muster may not be changed")
    made: Started = ControlPlane() if server_kind == "real" else Local()
    with started(made), installed(made, scheduler=PROTECTED) as muster:
        yield made, muster


@pytest.mark.long
async def test_all_scenarios_pass(protecting: tuple[Cluster, Muster], tmp_path: Path) -> None:
    cluster, muster = protecting
    results, text = await run(
        cluster.kubeconfig, muster_scheduler(muster), tmp_path, "--adapter=muster"
    )
    assert results == {it.name: "passed" for it in load()}, text
