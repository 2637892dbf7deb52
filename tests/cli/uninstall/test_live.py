"""`muster uninstall` on the embedded cluster: killed before every single write, and run again.

No process of Muster runs. The tests create the objects of its webhook and controllers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from api.constants import FINALIZER_POD_GROUP, POD_GROUP, SCHEDULER_NAME
from cli import commands
from cli.uninstall import command
from cli.uninstall.discovery import served
from cli.uninstall.remaking import Remaking
from e2e.harness.clusters import nodes
from e2e.harness.support import manifests
from e2e.harness.support.rest import Rest
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.resources import CRDS, JOBS, MUTATING_WEBHOOKS, NAMESPACES, PODS, SECRETS, Resource
from localcluster.cluster import LocalCluster
from tests.support.owners import make_job

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(300)  # one cluster per test, and some 25 runs in the first test

GROUPS = Resource(*POD_GROUP)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NAMESPACE = "muster-system"
PLACE = "default"


OF_HELM = {
    "meta.helm.sh/release-name": "batch",
    "meta.helm.sh/release-namespace": NAMESPACE,
}


class Killed(BaseException):
    """The process was killed here."""


class Mortal(Client):
    """A client whose process is killed before its n-th write, or never (None)."""

    writes_left: int | None = None

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        params = options.get("params") or {}
        if method != "GET" and "dryRun" not in params and "accessreviews" not in path:
            if self.writes_left == 0:
                raise Killed
            if self.writes_left is not None:
                self.writes_left -= 1
        return await super().request(method, path, **options)


@dataclass
class Site:
    """An embedded cluster with Muster's manifests, a pending gang and a running pod."""

    client: Mortal
    rest: Rest
    said: list[str]

    async def install(self, *, all_of_it: bool = False) -> None:
        """Create the manifests, or one object of each kind but the CRDs, with Helm's labels."""
        # The webhook does not run, so objects that call it are created last.
        objects = manifests.load() if all_of_it else sample()
        for obj in objects:
            if obj["kind"] != NAMESPACES.kind:
                obj["metadata"] = obj["metadata"] | {"annotations": OF_HELM}
        await manifests.create(
            self.rest, [it for it in objects if not it["kind"].endswith("WebhookConfiguration")]
        )
        for crd in (await self.client.list(CRDS))["items"]:
            if crd["spec"].get("conversion", {}).get("strategy") == "Webhook":
                await self.until(partial(self.established, crd["metadata"]["name"]))
        await nodes.add(self.rest, "n1")
        for name in ("waits", "runs"):
            await self.client.create(JOBS, marked(name))
            await self.client.create(GROUPS, group(name))
        await self.until(lambda: self.has_pods("runs"))
        await self.bind("runs")
        await manifests.create(
            self.rest, [it for it in objects if it["kind"].endswith("WebhookConfiguration")]
        )

    async def established(self, name: str) -> bool:
        conditions = (await self.client.get(CRDS, name)).get("status", {}).get("conditions", ())
        return any(it["type"] == "Established" and it["status"] == "True" for it in conditions)

    async def until(self, probe: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(10):
            while not await probe():  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)

    async def pods(self, job: str) -> list[Json]:
        selector = f"batch.kubernetes.io/job-name={job}"
        found: list[Json] = (await self.client.list(PODS, PLACE, label_selector=selector))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def has_pods(self, job: str) -> bool:
        return bool(await self.pods(job))

    async def bind(self, job: str) -> None:
        (pod,) = await self.pods(job)
        meta = pod["metadata"]
        await self.client.bind(PLACE, meta["name"], meta["uid"], "n1")

    async def run(
        self, *, release: bool = True, dry_run: bool = False, prepare: bool = False
    ) -> int:
        self.said.clear()
        return await command.uninstall(
            self.client,
            NAMESPACE,
            self.said.append,
            release=release,
            dry_run=dry_run,
            timeout=10,
            prepare=prepare,
        )

    async def kinds(self) -> set[str]:
        return {it.full_name for it in await served(self.client)}


def sample() -> list[Json]:
    found: dict[str, Json] = {}
    for obj in manifests.load():
        key = obj["kind"] if obj["kind"] != CRDS.kind else obj["metadata"]["name"]
        found.setdefault(key, obj)
    return list(found.values())


