"""A stopped cluster continues from its saved state."""

from pathlib import Path
from typing import Any

import pytest

from localcluster import snapshot
from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.cluster import LocalCluster
from localcluster.snapshot import SnapshotError
from localcluster.tests.api_server import make_crd, make_widget, until
from localcluster.tests.test_cluster import session


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}


async def test_objects_keep_their_revisions_and_clients_their_access(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    async with LocalCluster(saved=file, jobset=False) as first:
        token = first.tokens.add("robot", ["system:masters"])
        stored = await first.api.create(resources.CONFIG_MAPS, config_map("a"), "default")
    assert file.stat().st_mode & 0o777 == 0o600

    async with LocalCluster(saved=file, jobset=False) as second:
        kept = second.api.get(resources.CONFIG_MAPS, "a", "default")
        new = await second.api.create(resources.CONFIG_MAPS, config_map("b"), "default")
        async with session(second) as http:
            headers = {"Authorization": f"Bearer {token}"}
            path = "/api/v1/namespaces/default/configmaps/a"
            async with http.get(path, headers=headers) as answer:
                assert answer.status == 200
        assert second.ca == first.ca

    assert (kept.obj, kept.revision) == (stored.obj, stored.revision)
    assert new.revision > stored.revision


async def test_a_revision_of_the_life_before_is_too_old(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    async with LocalCluster(saved=file, jobset=False) as first:
        await first.api.create(resources.CONFIG_MAPS, config_map("a"), "default")
        before = first.api.store.revision - 1

    async with LocalCluster(saved=file, jobset=False) as second:
        stream = second.api.watch(resources.CONFIG_MAPS, revision=str(before))
        (event,) = await stream.batch()
    assert (event.type, event.value.obj["code"]) == ("ERROR", 410)


async def test_custom_kinds_are_served_again(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    name = ("t.muster.dev", "v1", "widgets")
    async with LocalCluster(saved=file, jobset=False) as first:
        await first.api.create(resources.CRDS, make_crd())
        await until(lambda: first.api.registry.lookup(*name) is not None)
        info = first.api.registry.lookup(*name)
        assert info is not None
        await first.api.create(info, make_widget("w", n=2), "default")

    async with LocalCluster(saved=file, jobset=False) as second:
        again = second.api.registry.lookup(*name)
        assert again == info
        assert second.api.get(again, "w", "default").obj["spec"]["n"] == 2
        with pytest.raises(StatusError, match=r"spec\.n"):
            await second.api.create(again, make_widget("x", n=0), "default")


async def test_what_is_owned_still_goes_with_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    async with LocalCluster(saved=file, jobset=False) as first:
        parent = (await first.api.create(resources.CONFIG_MAPS, config_map("z"), "default")).obj
        ref = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "z",
            "uid": parent["metadata"]["uid"],
        }
        child = config_map("a", ownerReferences=[ref])
        await first.api.create(resources.CONFIG_MAPS, child, "default")

    async with LocalCluster(saved=file, jobset=False) as second:
        stream = second.api.watch(resources.CONFIG_MAPS, revision=str(second.api.store.revision))
        await second.api.delete(resources.CONFIG_MAPS, "z", "default")
        gone = []
        async for event in stream:
            if event.type == "DELETED":
                gone.append(event.value.obj["metadata"]["name"])
            if len(gone) == 2:
                break
    assert gone == ["z", "a"]


async def test_another_address_gets_another_certificate(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    async with LocalCluster(saved=file, jobset=False) as first:
        pass
    second = LocalCluster(saved=file, jobset=False)
    await second.start(host="::1")
    async with session(second) as http, http.get("/readyz") as answer:
        assert answer.status == 200
    await second.stop()

    assert second.ca != first.ca


async def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_text('{"format": 7}')

    with pytest.raises(SnapshotError, match="is no snapshot of format 1"):
        await LocalCluster(saved=file).start()
    assert file.read_text() == '{"format": 7}'
    assert snapshot.load(tmp_path / "absent") is None
