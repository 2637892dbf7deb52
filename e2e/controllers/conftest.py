"""Every flow of the controllers ends with a look for what it left over."""

from collections.abc import AsyncIterator

import pytest

from cli.gc import check
from e2e.muster import CONTROLLER
from e2e.suite.stage import Stage


@pytest.fixture
async def stage(stage: Stage) -> AsyncIterator[Stage]:
    """After each `muster gc --check` finds nothing, once the collector has been there."""
    yield stage
    if not stage.muster.running(CONTROLLER):  # the flow failed half way
        await stage.muster.start(CONTROLLER)

    async def probe() -> bool:
        return await check(stage.client, stage.name) == []

    await stage.until("nothing to be left over", probe)
