"""The in-process server for tests."""

from collections.abc import AsyncIterator

import pytest

from localcluster.tests.api_server import ApiServer, make_api_server


@pytest.fixture
async def apiserver() -> AsyncIterator[ApiServer]:
    made = await make_api_server()
    yield made
    await made.webhooks.stop()
    await made.api.converter.close()
    await made.custom.stop()
