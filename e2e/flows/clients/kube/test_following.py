"""Reflector, election and events against a complete API server, including outages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.support.waiting import eventually
from kube.base.errors import Unreachable
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.patch import PatchBuilder
from kube.client.resources import CONFIG_MAPS, EVENTS
from kube.events.events import ObjectReference, Recorder
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector, Requests
from kube.leader.election import Fence, LeaderElector

TIMES = LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.5)


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


@asynccontextmanager
async def running(part: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(part)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until(holds: Callable[[], bool], what: str) -> None:
    async def probe() -> bool:
        return holds()

    await eventually(probe, what, timeout=20)


def values(cache: Cache[RawObject]) -> dict[str, str]:
    return {
        obj.metadata.name: obj.raw["data"]["a"]
        for obj in cache.values()
        if not obj.metadata.name.startswith("kube-")
    }


async def test_a_cache_follows_what_happens(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("before"), namespace)
    cache: Cache[RawObject] = Cache()
    reflector = Reflector(client, CONFIG_MAPS, cache, decode=decode_raw, namespace=namespace)

    async with running(reflector.run()):
        await reflector.synced.wait()
        assert values(cache) == {"before": "1"}
        await client.create(CONFIG_MAPS, config_map("after"), namespace)
        await client.patch(CONFIG_MAPS, "before", PatchBuilder().replace("/data/a", "2"), namespace)
        await until(lambda: values(cache) == {"before": "2", "after": "1"}, "both changes")
        await client.delete(CONFIG_MAPS, "before", namespace)
        await until(lambda: values(cache) == {"after": "1"}, "the deletion")


async def test_a_cache_survives_an_api_server_that_goes_away(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    cache: Cache[RawObject] = Cache()
    reflector = Reflector(
        client,
        CONFIG_MAPS,
        cache,
        decode=decode_raw,
        namespace=namespace,
        requests=Requests(inactivity=2),
    )

    async with running(reflector.run()):
        await reflector.synced.wait()
        await cluster.stop_apiserver()
        try:
            with pytest.raises(Unreachable):
                await client.request("GET", CONFIG_MAPS.path(namespace), timeout=1)
        finally:
            await cluster.start_apiserver()
        await client.create(CONFIG_MAPS, config_map("later"), namespace)
        await until(lambda: values(cache) == {"later": "1"}, "what came after the outage")


async def test_a_leader_that_stops_hands_over_at_once(client: Client, namespace: str) -> None:
    fences: dict[str, Fence] = {}

    def candidate(identity: str) -> Coroutine[Any, Any, None]:
        async def work(fence: Fence) -> None:
            fences[identity] = fence
            await asyncio.Event().wait()

        return LeaderElector(client, "leader", namespace, identity, times=TIMES).run(work)

    async with running(candidate("a")) as first:
        await until(lambda: "a" in fences, "a leader")
        async with running(candidate("b")):
            first.cancel()
            await until(lambda: "b" in fences, "the next leader")
            assert not fences["a"].valid()
            assert fences["b"].token > fences["a"].token


async def test_a_leader_stops_in_an_outage_and_leads_again_after_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    fences: list[Fence] = []
    ended = asyncio.Event()

    async def work(fence: Fence) -> None:
        fences.append(fence)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    elector = LeaderElector(client, "leader", namespace, "a", times=TIMES)
    async with running(elector.run(work)):
        await until(lambda: len(fences) == 1, "a leader")
        await cluster.stop_apiserver()
        try:
            await ended.wait()
            assert not fences[0].valid()
        finally:
            await cluster.start_apiserver()
        # A newly started server may be slow enough to lose a lease or two.
        await until(lambda: len(fences) > 1 and fences[-1].valid(), "leading again")


async def test_events_are_counted_across_restarts(client: Client, namespace: str) -> None:
    thing = await client.create(CONFIG_MAPS, config_map("c"), namespace)
    about = ObjectReference("v1", "ConfigMap", namespace, "c", thing["metadata"]["uid"])

    for _ in range(2):
        recorder = Recorder(client, "muster-test")
        async with running(recorder.run()):
            for _ in range(2):
                recorder.event(about, "Warning", "Waiting", "3 of 4 fit")
                await recorder.drained()

    [event] = (await client.list(EVENTS, namespace))["items"]
    assert (event["count"], event["reason"]) == (4, "Waiting")
    assert event["involvedObject"]["uid"] == thing["metadata"]["uid"]
