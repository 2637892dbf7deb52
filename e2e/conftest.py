"""Options of the suites, and the one cluster and the one Muster of a run."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from api.features import Feature
from e2e.harness import last_use as last_uses
from e2e.harness import muster as processes
from e2e.harness.clusters.existing import ExistingCluster
from e2e.harness.clusters.local import Local
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import DEVICES, POD_MAKERS, QUOTA_AND_VOLUMES, ROLES, Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import KUBERNETES, before
from e2e.harness.devices import Devices, devices_in
from e2e.harness.environment import Environment
from e2e.harness.gates import switched_on
from e2e.harness.last_use import LastUse
from e2e.harness.muster import Muster
from e2e.harness.priorities import known_class
from e2e.harness.running import Started, installed, no_deployments, started
from e2e.harness.settled import settled
from e2e.harness.support.rest import Rest
from kube.client.client import Client

_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("muster")
    group.addoption(
        "--cluster",
        choices=("local", "real", "nodes"),
        default="local",
        help="the embedded cluster, a real control plane built from Go modules, or real nodes "
        "(e2e/nodes alone)",
    )
    group.addoption("--kubeconfig", type=Path, help="any cluster instead, kind for instance")
    group.addoption(
        "--keep-audit", type=Path, help="for python -m e2e.harness.permissions, afterwards"
    )
    group.addoption(
        "--rounds", type=int, default=1, help="how often an upgrade goes back and again"
    )
    group.addoption(
        "--combinations",
        type=int,
        default=30,
        help="how many rows e2e/faults/high_availability plays, in random order",
    )
    group.addoption("--record", action="store_true", help="write what docs/ shows of a run again")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    last_use = config.stash[last_uses.KEY] = LastUse()
    last_use.order(items)
    real = config.getoption("--cluster") == "real" and not config.getoption("--kubeconfig")
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        since, until = map(item.get_closest_marker, ("since", "until"))
        for mark, older in ((since, True), (until, False)):
            if mark is not None and real and before(mark.args[0]) is older:
                reason = f"{mark.args[1]}; this is Kubernetes {KUBERNETES}"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[last_uses.KEY].done(item)


@pytest.fixture(scope="session")
def record(pytestconfig: pytest.Config) -> bool:
    """True if the run writes the documents that it generates."""
    return bool(pytestconfig.getoption("--record"))


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    """Number of downgrades to an earlier version, each followed by an upgrade."""
    return int(pytestconfig.getoption("--rounds"))


@pytest.fixture(scope="session")
def server_kind(pytestconfig: pytest.Config) -> str:
    """`local`, `real` or `existing`, for the few tests that run on one server only."""
    if pytestconfig.getoption("--kubeconfig"):
        return "existing"
    return str(pytestconfig.getoption("--cluster"))


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config, server_kind: str) -> Iterator[Cluster]:
    """The cluster under test, started once, and stopped after the last test that uses it.

    Its servers are processes, so that it does not depend on an event loop and persists between
    tests.
    """
    made: Started
    if server_kind == "existing":
        made = ExistingCluster(pytestconfig.getoption("--kubeconfig").resolve())
    elif server_kind == "real":
        extra = (*QUOTA_AND_VOLUMES, *DEVICES, *ROLES)
        made = ControlPlane(Options(extra_controllers=extra))
    else:
        made = Local()
    with pytestconfig.stash[last_uses.KEY].end_of("cluster") as end:
        end.enter_context(started(made))
        yield made


@pytest.fixture(scope="session")
def with_kube_scheduler(
    pytestconfig: pytest.Config, server_kind: str
) -> Iterator[tuple[ControlPlane, Muster]]:
    """A control plane with kube-scheduler and the controllers that create pods, and Muster.

    No other suite has these. Muster's processes run outside the cluster: its Deployments must not
    also run here as pods.
    """
    if server_kind != "real":
        pytest.skip("the embedded cluster has no kube-scheduler, StatefulSets and Deployments")
    made = ControlPlane(Options(scheduler=True, extra_controllers=(*POD_MAKERS, *DEVICES)))
    with pytestconfig.stash[last_uses.KEY].end_of("with_kube_scheduler") as end:
        end.enter_context(started(made))
        muster = end.enter_context(installed(made))
        asyncio.run(no_deployments(made))
        yield made, muster


@pytest.fixture
async def rest(cluster: Cluster) -> AsyncIterator[Rest]:
    """A raw HTTP client with the admin's credentials."""
    async with Rest.open(cluster.kubeconfig) as client:
        yield client


@pytest.fixture(scope="session")
def running_muster(cluster: Cluster, pytestconfig: pytest.Config) -> Muster:
    """The three processes, started once. They end with the cluster."""
    end = pytestconfig.stash[last_uses.KEY].end_of("cluster")
    return end.enter_context(installed(cluster, keep_audit=pytestconfig.getoption("--keep-audit")))


@pytest.fixture
async def muster(running_muster: Muster) -> Muster:
    """All three processes, ready, whatever the previous test did to them."""
    for name in processes.ALL:
        if not running_muster.running(name):
            await running_muster.start(name)
    return running_muster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with await Client.connect(cluster.kubeconfig, user_agent="muster-e2e") as client:
        yield client


@pytest.fixture
async def env(
    cluster: Cluster, muster: Muster, client: Client, request: pytest.FixtureRequest
) -> AsyncIterator[Environment]:
    """A namespace, which must be deletable at the end, and the nodes added for it.

    A flow that passed must have settled before that, unless it is marked `unsettled`.
    """
    env = Environment(cluster, muster, client, f"flow-{secrets.token_hex(3)}")
    await env.open()
    yield env
    try:
        if request.node.stash.get(_PASSED, False) and not request.node.get_closest_marker(
            "unsettled"
        ):
            await settled(env)
    finally:
        await env.close()


@pytest.fixture
async def devices(env: Environment) -> AsyncIterator[Devices]:
    """The devices of the flow."""
    async with devices_in(env.client, env.name) as made:
        yield made


@pytest.fixture(scope="module")
def expected_pods(running_muster: Muster) -> Iterator[None]:
    """The feature gate for expected pods, on for the flows of a module."""
    with switched_on(running_muster, Feature.EXPECTED_PODS):
        yield


@pytest.fixture
async def important(env: Environment) -> AsyncIterator[str]:
    """The name of a priority class above the default that the webhook has observed."""
    async with known_class(env, "important", 1000) as name:
        yield name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every process's log for a failed flow."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    arguments = getattr(item, "funcargs", {})
    muster = arguments.get("running_muster") or arguments.get("muster")
    if report.failed and isinstance(muster, Muster):
        cluster = arguments.get("cluster")
        # When Karpenter saw which pods, and bought which nodes.
        others = cluster.processes if isinstance(cluster, ControlPlane) else {}
        logs = [it.log for name, it in others.items() if name == "karpenter"]
        for log in [*sorted(muster.logs.glob("*.log")), *logs]:
            end = log.read_text(errors="replace").splitlines()[-30:]
            report.sections.append((f"{log.name}", "\n".join(end)))
    return report
