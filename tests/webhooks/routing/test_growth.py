"""The caches of the webhook keep no state of deleted objects."""

import asyncio
from collections import Counter

from api.constants import JOB
from controllers.cache.objects import COMPOSITES, POD_GROUPS, WORKLOADS
from kube.client.resources import PRIORITY_CLASSES
from tests.support.clock import settle
from tests.support.growth import kept_by
from tests.support.memory_api import MemoryApi
from tests.support.owners import made_for
from webhooks.cache.informers import ClusterInformers


async def test_nothing_is_kept_of_objects_that_come_and_go() -> None:
    api = MemoryApi()
    informers = ClusterInformers(api)
    task = asyncio.ensure_future(informers.run())

    async def kept(waves: range) -> Counter[str]:
        for number in waves:
            await wave(api, informers, number)
        return kept_by(informers, without=(api,))

    try:
        for synced in informers.synced.values():
            await synced.wait()
        before = await kept(range(3))
        after = await kept(range(3, 23))
    finally:
        task.cancel()
        await asyncio.wait({task})

    assert after - before == Counter()


async def wave(api: MemoryApi, informers: ClusterInformers, number: int) -> None:
    own, namespace = f"x{number}", f"ns{number}"
    meta = {"name": own, **made_for(JOB, own, f"uid-{number}")}
    reference = {"apiGroup": "batch", "kind": "Job", "name": own}
    for resource, spec in (
        (WORKLOADS, {"controllerRef": reference, "podGroupTemplates": []}),
        (COMPOSITES, {"schedulingPolicy": {"basic": {}}}),
        (POD_GROUPS, {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": own}),
    ):
        api.put(resource, {"metadata": dict(meta), "spec": spec}, namespace)
    api.put(PRIORITY_CLASSES, {"metadata": {"name": own}, "value": number})
    await settle()
    assert any(it.name == own for it in informers.priority_classes())
    assert informers.workload(namespace, own) is not None
    for resource in (POD_GROUPS, COMPOSITES, WORKLOADS, PRIORITY_CLASSES):
        for obj in api.all(resource):
            api.drop(resource, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    await settle()
