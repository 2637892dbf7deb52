"""Install, a first gang, doctor, upgrade, an alert, a support bundle, and removal with gangs.

It uses the real helm, kubectl and Prometheus on a real control plane; afterwards nothing of Muster
remains. Only the pods of Muster's Deployments are simulated: their processes run on this machine.
"""

import asyncio
import json
import os
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import QUOTA_AND_VOLUMES, ROLES, Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import BIN
from e2e.harness.deployments import Deployments
from e2e.harness.objects import job, of_job
from e2e.harness.running import started
from e2e.harness.support.binaries import binary
from e2e.harness.support.manifests import MANIFESTS
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.install.chart.helm import Object, environment
from e2e.install.chart.release import Release
from e2e.install.monitoring.prometheus import Prometheus
from e2e.install.removal import inventory

TEAM = "team"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
PARTS = ("muster-webhook", "muster-controller", "muster-scheduler")
VALUES: Object = {
    "config": {
        "leaderElection": {"leaseSeconds": 3, "renewSeconds": 2, "retrySeconds": 0.5},
        "scheduler": {"status": {"delaySeconds": 0.1, "busySeconds": 0.5}},
    },
    "crds": {"keep": False},
}
CHANGED: Object = VALUES | {
    "profiles": [{"schedulerName": "muster-scheduler"}, {"schedulerName": "muster-spread"}],
    "topologyKeys": ["example.com/rack"],
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def cluster(server_kind: str) -> Iterator[Cluster]:
    """A separate cluster: it is compared with its initial state afterwards."""
    if server_kind != "real":
        pytest.skip("Helm needs a server of all kinds, and here an empty one")
    for name in ("helm", "kubectl", "prometheus"):
        binary(name)
    extra = (*QUOTA_AND_VOLUMES, *ROLES)
    made = ControlPlane(Options(routes_services=True, extra_controllers=extra))
    with started(made):
        yield made


@pytest.fixture
async def deployments(cluster: Cluster) -> AsyncIterator[Deployments]:
    async with Deployments(cluster) as made:
        try:
            yield made
        finally:
            print(made.logs())


async def test_a_whole_life(
    cluster: Cluster, deployments: Deployments, rest: Rest, tmp_path: Path
) -> None:
    before = await inventory.take(rest)
    (await rest.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})).ok()
    await cluster.add_node("n1", labels={"test.muster.dev/room": TEAM})
    release = Release(cluster.kubeconfig, rest)
    await release.install(VALUES)
    await cluster.kinds_installed()
    await rolled_out(cluster, tmp_path)
    running = await first_gang(rest)
    assert await findings(cluster, deployments) == []

    await release.install(CHANGED)
    await rolled_out(cluster, tmp_path)
    assert await pods_of(rest, "first") == running
    (await rest.post(JOBS, job("waits", "nowhere", pods=3))).expect(201)
    await eventually(lambda: has_pods(rest, "waits", 3), "pods that wait", 60)
    async with scraped(deployments, tmp_path) as prometheus:
        await an_alert_fires_and_clears(prometheus, deployments)
    await bundle(cluster, tmp_path)

    refused = await release.uninstall(fails=True)
    assert f"  {TEAM}: 2 groups, 2 running pods, 3 waiting pods, 2 unfinished Jobs" in refused
    await release.keep()
    await release.install(CHANGED | {"uninstall": {"release": True}})
    await rolled_out(cluster, tmp_path)
    said = await release.uninstall()

    assert f"Job {TEAM}/waits: recreated for the default scheduler" in said
    assert await pods_of(rest, "first") == running
    for path in (f"/api/v1/namespaces/{TEAM}", "/api/v1/namespaces/muster-system"):
        (await rest.delete(path)).ok()
    await cluster.remove_node("n1")
    await nothing_is_left(rest, before)


async def rolled_out(cluster: Cluster, home: Path) -> None:
    """Wait for the rollout with kubectl."""
    for part in PARTS:
        arguments = (f"deployment/{part}", "--namespace=muster-system", "--timeout=180s")
        access = f"--kubeconfig={cluster.kubeconfig}"
        code, said = await run(home, str(BIN / "kubectl"), "rollout", "status", *arguments, access)
        assert code == 0, said


async def first_gang(rest: Rest) -> dict[str, str]:
    """Run the first gang, and return its pods by UID with their nodes."""
    (await rest.post(JOBS, job("first", TEAM, pods=2))).expect(201)

    async def runs() -> bool:
        return list((await pods_of(rest, "first")).values()) == ["n1", "n1"]

    await eventually(runs, "the first gang to run", 60)
    return await pods_of(rest, "first")


async def pods_of(rest: Rest, name: str) -> dict[str, str]:
    """Return the node of each running pod, by UID."""
    found = (await rest.get(PODS, params={"labelSelector": of_job(name)})).ok()["items"]
    return {
        pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")
        for pod in found
        if pod["status"].get("phase") == "Running"
    }


async def has_pods(rest: Rest, name: str, count: int) -> bool:
    found = (await rest.get(PODS, params={"labelSelector": of_job(name)})).ok()["items"]
    return len(found) == count


async def findings(cluster: Cluster, deployments: Deployments) -> list[str]:
    """Return the findings of `muster doctor`."""
    urls = [f"--health=http://{deployments.address(part)}" for part in PARTS]
    _, said = await muster("doctor", "--json", f"--trial-namespace={TEAM}", *urls, of=cluster)
    return [
        f"{one['check']} {one['object']['name']}: {one['problem']}"
        for one in json.loads(said)["findings"]
        if one["severity"] != "info"
    ]


def scraped(deployments: Deployments, folder: Path) -> Prometheus:
    """Create a Prometheus with the alerts, except their waiting time."""
    document = yaml.safe_load((MANIFESTS / "monitoring" / "rules.yaml").read_text())
    for rule in document["groups"][0]["rules"]:
        rule.pop("for", None)
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(document))
    targets = {part.removeprefix("muster-"): deployments.address(part) for part in PARTS}
    return Prometheus(BIN / "prometheus", folder, targets, [rules])


async def an_alert_fires_and_clears(prometheus: Prometheus, deployments: Deployments) -> None:
    async def fires() -> bool:
        return "MusterAbsent" in await prometheus.firing()

    async def all_up() -> bool:
        return len(await prometheus.query("up == 1")) == len(PARTS) and not await fires()

    await eventually(prometheus.ready, "Prometheus to be ready", 60)
    await eventually(all_up, "all processes to be scraped", 60)
    scheduler = deployments.process("muster-scheduler")
    scheduler.kill()
    await eventually(fires, "the alert to fire", 60)
    scheduler.start()
    await eventually(all_up, "the alert to clear", 60)


async def bundle(cluster: Cluster, folder: Path) -> None:
    file = folder / "support.tar.gz"
    code, said = await muster("support-bundle", str(file), of=cluster)
    assert code == 0, said
    with tarfile.open(file) as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert {"doctor.json", "missing.json"} <= names, names


async def muster(*arguments: str, of: Cluster) -> tuple[int, str]:
    access = f"--kubeconfig={of.kubeconfig}"
    return await run(None, sys.executable, "-m", "cli", *arguments, access)


async def run(home: Path | None, *command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment(home) if home is not None else dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def nothing_is_left(rest: Rest, before: inventory.Inventory) -> None:
    left: set[tuple[str, str, str]] = set()

    async def same() -> bool:
        nonlocal left
        left = (await inventory.take(rest)).keys() ^ before.keys()
        return not left

    try:
        await eventually(same, "the cluster to be as before", 90)
    except TimeoutError:
        assert sorted(left) == []
