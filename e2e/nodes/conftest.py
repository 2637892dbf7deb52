"""One cluster of real nodes for the session; `pytest e2e/nodes --cluster=nodes`."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.harness.support.kubectl import Kubectl
from e2e.nodes import installation
from e2e.nodes.cluster.cluster import RealNodes
from e2e.nodes.cluster.places import RUN
from e2e.nodes.tenant import Tenant

_HERE = Path(__file__).parent
_LOG_LINES = 40


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out of other runs, and run them in the order of their files.

    The first one needs a cluster without Muster, and installs it from nothing.
    """
    ours = [item for item in items if item.path.is_relative_to(_HERE)]
    others = [item for item in items if not item.path.is_relative_to(_HERE)]
    if config.getoption("--cluster") != "nodes":
        config.hook.pytest_deselected(items=ours)
        ours = []
    items[:] = [*others, *sorted(ours, key=lambda item: (item.path, _line(item)))]


def _line(item: pytest.Item) -> int:
    return item.location[1] or 0


@pytest.fixture(scope="session")
def nodes() -> Iterator[RealNodes]:
    """A control plane and two workers, all Ready; at the end nothing is left of them."""
    cluster = RealNodes()
    with asyncio.Runner() as runner:
        try:
            runner.run(cluster.start())
            yield cluster
        finally:
            runner.run(cluster.stop())
    assert cluster.traces() == []


@pytest.fixture
def kubectl(nodes: RealNodes, tmp_path: Path) -> Kubectl:
    """The administrator's."""
    return Kubectl(nodes.kubeconfig, tmp_path)


@pytest.fixture
async def muster(nodes: RealNodes, kubectl: Kubectl) -> None:
    """Muster by manifests/base, all of it ready."""
    await installation.by_manifests(kubectl)


@pytest.fixture
async def tenant(nodes: RealNodes, muster: None, tmp_path: Path) -> AsyncIterator[Tenant]:
    """A namespace, which must be deletable at the end; all workers are Ready then."""
    async with nodes.client() as rest:
        tenant = Tenant(rest, nodes, tmp_path, f"flow-{secrets.token_hex(3)}")
        await tenant.open()
        yield tenant
        await tenant.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the end of every log of the nodes for a failed test."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("nodes")
    if report.failed and isinstance(cluster, RealNodes):  # type: ignore[attr-defined]
        for log in cluster.logs():
            end = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
            name = str(log.relative_to(RUN))
            report.sections.append((name, "\n".join(end)))  # type: ignore[attr-defined]
    return report
