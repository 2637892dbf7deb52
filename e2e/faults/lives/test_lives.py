"""Random lives: Muster lets the Job and JobSet controllers finish everything they could finish.

A failed life is shown with its number and script; `e2e/faults/lives/__main__.py` explains how to
repeat it.
"""

import asyncio
from collections.abc import Iterator

import pytest

from e2e.faults.lives import run
from e2e.faults.lives.drawing import draw
from e2e.faults.lives.run import AT_ONCE
from e2e.harness.clusters.local import Local
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import Muster
from e2e.harness.running import Started, installed, started


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[Started]:
    """A separate cluster: the embedded one lets JobSets change their size."""
    if server_kind == "existing":
        pytest.skip("lives need simulated nodes")
    made: Started = ControlPlane() if server_kind == "real" else Local("--jobset-scaling")
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: Started) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_lives_end_as_they_would_without_muster(
    cluster: Started, running_muster: Muster, server_kind: str
) -> None:
    count = {"real": 50, "local": 150}[server_kind]
    lives = map(draw, range(count))
    result = asyncio.run(run.play(lives, cluster, running_muster, at_once=AT_ONCE))

    assert result.played == count
    assert not result.faults, "\n\n".join(result.faults.values())
