"""Random kills; `e2e.faults.hostile.chaos` also runs standalone, for any number of rounds."""

import pytest

from e2e.faults.hostile import chaos
from e2e.faults.hostile.chaos import Plan

SEED = 20261122


@pytest.mark.long
async def test_random_kills_leave_nothing_wrong_and_nothing_behind(server_kind: str) -> None:
    if server_kind == "existing":
        pytest.skip("the processes of a cluster given by its kubeconfig are not ours to kill")
    plan = Plan(SEED, rounds=100, kills=30)

    result = await chaos.run(server_kind, plan)

    assert result.kills >= 30
    assert result.bound > 0