def marked(name: str) -> Json:
    """Return a Job with the fields set by admission."""
    made = make_job(name).asks(gang_mode="Gang").managed(f"pg-{name}").pods(1, 1).build()
    made["spec"] |= {"backoffLimit": 0}
    made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    del made["metadata"]["uid"]
    return made


def group(name: str) -> Json:
    meta = {"name": f"pg-{name}", "namespace": PLACE, "finalizers": [FINALIZER_POD_GROUP]}
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    return {"apiVersion": GROUPS.api_version, "kind": GROUPS.kind, "metadata": meta, "spec": spec}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with (
        LocalCluster() as cluster,
        await Mortal.connect(cluster.kubeconfig) as client,
        Rest.open(cluster.kubeconfig) as rest,
    ):
        yield Site(client, rest, [])


async def check_released(site: Site, old: Json) -> None:
    """Check that running pods continue, and the default scheduler has the pending ones once."""
    job = await site.client.get(JOBS, "waits", PLACE)
    assert job["metadata"]["uid"] != old["metadata"]["uid"]
    assert job["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    runs = await site.client.get(JOBS, "runs", PLACE)
    assert runs["spec"]["template"]["spec"]["schedulerName"] == SCHEDULER_NAME
    (pod,) = await site.pods("runs")
    assert pod["spec"]["nodeName"] == "n1"
    assert sum(name in {"waits", "runs"} for name in await _jobs(site)) == 2


async def _jobs(site: Site) -> list[str]:
    return [it["metadata"]["name"] for it in (await site.client.list(JOBS, PLACE))["items"]]


def revision(release: str, number: int) -> Json:
    """Return the Secret of a Helm revision."""
    name = f"sh.helm.release.v1.{release}.v{number}"
    labels = {"owner": "helm", "name": release, "version": str(number)}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"metadata": meta, "type": "helm.sh/release.v1"}


@pytest.mark.long
async def test_a_run_that_is_killed_before_any_write_is_ended_by_the_next(site: Site) -> None:
    """No Secret remains that tells Helm that Muster is deployed; those of other releases do."""
    before = await site.kinds()
    writes, ended = 0, False
    await site.install()
    for made in (revision("batch", 1), revision("batch", 2), revision("other", 1)):
        await site.client.create(SECRETS, made)
    old = await site.client.get(JOBS, "waits", PLACE)
    # Each run is killed before its second write, so every write is the last one of some run.
    while not ended:
        site.client.writes_left = 1
        try:
            assert await site.run() == 0
            ended = True
        except Killed:
            writes += 1
        site.client.writes_left = None

    assert writes > 20
    await check_released(site, old)
    assert await site.kinds() == before
    left = (await site.client.list(SECRETS, NAMESPACE))["items"]
    assert [it["metadata"]["name"] for it in left] == ["sh.helm.release.v1.other.v1"]
    assert "  Secret muster-system/sh.helm.release.v1.other.v1" in site.said
    await site.client.delete(SECRETS, "sh.helm.release.v1.other.v1", NAMESPACE)
    assert await site.run() == 0
    with pytest.raises(NotFound):
        await site.client.get(NAMESPACES, NAMESPACE)


async def test_a_job_on_its_way_is_made_again_even_if_the_next_run_is_refused(site: Site) -> None:
    await site.install()
    for resource in (
        MUTATING_WEBHOOKS,
        Resource(
            "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "", False
        ),
    ):
        await site.client.delete(resource, "muster")
    old = await site.client.get(JOBS, "waits", PLACE)
    real = Remaking.restore

    async def deleted_only(self: Remaking, record: Any) -> None:
        await site.client.delete(JOBS, "waits", PLACE, propagation="Background")
        raise Killed

    Remaking.restore = deleted_only  # type: ignore[method-assign]
    try:
        with pytest.raises(Killed):
            await site.run()
    finally:
        Remaking.restore = real  # type: ignore[method-assign]
    assert await _jobs(site) == ["runs"]

    assert await site.run(release=False) == 1

    assert "Muster is in use in 1 namespace; nothing was deleted:" in site.said
    await check_released(site, old)
    assert not [
        it
        for it in (await site.client.list(SECRETS, NAMESPACE))["items"]
        if "released" in it["metadata"]["name"]
    ]


