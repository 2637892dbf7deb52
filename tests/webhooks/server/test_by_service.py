"""Two replicas behind a Service on the embedded cluster: one Secret, one CA, both respond."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import POD_GROUP
from kube.base.errors import ApiError, NotFound
from kube.client.client import Client
from kube.client.patch import PatchBuilder
from kube.client.resources import (
    CRDS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from localcluster.cluster import LocalCluster
from tests.support.dated_clock import DatedClock
from tests.webhooks.readiness import AwaitableReadiness
from tests.webhooks.review_requests import pod_group
from webhooks.app import WebhookConfig, run
from webhooks.server.registration import RESOURCES, ServiceTarget, load_manifests
from webhooks.server.server import bound

CRD_FOLDER = Path(__file__).resolve().parents[3] / "manifests" / "crd"
GROUPS = Resource(*POD_GROUP)
SERVICE = ("muster-system", "muster-webhook")


class Replica:
    """One webhook process of two."""

    def __init__(self, client: Client) -> None:
        with bound("127.0.0.1", 0) as sock:
            self.port = sock.getsockname()[1]
        self.stop = asyncio.Event()
        self.readiness = AwaitableReadiness()
        self.clock = DatedClock()
        config = WebhookConfig(ServiceTarget(), host="127.0.0.1", port=self.port)
        self.task = asyncio.create_task(
            run(client, config, self.stop, readiness=self.readiness, clock=self.clock)
        )

    async def end(self) -> None:
        self.stop.set()
        await self.task


@asynccontextmanager
async def two_replicas() -> AsyncIterator[tuple[LocalCluster, Client, list[Replica]]]:
    """Two ready replicas with the manifests installed as by an administrator."""
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        for name in ("muster-system", "team"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        for path in CRD_FOLDER.glob("*.yaml"):
            await client.create(CRDS, yaml.safe_load(path.read_text()))
        await served(client)
        for manifest in load_manifests():
            await client.create(RESOURCES[manifest["kind"]], manifest)
        replicas = [Replica(client), Replica(client)]
        for replica in replicas:
            await replica.clock.sleeping()
            await replica.clock.advance_to_next()
            await replica.readiness.is_ready.wait()
        yield cluster, client, replicas
        for replica in replicas:
            await replica.end()


async def served(client: Client) -> None:
    """Wait until our kinds are served."""
    while True:
        try:
            await client.list(GROUPS, "team")
        except NotFound:
            await asyncio.sleep(0)
        else:
            return


async def made(client: Client, name: str) -> dict[str, Any]:
    return await client.create(GROUPS, pod_group(name), "team")


async def test_either_replica_answers_with_the_one_ca_that_is_registered() -> None:
    async with two_replicas() as (cluster, client, replicas):
        stored = []
        for replica in replicas:
            cluster.services[SERVICE] = ("127.0.0.1", replica.port)
            stored.append(await made(client, f"by-{replica.port}"))
        secret = await client.get(SECRETS, "muster-webhook-certificates", "muster-system")
        bundles = {
            webhook["clientConfig"]["caBundle"]
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            for webhook in (await client.get(resource, "muster"))["webhooks"]
        }

    assert bundles == {secret["data"]["ca.crt"]}
    assert [group["metadata"]["finalizers"] for group in stored] == [
        ["scheduling.muster.dev/podgroup-protection"]
    ] * 2


async def test_a_ca_that_someone_removed_comes_back_with_the_next_round() -> None:
    async with two_replicas() as (cluster, client, replicas):
        cluster.services[SERVICE] = ("127.0.0.1", replicas[0].port)
        await client.patch(
            VALIDATING_WEBHOOKS,
            "muster",
            PatchBuilder().remove("/webhooks/1/clientConfig/caBundle"),
        )
        with pytest.raises(ApiError) as refused:
            await made(client, "first")
        await replicas[1].clock.advance_to_next()
        await replicas[1].clock.sleeping()
        group = await made(client, "second")

    assert "podgroups.validate.scheduling.muster.dev" in refused.value.message
    assert group["metadata"]["name"] == "second"


async def test_one_replica_less_is_no_request_lost() -> None:
    async with two_replicas() as (cluster, client, replicas):
        cluster.services[SERVICE] = ("127.0.0.1", replicas[0].port)
        await made(client, "before")
        cluster.services[SERVICE] = ("127.0.0.1", replicas[1].port)
        await replicas[0].end()
        after = await made(client, "after")

    assert after["spec"]["disruptionMode"] == {"single": {}}
