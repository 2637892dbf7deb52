import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import DeleteOptions
from localcluster.base.resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS, ResourceInfo
from localcluster.controllers.garbage_collector import ABSENT_OWNER_SECONDS
from localcluster.registry.api import Api
from localcluster.testing.clock import FakeClock
from localcluster.tests.core import Running, binding, config_map, job, make_api, owner, pod


@pytest.fixture
async def api() -> Api:
    return await make_api()


def exists(api: Api, info: ResourceInfo, name: str, namespace: str = "default") -> bool:
    return api.store.get(info.collection, (namespace, name)) is not None


async def until(api: Api, condition: Callable[[], bool]) -> None:
    """Wait until a change of the store makes the condition true."""
    changed = asyncio.Event()
    leave = api.store.subscribe(lambda _collection, _event: changed.set())
    async with asyncio.timeout(10):
        while not condition():
            changed.clear()
            await changed.wait()
    leave()


async def test_a_finalizer_holds_an_object_until_it_is_taken_off(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(finalizers=["x.io/a"]), "default")

    removal = await api.remove(CONFIG_MAPS, "a", "default")
    await api.delete(CONFIG_MAPS, "a", "default")

    assert not removal.gone
    assert removal.value.obj["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}}
    with pytest.raises(StatusError, match="no new finalizers can be added"):
        await api.patch(CONFIG_MAPS, "a", patch, "default")
    watch = api.watch(CONFIG_MAPS, "default", revision=str(api.store.revision))
    await api.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, "default")
    assert [event.type for event in await watch.batch()] == ["DELETED"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        pytest.param(DeleteOptions(uid="other"), "UID in the precondition (other)", id="uid"),
        pytest.param(
            DeleteOptions(resource_version="1"), "ResourceVersion in the precondition (1)", id="rv"
        ),
    ],
)
async def test_preconditions_guard_a_deletion(api: Api, options: DeleteOptions, part: str) -> None:
    await api.create(CONFIG_MAPS, config_map(), "default")

    with pytest.raises(StatusError) as caught:
        await api.delete(CONFIG_MAPS, "a", "default", options=options)

    assert caught.value.code == 409
    assert part in caught.value.message


async def test_a_dry_run_deletes_nothing(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(), "default")

    removal = await api.remove(CONFIG_MAPS, "a", "default", options=DeleteOptions(dry_run=True))

    assert removal.gone
    assert exists(api, CONFIG_MAPS, "a")


async def bound_pod(api: Api) -> None:
    await api.create(PODS, pod(), "default")
    await api.create(PODS, binding(), "default", name="p", subresource="binding")


async def test_a_pod_on_a_node_has_grace_that_can_only_get_shorter(api: Api) -> None:
    await bound_pod(api)

    first = await api.delete(PODS, "p", "default")
    longer = await api.delete(PODS, "p", "default", options=DeleteOptions(60))
    shorter = await api.delete(PODS, "p", "default", options=DeleteOptions(5))
    none = await api.remove(PODS, "p", "default", options=DeleteOptions(0))

    seconds = [s.obj["metadata"]["deletionGracePeriodSeconds"] for s in (first, longer, shorter)]
    assert seconds == [30, 30, 5]
    assert first.obj["metadata"]["generation"] == 2
    assert none.gone


async def test_a_pod_without_node_or_done_goes_at_once(api: Api) -> None:
    await api.create(PODS, pod("q"), "default")
    assert (await api.remove(PODS, "q", "default")).gone

    await bound_pod(api)
    await api.patch(PODS, "p", {"status": {"phase": "Failed"}}, "default", subresource="status")
    assert (await api.remove(PODS, "p", "default")).gone


async def family(api: Api, **more: Any) -> None:
    parent = await api.create(CONFIG_MAPS, config_map("parent"), "default")
    child = config_map("child", ownerReferences=[owner(parent.obj, **more)])
    made = await api.create(CONFIG_MAPS, child, "default")
    grandchild = config_map("grandchild", ownerReferences=[owner(made.obj)])
    await api.create(CONFIG_MAPS, grandchild, "default")


async def test_what_is_owned_goes_after_its_owner(api: Api) -> None:
    async with Running(api):
        await family(api)

        await api.delete(CONFIG_MAPS, "parent", "default")

        await until(api, lambda: not exists(api, CONFIG_MAPS, "grandchild"))
        assert not exists(api, CONFIG_MAPS, "child")


async def test_an_owner_deleted_in_the_foreground_goes_last(api: Api) -> None:
    async with Running(api):
        await family(api, blockOwnerDeletion=True)
        order: list[str] = []
        api.store.subscribe(
            lambda _, e: order.append(e.value.key[1]) if e.type == "DELETED" else None
        )

        options = DeleteOptions(propagation_policy="Foreground")
        await api.delete(CONFIG_MAPS, "parent", "default", options=options)

        await until(api, lambda: not exists(api, CONFIG_MAPS, "parent"))
        assert order.index("child") < order.index("parent")


