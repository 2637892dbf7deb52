"""Muster for the session, and a stage for each test."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from e2e import muster as processes
from e2e.clusters.protocol import Cluster
from e2e.muster import Muster
from e2e.suite.stage import Stage
from kube.client import Client


@pytest.fixture(scope="session")
def running_muster(cluster: Cluster) -> Iterator[Muster]:
    """The three processes, started once."""
    muster = Muster(cluster.kubeconfig)
    with asyncio.Runner() as runner:
        try:
            runner.run(muster.install())
            runner.run(cluster.kinds_installed())
            runner.run(muster.start(*processes.ALL))
            yield muster
            runner.run(muster.uninstall())
        finally:
            muster.stop()


@pytest.fixture
async def muster(running_muster: Muster) -> Muster:
    """All three processes, ready, whatever the test before did to them."""
    for name in processes.ALL:
        if not running_muster.running(name):
            await running_muster.start(name)
    return running_muster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with await Client.connect(cluster.kubeconfig, user_agent="muster-e2e") as client:
        yield client


@pytest.fixture
async def stage(cluster: Cluster, muster: Muster, client: Client) -> AsyncIterator[Stage]:
    """A namespace that must be deletable at the end, and the nodes added in it."""
    stage = Stage(cluster, muster, client, f"flow-{secrets.token_hex(3)}")
    await stage.open()
    yield stage
    await stage.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A flow that fails shows the end of every process's log."""
    report = yield
    arguments = getattr(item, "funcargs", {})
    muster = arguments.get("running_muster") or arguments.get("muster")
    if report.failed and isinstance(muster, Muster):  # type: ignore[attr-defined]
        for log in sorted(muster.logs.glob("*.log")):
            end = log.read_text(errors="replace").splitlines()[-30:]
            report.sections.append((f"{log.name}", "\n".join(end)))  # type: ignore[attr-defined]
    return report
