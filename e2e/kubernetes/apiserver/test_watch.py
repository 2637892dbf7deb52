"""Watches: their events, their first version, and the end of expired ones."""

import pytest

from e2e.harness.support.rest import Rest, Watch
from e2e.kubernetes.apiserver.crds import definition, installed
from e2e.kubernetes.apiserver.objects import Namespace, config_map

OURS = {"labelSelector": "suite=watch"}


def _named(name: str, data: dict[str, str] | None = None) -> dict[str, object]:
    return config_map(name, data, labels={"suite": "watch"})


async def _version(rest: Rest, ns: Namespace) -> str:
    listed = (await rest.get(ns.config_maps())).ok()
    version: str = listed["metadata"]["resourceVersion"]
    return version


async def _kinds(watch: Watch, count: int) -> list[tuple[str, str]]:
    events = [await watch.next() for _ in range(count)]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def test_changes_after_a_list_are_sent_in_order(rest: Rest, ns: Namespace) -> None:
    version = await _version(rest, ns)
    async with rest.watch(ns.config_maps(), {**OURS, "resourceVersion": version}) as watch:
        await rest.post(ns.config_maps(), _named("a"))
        await rest.patch(ns.config_maps("a"), {"data": {"k": "2"}})
        await rest.delete(ns.config_maps("a"))
        await rest.post(ns.config_maps(), _named("b"))

        want = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        assert await _kinds(watch, 4) == want


async def test_a_watch_without_a_version_begins_with_what_is_there(
    rest: Rest, ns: Namespace
) -> None:
    await rest.post(ns.config_maps(), _named("a"))
    await rest.post(ns.config_maps(), _named("b"))

    async with rest.watch(ns.config_maps(), OURS) as watch:
        assert sorted(await _kinds(watch, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        await rest.post(ns.config_maps(), _named("c"))
        assert await _kinds(watch, 1) == [("ADDED", "c")]


async def test_a_watch_resumes_after_the_version_it_is_given(rest: Rest, ns: Namespace) -> None:
    first = (await rest.post(ns.config_maps(), _named("a"))).ok()
    await rest.post(ns.config_maps(), _named("b"))
    await rest.delete(ns.config_maps("a"))
    version = first["metadata"]["resourceVersion"]

    async with rest.watch(ns.config_maps(), {**OURS, "resourceVersion": version}) as watch:
        assert await _kinds(watch, 2) == [("ADDED", "b"), ("DELETED", "a")]


async def test_a_deletion_carries_the_last_state_and_its_own_version(
    rest: Rest, ns: Namespace
) -> None:
    created = (await rest.post(ns.config_maps(), _named("a", {"last": "state"}))).ok()
    version = created["metadata"]["resourceVersion"]

    async with rest.watch(ns.config_maps(), {**OURS, "resourceVersion": version}) as watch:
        await rest.delete(ns.config_maps("a"))
        gone = await watch.until("DELETED", "a")

    assert gone["data"] == {"last": "state"}
    assert int(gone["metadata"]["resourceVersion"]) > int(version)


async def test_an_object_that_stops_or_starts_to_match_is_sent_as_such(
    rest: Rest, ns: Namespace
) -> None:
    created = (await rest.post(ns.config_maps(), _named("a"))).ok()
    version = created["metadata"]["resourceVersion"]

    async with rest.watch(ns.config_maps(), {**OURS, "resourceVersion": version}) as watch:
        await rest.patch(ns.config_maps("a"), {"metadata": {"labels": {"suite": "other"}}})
        await rest.patch(ns.config_maps("a"), {"data": {"unseen": "1"}})
        await rest.patch(ns.config_maps("a"), {"metadata": {"labels": {"suite": "watch"}}})

        assert await _kinds(watch, 2) == [("DELETED", "a"), ("ADDED", "a")]


async def test_one_object_is_watched_by_its_name(rest: Rest, ns: Namespace) -> None:
    version = await _version(rest, ns)
    params = {"fieldSelector": "metadata.name=b", "resourceVersion": version}
    async with rest.watch(ns.config_maps(), params) as watch:
        await rest.post(ns.config_maps(), _named("a"))
        await rest.post(ns.config_maps(), _named("b"))

        assert await _kinds(watch, 1) == [("ADDED", "b")]


async def test_a_watch_over_all_namespaces(rest: Rest, ns: Namespace) -> None:
    version = await _version(rest, ns)
    params = {"labelSelector": f"only={ns.name}", "resourceVersion": version}
    async with rest.watch("/api/v1/configmaps", params) as watch:
        await rest.post(ns.config_maps(), config_map("a", labels={"only": ns.name}))

        assert await _kinds(watch, 1) == [("ADDED", "a")]


@pytest.mark.since("1.34", "the gate WatchList is off by default in 1.33")
async def test_the_initial_events_end_with_a_bookmark(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), _named("a"))
    params = {
        **OURS,
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }

    async with rest.watch(ns.config_maps(), params) as watch:
        assert await _kinds(watch, 1) == [("ADDED", "a")]
        event = await watch.next()

    assert event["type"] == "BOOKMARK"
    meta = event["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(meta["resourceVersion"]) > 0
    assert event["object"]["kind"] == "ConfigMap"


async def test_a_watch_ends_at_its_timeout(rest: Rest, ns: Namespace) -> None:
    version = await _version(rest, ns)
    params = {"resourceVersion": version, "timeoutSeconds": "1"}
    async with rest.watch(ns.config_maps(), params) as watch:
        with pytest.raises(EOFError):
            await watch.next(timeout=10)


async def test_a_bookmark_is_sent_shortly_before_the_timeout(rest: Rest, ns: Namespace) -> None:
    version = await _version(rest, ns)
    params = {"resourceVersion": version, "timeoutSeconds": "4", "allowWatchBookmarks": "true"}
    async with rest.watch(ns.config_maps(), params) as watch:
        await rest.post(ns.config_maps(), _named("a"))
        assert await _kinds(watch, 1) == [("ADDED", "a")]
        event = await watch.next(timeout=10)

    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_version_too_old_is_gone(rest: Rest, ns: Namespace) -> None:
    """A kind's history begins when its CRD is established."""
    crd = definition(f"too-old-{ns.name}.example.com")
    async with installed(rest, crd):
        path = f"/apis/{crd['spec']['group']}/v1/widgets"
        async with rest.watch(path, {"resourceVersion": "1"}) as watch:
            event = await watch.next()

    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert "too old resource version" in status["message"]
