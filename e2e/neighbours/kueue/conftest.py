"""A separate control plane with Kueue and Muster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import Muster
from e2e.harness.running import installed, started
from e2e.harness.support.binaries import binary
from e2e.neighbours.kueue import controller

READY_SECONDS = 60
"""Seconds after which Kueue suspends a workload whose pods are not ready, with a full machine."""
WAIT_FOR_PODS = {
    "timeout": f"{READY_SECONDS}s",
    "requeuingStrategy": {"backoffBaseSeconds": 1, "timestamp": "Creation"},
}


@pytest.fixture(scope="package")
def cluster(server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The cluster: Kueue's webhooks see every Job and pod of it."""
    if server_kind != "real":
        pytest.skip("Kueue needs a real control plane: run with --cluster=real")
    binary("kueue")
    made = ControlPlane(Options())
    folder: Path = tmp_path_factory.mktemp("kueue")
    with started(made), controller.running(made, folder, waitForPodsReady=WAIT_FOR_PODS):
        yield made


@pytest.fixture(scope="package")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster
