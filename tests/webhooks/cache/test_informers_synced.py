"""The caches against an API server: their contents, and the moment at which they are synced."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.features import FeatureGates
from kube.client.client import Client
from tests.support.api_server import Answer, Reply, ScriptedServer, Seen, Stream
from webhooks.cache.informers import ClusterInformers
from webhooks.server.readiness import CACHES


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1", **more}


LEAVING = "2026-01-01T00:00:00Z"
TEMPLATES = {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}
ITEMS: dict[str, list[dict[str, Any]]] = {
    "priorityclasses": [{"metadata": {"name": "high", "uid": "u"}, "value": 7}],
    "workloads": [{"metadata": meta("w"), "spec": TEMPLATES, "unknown": {"field": 1}}],
    "compositepodgroups": [
        {"metadata": meta("root"), "spec": {}},
        {
            "metadata": meta("mid", deletionTimestamp=LEAVING),
            "spec": {"parentCompositePodGroupName": "root"},
        },
    ],
    "podgroups": [
        {"metadata": meta("here"), "spec": {}},
        {"metadata": meta("leaving", deletionTimestamp=LEAVING), "spec": {}},
    ],
}


async def answer(seen: Seen) -> Answer:
    if seen.query.get("watch"):
        return Stream()
    if seen.path == "/apis/scheduling.k8s.io/v1beta1":
        return Reply({"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]})
    items = ITEMS[seen.path.rpartition("/")[2]]
    return Reply({"metadata": {"resourceVersion": "1"}, "items": items})


async def test_what_is_watched_is_known_once_it_is_synced(tmp_path: Path) -> None:
    async with ScriptedServer() as server:
        server.handler = answer
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            informers = ClusterInformers(client)
            running = asyncio.create_task(informers.run())
            for synced in informers.synced.values():
                await synced.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    assert set(informers.synced) == set(CACHES)
    assert [each.name for each in informers.priority_classes()] == ["high"]
    assert informers.workload("team", "w") == {"spec": TEMPLATES}
    assert informers.workload("other", "w") is None
    root, mid = (informers.composite("team", name) for name in ("root", "mid"))
    assert root is not None
    assert mid is not None
    assert (root.parent, root.deleting) == ("", False)
    assert (mid.parent, mid.deleting) == ("root", True)
    assert informers.composite("team", "gone") is None
    assert informers.group_is_taken("CompositePodGroup", "team", "root", ("JobSet", "j"))
    assert not informers.group_is_taken("CompositePodGroup", "team", "gone", ("JobSet", "j"))
    assert informers.group_is_taken("PodGroup", "team", "here", ("JobSet", "j"))
    assert not informers.group_is_taken("PodGroup", "team", "root", ("JobSet", "j"))
    assert informers.pod_group_is_deleting("team", "leaving", ())
    assert not informers.pod_group_is_deleting("team", "leaving", ("somebody",))
    assert not informers.pod_group_is_deleting("team", "here", ())


@pytest.mark.parametrize("on", [True, False])
async def test_groups_of_kubernetes_own_are_discovered(tmp_path: Path, on: bool) -> None:
    async with ScriptedServer() as server:
        server.handler = answer
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            informers = ClusterInformers(client, gates=FeatureGates.of({"NativeGroups": on}))
            running = asyncio.create_task(informers.run())
            for synced in informers.synced.values():
                await synced.wait()
            async with asyncio.timeout(20):
                while on and not informers.native:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    assert informers.native is on
