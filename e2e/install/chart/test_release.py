"""Install, use, upgrade, uninstall and reinstall, by the real Helm on a real API server."""

import asyncio
import sys
from collections.abc import Iterator

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.deployments import Deployments
from e2e.harness.objects import POD_GROUPS, job, of_job, pod_group
from e2e.harness.running import started
from e2e.harness.support import definitions
from e2e.harness.support.binaries import binary
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.install.chart.helm import CHART, NAMESPACE, RELEASE, Object
from e2e.install.chart.release import CONFIGS, DEPLOYMENTS, Release
from e2e.install.removal import inventory, neighbours
from tests.support.apps import deployment, stateful_set

TEAM, OTHERS = "team", "others"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
GROUPS = f"/apis/{POD_GROUPS.api_version}/namespaces/{TEAM}/podgroups"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster"
OF_KINDS = {
    "apiservices.apiregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
}
KEPT = (f"podgroups.{POD_GROUPS.group}", TEAM, "kept")
BACKGROUND = {"propagationPolicy": "Background"}

VALUES: Object = {
    "namespaceSelector": {"matchLabels": {"muster": "on"}},
    "networkPolicy": {"enabled": True, "podNetworks": ["10.64.0.0/10"]},
    "config": {
        "leaderElection": {"leaseSeconds": 3, "renewSeconds": 2, "retrySeconds": 0.5},
        "scheduler": {"status": {"delaySeconds": 0.1, "busySeconds": 0.5}},
    },
}
CHANGED: Object = VALUES | {
    "profiles": [{"schedulerName": "muster-scheduler"}, {"schedulerName": "muster-spread"}],
    "scheduler": {"replicas": 3},
    "flowControl": {"enabled": True},
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def cluster(server_kind: str) -> Iterator[Cluster]:
    """A separate cluster, because this suite installs and removes what other suites need."""
    if server_kind != "real":
        pytest.skip("Helm needs a server of all kinds, and here an empty one")
    binary("helm")
    made = ControlPlane(Options(routes_services=True))
    with started(made):
        yield made


@pytest.fixture
async def release(cluster: Cluster, rest: Rest) -> Release:
    for name, labels in ((TEAM, {"muster": "on"}), (OTHERS, {})):
        body = {"metadata": {"name": name, "labels": labels}}
        (await rest.post("/api/v1/namespaces", body)).ok()
    await cluster.add_node("n1", labels={"test.muster.dev/room": TEAM})
    return Release(cluster.kubeconfig, rest)


async def conversions(rest: Rest) -> set[str]:
    """Return the strategies of the kinds with more than one version."""
    found = (await rest.get(definitions.PATH)).ok()["items"]
    ours = (it["spec"] for it in found if it["spec"]["group"].endswith("scheduling.muster.dev"))
    return {it["conversion"]["strategy"] for it in ours if len(it["versions"]) > 1}


async def bundles(rest: Rest) -> set[str]:
    """Return the CA bundles that API servers have for the webhook."""
    configuration = (await rest.get(CONFIGURATION)).ok()
    crd = (await rest.get(f"{definitions.PATH}/workloads.scheduling.muster.dev")).ok()
    configs = [it["clientConfig"] for it in configuration["webhooks"]]
    configs.append(crd["spec"]["conversion"]["webhook"]["clientConfig"])
    return {it.get("caBundle", "") for it in configs}


async def runs(rest: Rest, name: str, count: int) -> None:
    async def probe() -> bool:
        path = f"/api/v1/namespaces/{TEAM}/pods"
        pods = (await rest.get(path, params={"labelSelector": of_job(name)})).ok()["items"]
        return [it["status"].get("phase") for it in pods] == ["Running"] * count

    await eventually(probe, f"{count} pods of {name} to run", 120)


async def gone(rest: Rest, path: str) -> None:
    async def probe() -> bool:
        return not (await rest.get(path)).ok()["items"]

    await eventually(probe, f"{path} to be empty", 120)


async def test_installed_used_upgraded_removed_and_installed_again(
    release: Release, cluster: Cluster, rest: Rest
) -> None:
    before = await inventory.take(rest)
    await release.install(VALUES)
    await cluster.kinds_installed()

    async with Deployments(cluster) as deployments:
        await deployments.rolled_out()
        await used_where_it_is_served(rest)
        await upgraded(release, rest)
        await deployments.rolled_out()
        said = await release.uninstall(fails=True)
        assert f"  {TEAM}: 1 group, 2 running pods, 0 waiting pods, 1 unfinished Job" in said
        assert len((await rest.get(DEPLOYMENTS)).ok()["items"]) == 3
        assert "" not in await bundles(rest)

        (await rest.delete(f"{JOBS}/train", BACKGROUND)).ok()
        await gone(rest, GROUPS)
        (await rest.post(GROUPS, pod_group("kept", 4))).ok()
        said = await release.uninstall()
        assert "Muster is stopped" in said

    await only_kinds_are_left(rest, before)
    await installed_again_and_removed_with_its_kinds(release, rest)
    await as_before(rest, before)


@pytest.mark.long
async def test_what_waits_is_handed_over_by_the_commands_that_the_refusal_names(
    release: Release, cluster: Cluster, rest: Rest
) -> None:
    """The hook has the permissions for it then; the scheduler serves another name, too."""
    await release.install(CHANGED)
    await cluster.kinds_installed()
    waits = job("waits", "nowhere", pods=2, mode=None)
    waits["spec"]["template"]["spec"]["schedulerName"] = "muster-spread"
    async with Deployments(cluster) as deployments:
        await deployments.rolled_out()
        for made in (job("train", TEAM, pods=2), job("large", TEAM, pods=20), waits):
            (await rest.post(JOBS, made)).expect(201)
        await runs(rest, "train", 2)
        await has_pods(rest, "large", 20)
        await has_pods(rest, "waits", 2)
        refused = await release.uninstall(fails=True)
        for command in printed_commands(refused)[:-1]:
            await release.helm(*command)
        said = await release.uninstall()

    assert f"Job {TEAM}/large: recreated for the default scheduler" in said
    assert f"Job {TEAM}/waits: its manifest has schedulerName muster-spread" in said
    await runs(rest, "train", 2)
    again = (await rest.get(f"{JOBS}/large")).ok()
    assert again["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert (await rest.get(CONFIGURATION)).status == 404


@pytest.mark.long
async def test_muster_uninstall_leaves_no_release_and_nothing_of_others(
    release: Release, cluster: Cluster, rest: Rest
) -> None:
    """The kinds of Kueue, Volcano and scheduler-plugins are installed, as published."""
    await neighbours.install(rest, real=True)
    before = await inventory.take(rest)
    theirs = {key: obj for key, obj in before.items() if key[2] == "theirs"}
    assert len(theirs) == len(neighbours.KINDS)
    await release.install(VALUES)
    await cluster.kinds_installed()
    assert await release.installed()
    command = (sys.executable, "-m", "cli", "uninstall", f"--kubeconfig={cluster.kubeconfig}")

    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0

    assert not await release.installed()
    await as_before(rest, before)
    after = await inventory.take(rest)
    assert {key: after[key] for key in theirs} == theirs
    await release.install(VALUES | {"crds": {"keep": False}})
    await release.uninstall()


def printed_commands(refusal: str) -> list[list[str]]:
    """Return the arguments of Helm in the last list of commands, with the chart's path."""
    lines = refusal.partition("commands in order")[2].splitlines()
    commands = [line.split()[1:] for line in lines if line.startswith("  helm ")]
    assert [it[0] for it in commands] == ["rollback", "upgrade", "uninstall"]
    assert commands[-1] == ["uninstall", RELEASE, "--namespace", NAMESPACE]
    return [[str(CHART) if it == "CHART" else it for it in command] for command in commands]


async def has_pods(rest: Rest, name: str, count: int) -> None:
    async def probe() -> bool:
        path = f"/api/v1/namespaces/{TEAM}/pods"
        pods = (await rest.get(path, params={"labelSelector": of_job(name)})).ok()["items"]
        return len(pods) == count

    await eventually(probe, f"{count} pods of {name}", 120)


async def used_where_it_is_served(rest: Rest) -> None:
    elsewhere = await rest.post(
        f"/apis/batch/v1/namespaces/{OTHERS}/jobs", job("train", TEAM, pods=2)
    )
    assert elsewhere.status == 422, elsewhere.text
    assert "Muster does not serve this namespace" in elsewhere.text
    assert '"muster":"on"' in elsewhere.body["message"]
    for asks in (stateful_set(gang_mode="Gang"), deployment(gang_mode="Gang")):
        asks["metadata"]["namespace"] = OTHERS
        asks["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "x"}]
        plural = f"{asks['kind'].lower()}s"
        refused = await rest.post(f"/apis/apps/v1/namespaces/{OTHERS}/{plural}", asks)
        assert refused.status == 422, refused.text
        assert "Muster does not serve this namespace" in refused.text
    plain = job("plain", TEAM, pods=1, mode=None)
    (await rest.post(f"/apis/batch/v1/namespaces/{OTHERS}/jobs", plain)).expect(201)

    (await rest.post(JOBS, job("train", TEAM, pods=2))).expect(201)
    await runs(rest, "train", 2)
    assert "" not in await bundles(rest)


async def upgraded(release: Release, rest: Rest) -> None:
    """Check that the values have effect, and that the webhook's own writes are kept."""
    authorities = await bundles(rest)
    # As in an older version: upgrades must update the CRDs.
    path = f"{definitions.PATH}/workloads.scheduling.muster.dev"
    crd = (await rest.get(path)).ok()
    older = [{"op": "remove", "path": "/spec/names/shortNames"}]
    (await rest.patch(path, older, "application/json-patch+json")).ok()
    await release.install(CHANGED)

    assert (await rest.get(path)).ok()["spec"]["names"] == crd["spec"]["names"]
    scheduler = (await rest.get(f"{DEPLOYMENTS}/muster-scheduler")).ok()
    assert scheduler["spec"]["replicas"] == 3
    assert await bundles(rest) == authorities
    conditions = (await rest.get(CONFIGURATION)).ok()["webhooks"]
    assert "in ['muster-scheduler', 'muster-spread']" in str(conditions)


async def only_kinds_are_left(rest: Rest, before: inventory.Inventory) -> None:
    await leaves(rest, before, ("namespaces", "", NAMESPACE), KEPT)
    assert not (await rest.get(f"{GROUPS}/kept")).ok()["metadata"].get("finalizers")
    assert await conversions(rest) == {"None"}


async def installed_again_and_removed_with_its_kinds(release: Release, rest: Rest) -> None:
    await release.install(VALUES | {"crds": {"keep": False}})
    assert await conversions(rest) == {"Webhook"}
    assert (await rest.get(f"{GROUPS}/kept")).status == 200

    # As after an interrupted removal, which a second run completes.
    for path in (f"{CONFIGS}/muster", f"{DEPLOYMENTS}/muster-webhook", CONFIGURATION):
        (await rest.delete(path)).ok()
    await release.uninstall()
    (await rest.delete(f"/apis/batch/v1/namespaces/{OTHERS}/jobs/plain", BACKGROUND)).ok()


async def as_before(rest: Rest, before: inventory.Inventory) -> None:
    """Check that every kind and object is deleted, except the namespace, which Helm keeps."""
    await leaves(rest, before, ("namespaces", "", NAMESPACE))


async def leaves(rest: Rest, before: inventory.Inventory, *wanted: tuple[str, str, str]) -> None:
    """Wait until nothing is new except these objects, and kinds if one of these has them."""
    left: set[tuple[str, str, str]] = set()

    async def found() -> bool:
        nonlocal left
        left = (await inventory.take(rest)).keys() - before.keys()
        if KEPT in wanted:
            left = {it for it in left if it[0] not in OF_KINDS and it[1] != OTHERS}
        return left == set(wanted)

    try:
        await eventually(found, "nothing more to be left", 60)
    except TimeoutError:
        assert left == set(wanted)
