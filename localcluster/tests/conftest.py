"""The server in process, for every test that needs one."""

from collections.abc import AsyncIterator

import pytest

from localcluster.tests.world import World, make_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = await make_world()
    yield made
    await made.webhooks.stop()
    await made.api.converter.close()
    await made.custom.stop()
