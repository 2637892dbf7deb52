"""The caches on the embedded cluster: JobSets are followed from their installation on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from controllers.cache.capacity_requests import REQUESTS
from controllers.cache.informers import Caches, ControllerInformers
from controllers.cache.objects import CLAIM_TEMPLATES, CLAIMS
from kube.base.errors import Forbidden
from kube.client.client import Client
from kube.client.discovery import Discovery
from kube.client.resources import CRDS, PODS, Resource
from kube.informers.quarantine import Quarantine
from localcluster.cluster import LocalCluster
from localcluster.definitions.jobset import jobset_crd
from tests.controllers.test_process import install, running, submit_jobset
from tests.support.clock import FakeClock
from tests.support.owners import make_jobset


async def test_jobsets_installed_later_are_followed() -> None:
    caches, clock = Caches(), FakeClock()
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        watches = asyncio.create_task(ControllerInformers(client, caches, clock).run())
        await caches.synced.wait()
        arrived = asyncio.Event()
        caches.jobsets.subscribe(lambda old, new: arrived.set())

        await client.create(CRDS, jobset_crd())
        await submit_jobset(client, make_jobset("a").replicated_job("b").build())
        await clock.sleeping()
        await clock.advance(60)
        await arrived.wait()
        watches.cancel()
        await asyncio.wait({watches})

    assert caches.jobsets.get("default", "a") is not None


async def test_pods_are_read_again_once_native_groups_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their `spec.schedulingGroup` names a group of Muster's only until then."""
    served: set[str] = set()

    async def probe(_discovery: Discovery) -> frozenset[str]:
        return frozenset(served)

    monkeypatch.setattr(Discovery, "probe", probe)
    caches, clock = Caches(), FakeClock()
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "muster-scheduler",
            "schedulingGroup": {"podGroupName": "g"},
            "containers": [{"name": "c", "image": "none"}],
        },
    }
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        await client.create(PODS, pod)
        watches = asyncio.create_task(ControllerInformers(client, caches, clock).run())
        await caches.synced.wait()
        before = caches.pods.get("default", "p")
        served.add("podgroups.scheduling.k8s.io")
        read = asyncio.Event()
        caches.pods.subscribe(lambda old, new: read.set())
        await clock.sleeping()
        await clock.advance(60)
        async with asyncio.timeout(60):
            while not read.is_set():
                await clock.advance(1)
                await asyncio.sleep(0.01)
        watches.cancel()
        await asyncio.wait({watches})

    after = caches.pods.get("default", "p")
    assert before is not None
    assert after is not None
    assert (before.groups, after.groups) == (("g",), ("g/scheduling.k8s.io",))


CRDS_OF_OTHERS = Path(__file__).parents[3] / "e2e/flows/owners/jobs/crds"
CRD = CRDS_OF_OTHERS / "provisioningrequests.autoscaling.x-k8s.io.yaml"


def capacity_request(name: str, *, ours: bool, spec: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "muster"} if ours else {}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    kind = {"apiVersion": REQUESTS.api_version, "kind": REQUESTS.kind}
    return kind | {"metadata": metadata, "spec": spec}


async def test_requests_for_capacity_come_and_go_with_their_crd() -> None:
    """Other controllers' requests are ignored, and an undecodable one does not block the others."""
    caches, clock, quarantine = Caches(), FakeClock(), Quarantine()
    crd = yaml.safe_load(CRD.read_text())
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    sets = {"podSets": [{"podTemplateRef": {"name": "t"}, "count": 2}]}
    served: list[Any] = []
    caches.when_served(served.append)
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        watches = asyncio.create_task(ControllerInformers(client, caches, clock, quarantine).run())
        await caches.synced.wait()
        assert REQUESTS not in caches.served

        await client.create(CRDS, crd)
        await client.create(REQUESTS, capacity_request("others", ours=False, spec=sets))
        await client.create(REQUESTS, capacity_request("odd", ours=True, spec="text"))
        await client.create(REQUESTS, capacity_request("good", ours=True, spec=sets))
        while REQUESTS not in caches.served:
            await clock.sleeping()
            await clock.advance(15)
        assert [it.metadata.name for it in caches.requests.values()] == ["good"]
        assert list(quarantine.details()) != []

        await client.delete(CRDS, crd["metadata"]["name"])
        while len(caches.requests):
            await clock.advance(15)
        await client.create(CRDS, crd)
        await client.create(REQUESTS, capacity_request("later", ours=True, spec=sets))
        while caches.requests.get("default", "later") is None:
            await clock.advance(15)
        watches.cancel()
        await asyncio.wait({watches})

    assert [it for it in served if it.group == REQUESTS.group] == [REQUESTS]


async def test_of_the_claims_only_those_of_groups_are_watched() -> None:
    """Every pod that uses devices has a claim."""
    caches = Caches()
    spec = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "b"}}]}}
    labels = {"app.kubernetes.io/managed-by": "muster"}
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        watches = asyncio.create_task(ControllerInformers(client, caches, FakeClock()).run())
        await caches.synced.wait()
        assert {CLAIMS, CLAIM_TEMPLATES} <= caches.served

        seen, ours = asyncio.Event(), {"name": "ours", "labels": labels}
        caches.claims.subscribe(lambda _old, _new: seen.set())
        await client.create(CLAIMS, {"metadata": {"name": "others"}, "spec": spec}, "default")
        await client.create(CLAIMS, {"metadata": ours, "spec": spec}, "default")
        await seen.wait()
        watches.cancel()
        await asyncio.wait({watches})

    assert [it.metadata.name for it in caches.claims.values()] == ["ours"]


def refuse(client: Client, refused: set[Resource], monkeypatch: pytest.MonkeyPatch) -> None:
    """Reject requests as the API server does while an earlier version's roles are installed."""
    request = client.request

    async def asked(method: str, path: str, **how: Any) -> bytes:
        if path in {resource.path() for resource in refused}:
            raise Forbidden(403, "Forbidden", "cannot list")
        return await request(method, path, **how)

    monkeypatch.setattr(client, "request", asked)


async def test_what_may_not_be_read_is_followed_once_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new controller may run before its roles exist: everything else works meanwhile."""
    caches, clock, refused = Caches(), FakeClock(), {CLAIMS, REQUESTS}
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        refuse(client, refused, monkeypatch)
        with capture_logs() as logs:
            watches = asyncio.create_task(ControllerInformers(client, caches, clock).run())
            await caches.synced.wait()
            assert caches.forbidden == {CLAIMS, REQUESTS}
            assert CLAIM_TEMPLATES in caches.served
            await clock.sleeping()
            await clock.advance(60)
            assert CLAIMS not in caches.served

            refused.clear()
            while caches.forbidden or CLAIMS not in caches.served:
                await clock.sleeping()
                await clock.advance(15)
        watches.cancel()
        await asyncio.wait({watches})

    told = [it["resource"] for it in logs if it["log_level"] == "error"]
    assert sorted(told) == [REQUESTS.full_name, CLAIMS.full_name]


async def test_readyz_names_what_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {REQUESTS}
    async with (
        LocalCluster() as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        refuse(client, refused, monkeypatch)
        async with running(client) as process:
            await process._caches.synced.wait()
            said = list(process.details())

    assert said == [
        f"{REQUESTS.full_name} is forbidden to the account: apply the roles of this version"
    ]
