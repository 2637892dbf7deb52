"""Every flow of the controllers ends with a check for orphans."""

from collections.abc import AsyncIterator

import pytest

from cli.cleanup.gc import check
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER


@pytest.fixture
async def env(env: Environment) -> AsyncIterator[Environment]:
    """The environment; afterwards `muster gc --check` must find nothing after the collector ran."""
    yield env
    if not env.muster.running(CONTROLLER):  # the flow failed before it restarted the controller
        await env.muster.start(CONTROLLER)

    async def probe() -> bool:
        return await check(env.client, env.name) == []

    await env.until("no orphans and no stuck finalizers", probe)