async def test_orphans_lose_their_owner_and_stay(api: Api) -> None:
    async with Running(api):
        await family(api)

        options = DeleteOptions(propagation_policy="Orphan")
        await api.delete(CONFIG_MAPS, "parent", "default", options=options)

        await until(api, lambda: not exists(api, CONFIG_MAPS, "parent"))
        child = api.get(CONFIG_MAPS, "child", "default").obj
        assert "ownerReferences" not in child["metadata"]


async def test_an_orphan_that_is_written_meanwhile_stays_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Running(api):
        await family(api)
        patch = api.patch
        written: list[str] = []

        async def patch_late(
            info: ResourceInfo, name: str, body: Any, namespace: str, **options: Any
        ) -> Any:
            if name == "child" and not written:
                written.append(name)
                await patch(info, name, {"data": {"k": "another"}}, namespace)
            return await patch(info, name, body, namespace, **options)

        monkeypatch.setattr(api, "patch", patch_late)
        options = DeleteOptions(propagation_policy="Orphan")
        await api.delete(CONFIG_MAPS, "parent", "default", options=options)

        await until(api, lambda: not exists(api, CONFIG_MAPS, "parent"))
        child = api.get(CONFIG_MAPS, "child", "default").obj
        assert written, "nothing was written between"
        assert "ownerReferences" not in child["metadata"]


async def test_one_of_two_owners_is_enough_to_live(api: Api) -> None:
    async with Running(api):
        one = await api.create(CONFIG_MAPS, config_map("one"), "default")
        two = await api.create(CONFIG_MAPS, config_map("two"), "default")
        owners = [owner(one.obj), owner(two.obj)]
        await api.create(CONFIG_MAPS, config_map("child", ownerReferences=owners), "default")

        await api.delete(CONFIG_MAPS, "one", "default")

        def left() -> list[str]:
            meta = api.get(CONFIG_MAPS, "child", "default").obj["metadata"]
            return [reference["name"] for reference in meta["ownerReferences"]]

        await until(api, lambda: left() == ["two"])


async def test_an_owner_that_never_was_takes_its_dependents_along(api: Api) -> None:
    async with Running(api):
        ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "none"}
        await api.create(CONFIG_MAPS, config_map("a", ownerReferences=[ghost]), "default")
        unknown = {**ghost, "apiVersion": "x.io/v1", "kind": "Unknown"}
        await api.create(CONFIG_MAPS, config_map("b", ownerReferences=[unknown]), "default")

        assert isinstance(api.clock, FakeClock)
        await api.clock.advance(ABSENT_OWNER_SECONDS / 2)
        assert exists(api, CONFIG_MAPS, "a")
        await api.clock.advance(ABSENT_OWNER_SECONDS)
        await until(api, lambda: not exists(api, CONFIG_MAPS, "a"))
        assert exists(api, CONFIG_MAPS, "b")


async def test_jobs_leave_their_pods_behind_unless_told_otherwise(api: Api) -> None:
    made = await api.create(JOBS, job(), "default")
    assert made.obj["metadata"].get("finalizers") is None

    removal = await api.remove(JOBS, "j", "default")

    assert removal.value.obj["metadata"]["finalizers"] == ["orphan"]


async def test_a_namespace_goes_after_its_contents(api: Api) -> None:
    async with Running(api):
        await api.create(NAMESPACES, {"metadata": {"name": "team"}})
        await api.create(CONFIG_MAPS, config_map("a"), "team")
        await api.create(CONFIG_MAPS, config_map("held", finalizers=["x.io/a"]), "team")

        going = await api.delete(NAMESPACES, "team")
        await until(api, lambda: not exists(api, CONFIG_MAPS, "a", "team"))

        assert going.obj["status"]["phase"] == "Terminating"
        assert exists(api, NAMESPACES, "team", "")
        with pytest.raises(StatusError) as caught:
            await api.create(CONFIG_MAPS, config_map("b"), "team")
        assert caught.value.code == 403
        assert (caught.value.details or {})["causes"][0]["reason"] == "NamespaceTerminating"
        patch = {"metadata": {"finalizers": None}}
        await api.patch(CONFIG_MAPS, "held", patch, "team")
        await until(api, lambda: not exists(api, NAMESPACES, "team", ""))


async def test_the_default_namespace_stays(api: Api) -> None:
    with pytest.raises(StatusError, match="this namespace may not be deleted"):
        await api.delete(NAMESPACES, "default")
