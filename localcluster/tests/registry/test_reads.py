import asyncio

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.resources import CONFIG_MAPS, PODS
from localcluster.base.store import Event, Store
from localcluster.base.watch import Watch
from localcluster.registry.api import Api
from localcluster.tests.core import binding, config_map, make_api, pod


@pytest.fixture
async def api() -> Api:
    return await make_api()


async def fill(api: Api, *names: str) -> None:
    for name in names:
        await api.create(CONFIG_MAPS, config_map(name), "default")


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.value.obj["metadata"].get("name", "")) for event in events]


async def test_pages_show_one_revision_whatever_happens_between_them(api: Api) -> None:
    await fill(api, "a", "b", "c", "d")
    first = api.list(CONFIG_MAPS, "default", limit=2)
    await api.delete(CONFIG_MAPS, "c", "default")
    await fill(api, "bb", "e")

    second = api.list(CONFIG_MAPS, "default", limit=2, continue_token=first.continue_token)

    assert [item.key[1] for item in (*first.items, *second.items)] == ["a", "b", "c", "d"]
    assert (first.remaining, second.continue_token) == (2, "")
    assert second.revision == first.revision


async def test_a_page_whose_revision_is_forgotten_is_gone() -> None:
    api = await make_api(store=Store(history=1))
    await fill(api, "a", "b", "c")
    first = api.list(CONFIG_MAPS, "default", limit=1)
    await fill(api, "d", "e")

    with pytest.raises(StatusError) as caught:
        api.list(CONFIG_MAPS, "default", limit=1, continue_token=first.continue_token)

    assert (caught.value.code, caught.value.reason) == (410, "Expired")


@pytest.mark.parametrize("token", ["x", "e30", "!!"])
async def test_a_token_of_another_server_is_a_bad_request(api: Api, token: str) -> None:
    with pytest.raises(StatusError) as caught:
        api.list(CONFIG_MAPS, "default", continue_token=token)

    assert caught.value.code == 400


async def test_a_list_can_be_had_as_of_a_revision(api: Api) -> None:
    await fill(api, "a")
    then = str(api.store.revision)
    await fill(api, "b")

    page = api.list(CONFIG_MAPS, "default", revision=then, match="Exact")

    assert [item.key[1] for item in page.items] == ["a"]
    with pytest.raises(StatusError) as caught:
        api.list(CONFIG_MAPS, "default", revision="999999")
    assert caught.value.code == 504


async def test_selectors_narrow_a_list(api: Api) -> None:
    await api.create(PODS, pod("a", labels={"x": "1"}), "default")
    await api.create(PODS, pod("b", labels={"x": "1"}), "default")
    await api.create(PODS, binding("a"), "default", name="a", subresource="binding")

    page = api.list(PODS, label_selector="x=1", field_selector="spec.nodeName=n1")

    assert [item.key[1] for item in page.items] == ["a"]


async def test_a_watch_without_revision_begins_with_what_exists(api: Api) -> None:
    await fill(api, "a")
    watch = api.watch(CONFIG_MAPS, "default")
    await fill(api, "b")

    assert told(await watch.batch()) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_resumes_after_a_revision(api: Api) -> None:
    await fill(api, "a")
    since = str(api.store.revision)
    await api.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}}, "default")
    await api.delete(CONFIG_MAPS, "a", "default")

    watch = api.watch(CONFIG_MAPS, "default", revision=since)
    events = await watch.batch()

    assert told(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert events[1].value.obj["metadata"]["resourceVersion"] == str(api.store.revision)


async def test_objects_come_into_a_selection_and_leave_it(api: Api) -> None:
    await fill(api, "a")
    watch = api.watch(
        CONFIG_MAPS, "default", label_selector="x=1", revision=str(api.store.revision)
    )
    for label in ("1", "1", "2"):
        patch = {"metadata": {"labels": {"x": label, "n": label * 2}}, "data": {"n": label}}
        await api.patch(CONFIG_MAPS, "a", patch, "default")
    await api.delete(CONFIG_MAPS, "a", "default")

    events = await watch.batch()

    assert told(events) == [("ADDED", "a"), ("DELETED", "a")]
    assert events[1].value.obj["metadata"]["labels"]["x"] == "1"
    assert int(events[1].value.obj["metadata"]["resourceVersion"]) > events[0].revision


async def test_other_namespaces_are_not_seen(api: Api) -> None:
    watch = api.watch(CONFIG_MAPS, "elsewhere")
    await fill(api, "a")
    watch.close()

    assert await watch.batch() == []


async def test_a_watch_from_a_forgotten_revision_says_410_and_ends() -> None:
    api = await make_api(store=Store(history=1))
    await fill(api, "a", "b", "c")

    watch = api.watch(CONFIG_MAPS, "default", revision="2")

    with pytest.raises(StatusError) as caught:
        await anext(aiter(watch))
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert watch.closed


async def test_expired_history_ends_running_watches(api: Api) -> None:
    await fill(api, "a")
    old = str(api.store.revision)
    watch = api.watch(CONFIG_MAPS, "default", revision=old)

    api.expire()

    assert [event.type for event in await watch.batch()] == ["ERROR"]
    assert await watch.batch() == []
    await fill(api, "b")
    api.expire()
    again = api.watch(CONFIG_MAPS, "default", revision=old)
    assert (await again.batch())[0].value.obj["code"] == 410


async def test_bookmarks_tell_how_far_an_idle_watch_has_come() -> None:
    api = await make_api(bookmark_every=0.01)
    watch = api.watch(CONFIG_MAPS, "default", revision=str(api.store.revision), bookmarks=True)
    await api.create(PODS, pod(), "default")

    (event,) = await watch.batch()

    assert event.type == "BOOKMARK"
    assert event.value.obj["metadata"]["resourceVersion"] == str(api.store.revision)
    watch.close()


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    await fill(api, "a")

    watch = api.watch(
        CONFIG_MAPS, "default", send_initial=True, bookmarks=True, match="NotOlderThan"
    )
    events = await watch.batch()

    assert told(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    notes = events[1].value.obj["metadata"]["annotations"]
    assert notes == {"k8s.io/initial-events-end": "true"}
    with pytest.raises(StatusError) as caught:
        api.watch(CONFIG_MAPS, "default", send_initial=True)
    assert caught.value.code == 422


async def test_a_watch_ends_at_its_timeout(api: Api) -> None:
    watch = api.watch(CONFIG_MAPS, "default", timeout=0.01)

    assert await watch.batch() == []
    assert watch not in api.watches


async def test_a_watcher_that_falls_too_far_behind_is_cut_off(api: Api) -> None:
    collection = api.store.collection(CONFIG_MAPS.collection)
    watch = Watch(collection, lambda _: True, limit=2)

    await fill(api, "a", "b", "c", "d")

    assert watch.closed
    assert len(await watch.batch()) == 3


async def test_a_waiting_watcher_wakes_up(api: Api) -> None:
    watch = api.watch(CONFIG_MAPS, "default")
    waiting = asyncio.create_task(watch.batch())
    await asyncio.sleep(0)

    await fill(api, "a")

    assert told(await waiting) == [("ADDED", "a")]
