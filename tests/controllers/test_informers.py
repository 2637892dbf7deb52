"""The caches on the embedded cluster: JobSets are followed from the time they are installed."""

import asyncio

from controllers.informers import Caches, Informers
from kube.client import Client
from kube.resources import CRDS
from localcluster.cluster import LocalCluster
from localcluster.definitions.jobset import jobset_crd
from tests.controllers.test_process import install, submit_jobset
from tests.support.clock import FakeClock
from tests.support.owners import make_jobset


async def test_jobsets_installed_later_are_followed() -> None:
    caches, clock = Caches(), FakeClock()
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        watches = asyncio.create_task(Informers(client, caches, clock).run())
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
