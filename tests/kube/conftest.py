from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube.client import Client
from tests.support.api_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        yield client