async def test_while_gangs_are_there_nothing_is_removed(site: Site) -> None:
    await site.install()
    version = (await site.client.get(JOBS, "waits", PLACE))["metadata"]["uid"]

    assert await site.run(release=False) == 1
    assert site.said[1] == "  default: 2 groups, 1 running pod, 1 waiting pod, 2 unfinished Jobs"
    assert await site.run(release=True, dry_run=True) == 0

    assert "  Job default/waits: recreated for the default scheduler" in site.said
    assert (await site.client.get(JOBS, "waits", PLACE))["metadata"]["uid"] == version
    assert await site.client.get(MUTATING_WEBHOOKS, "muster")


async def test_what_others_hold_is_named_and_the_next_run_goes_on(site: Site) -> None:
    await site.install()
    for name in ("waits", "runs"):
        await site.client.delete(JOBS, name, PLACE, propagation="Background")
    held = "example.com/held"
    path = GROUPS.path(PLACE, "pg-waits")
    patch = {"metadata": {"finalizers": [FINALIZER_POD_GROUP, held]}}
    (await site.rest.patch(path, patch)).ok()
    await site.until(lambda: _is_empty(site))

    code = await command.uninstall(
        site.client, NAMESPACE, site.said.append, release=False, dry_run=False, timeout=1
    )
    assert code == 1
    assert f"PodGroup default/pg-waits has {held}" in site.said[-1]
    (await site.rest.patch(path, {"metadata": {"finalizers": []}})).ok()

    assert await site.run(release=False) == 0


async def _is_empty(site: Site) -> bool:
    return not (await site.client.list(PODS, PLACE))["items"]


@pytest.mark.long
async def test_objects_of_others_in_the_namespace_and_of_our_names_stay(site: Site) -> None:
    await manifests.create(site.rest, manifests.load())
    config = {"metadata": {"name": "theirs", "namespace": NAMESPACE}}
    maps = Resource("", "v1", "configmaps", "ConfigMap")
    await site.client.create(maps, config)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/muster-view"
    (
        await site.rest.patch(role, {"metadata": {"labels": {"app.kubernetes.io/name": "other"}}})
    ).ok()

    assert await site.run(release=False) == 0

    assert await site.client.get(maps, "theirs", NAMESPACE)
    assert "  ConfigMap muster-system/theirs" in site.said
    assert (await site.rest.get(role)).status == 200
    await site.client.delete(maps, "theirs", NAMESPACE)
    assert await site.run(release=False) == 0
    with pytest.raises(NotFound):
        await site.client.get(NAMESPACES, NAMESPACE)


@pytest.mark.long
async def test_muster_whose_namespace_is_gone_already_is_removed_all_the_same(site: Site) -> None:
    """The state is that after `kubectl delete -k`, which hangs at the CRDs' finalizers."""
    await site.install(all_of_it=True)
    old = await site.client.get(JOBS, "waits", PLACE)
    for obj in reversed(manifests.load()):
        path = f"{manifests.path_of(obj)}/{obj['metadata']['name']}"
        assert (await site.rest.delete(path)).status in {200, 202, 404}
    assert [
        it for it in (await site.client.list(CRDS))["items"] if "muster" in it["metadata"]["name"]
    ]

    assert await site.run() == 0

    await check_released(site, old)
    assert not [it for it in await site.kinds() if it.endswith("muster.dev")]


@pytest.mark.long
async def test_prepared_everything_can_be_read_and_deleted_without_muster(site: Site) -> None:
    await site.install(all_of_it=True)
    old = await site.client.get(JOBS, "waits", PLACE)
    for _ in range(2):
        assert await site.run(prepare=True) == 0
        assert site.said[-1] == "Muster is stopped: delete the rest of it now"

    await check_released(site, old)
    for crd in (await site.client.list(CRDS))["items"]:
        assert crd["spec"].get("conversion", {}).get("strategy", "None") == "None"
    for name in ("waits", "runs"):
        kept = await site.client.get(GROUPS, f"pg-{name}", PLACE)
        assert not kept["metadata"].get("finalizers")
    assert await site.client.get(NAMESPACES, NAMESPACE)
    assert await site.client.get(ACCOUNTS, "muster-webhook", NAMESPACE)


def test_no_cluster_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["uninstall", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
