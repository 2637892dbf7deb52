"""Requests, and the error responses of a complete API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.clusters.protocol import Cluster
from kube.base.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from kube.client.client import Client
from kube.client.patch import PatchBuilder
from kube.client.resources import CONFIG_MAPS, NODES, PODS
from tests.support.builders import make_pod


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


async def test_an_object_lives_through_create_patch_replace_and_delete(
    client: Client, namespace: str
) -> None:
    created = await client.create(CONFIG_MAPS, config_map("c"), namespace)
    await client.patch(CONFIG_MAPS, "c", PatchBuilder().replace("/data/a", "2"), namespace)
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, created)
    latest = await client.get(CONFIG_MAPS, "c", namespace)
    await client.replace(CONFIG_MAPS, latest | {"data": {"a": "3"}})

    assert (await client.get(CONFIG_MAPS, "c", namespace))["data"] == {"a": "3"}
    await client.delete(CONFIG_MAPS, "c", namespace, uid=created["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "c", namespace)


async def test_a_name_is_taken_once(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("c"), namespace)

    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("c"), namespace)


async def test_a_dry_run_creates_nothing(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("c"), namespace, dry_run=True)

    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "c", namespace)


async def test_a_patch_of_another_version_is_a_conflict(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("c"), namespace)
    version = created["metadata"]["resourceVersion"]
    ops = PatchBuilder().at_version(version).add("/data/b", "1")
    await client.patch(CONFIG_MAPS, "c", ops, namespace)

    again = PatchBuilder().at_version(version).add("/data/c", "1")
    with pytest.raises(Conflict):
        await client.patch(CONFIG_MAPS, "c", again, namespace)


async def test_a_patch_for_another_object_does_not_apply(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("c"), namespace)
    uid = created["metadata"]["uid"]
    await client.patch(CONFIG_MAPS, "c", PatchBuilder().of_uid(uid).add("/data/b", "1"), namespace)

    for ops in (PatchBuilder().of_uid("another"), PatchBuilder().remove("/data/absent")):
        with pytest.raises(Invalid) as caught:
            await client.patch(CONFIG_MAPS, "c", ops, namespace)
        assert caught.value.patch_failed


async def test_a_broken_rule_names_its_field(client: Client, namespace: str) -> None:
    pod = make_pod("p", namespace).build()
    pod["spec"]["containers"][0]["name"] = "not a label"

    with pytest.raises(Invalid) as caught:
        await client.create(PODS, pod)

    assert not caught.value.patch_failed
    assert [cause.field for cause in caught.value.causes] == ["spec.containers[0].name"]


async def test_a_refusal_by_admission_is_forbidden(client: Client, namespace: str) -> None:
    with pytest.raises(Forbidden):
        await client.create(PODS, make_pod("p", namespace).priority_class("nowhere").build())


async def test_deleting_another_object_of_the_name_is_a_conflict(
    client: Client, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, config_map("c"), namespace)

    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "c", namespace, uid="another")


async def test_a_wrong_token_is_unauthorized(cluster: Cluster, tmp_path: Path) -> None:
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    if "token" not in document["users"][0]["user"]:
        pytest.skip("this cluster is not reached by a token")
    document["users"][0]["user"]["token"] = "wrong"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))

    async with await Client.connect(path) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.list(NODES)


async def test_a_list_longer_than_a_page_is_whole(client: Client, namespace: str) -> None:
    names = [f"c-{number:03}" for number in range(501)]
    await asyncio.gather(
        *(client.create(CONFIG_MAPS, config_map(name), namespace) for name in names)
    )

    whole = await client.list(CONFIG_MAPS, namespace, label_selector="!absent")

    found = [item["metadata"]["name"] for item in whole["items"]]
    assert [name for name in found if name.startswith("c-")] == names


async def test_a_pod_is_bound_once_and_only_by_its_uid(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await cluster.add_node(f"{namespace}-node")
    pod = await client.create(PODS, make_pod("p", namespace).scheduler("nobody").build())
    uid = pod["metadata"]["uid"]

    with pytest.raises(Conflict):
        await client.bind(namespace, "p", "another", f"{namespace}-node")
    await client.bind(namespace, "p", uid, f"{namespace}-node")
    with pytest.raises(Conflict):
        await client.bind(namespace, "p", uid, "elsewhere")
    with pytest.raises(NotFound):
        await client.bind(namespace, "absent", uid, f"{namespace}-node")

    assert (await client.get(PODS, "p", namespace))["spec"]["nodeName"] == f"{namespace}-node"
    await cluster.remove_node(f"{namespace}-node")
