from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from kube.client.client import Client
from tests.kube.following import Following, Record, following
from tests.support.api_server import ScriptedServer
from tests.support.clock import FakeClock


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        yield client


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sink() -> Record:
    return Record()


@pytest.fixture(name="following")
def following_pods(client: Client, clock: FakeClock, sink: Record) -> Following:
    return partial(following, client, sink, clock)
