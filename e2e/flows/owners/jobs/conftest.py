"""Every flow of the controllers ends with a search for orphans."""

from collections.abc import AsyncIterator

import pytest

from cli.cleanup.gc import check
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER


@pytest.fixture
async def env(env: Environment) -> AsyncIterator[Environment]:
    """After each `muster gc --check` finds nothing, once the collector has been there."""
    yield env
    if not env.muster.running(CONTROLLER):  # the flow failed half way
        await env.muster.start(CONTROLLER)

    async def probe() -> bool:
        return await check(env.client, env.name) == []

    await env.until("no orphans and no stuck finalizers", probe)
