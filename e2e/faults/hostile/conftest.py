"""One stage for all attacks of a run."""

import asyncio
from collections.abc import Iterator

import pytest

from e2e.faults.hostile.stage import Player, staged
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import Muster

_HOLLOW, _HOLLOW_LONG = 46, 211
_HOSTILE, _HOSTILE_LONG = 1, 3


@pytest.fixture(scope="module")
def player(cluster: Cluster, running_muster: Muster, long: bool) -> Iterator[Player]:
    """The tenants and nodes of the module; Hypothesis's examples run on the same stage."""
    with asyncio.Runner() as runner:
        opened = staged(
            cluster,
            running_muster,
            hollow=_HOLLOW_LONG if long else _HOLLOW,
            hostile=_HOSTILE_LONG if long else _HOSTILE,
        )
        stage = runner.run(opened.__aenter__())
        try:
            yield Player(runner, stage)
        finally:
            runner.run(opened.__aexit__(None, None, None))
