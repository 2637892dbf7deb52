"""The indexed cache."""

from typing import Any

import pytest

from kube.client.meta import RawObject, decode_raw
from kube.informers.cache import Cache
from tests.support.builders import PodBuilder, make_pod


def decoded(pod: PodBuilder) -> RawObject:
    import json

    return decode_raw(json.dumps(pod.build()).encode())


def pod(name: str, version: str = "1", node: str = "", uid: str = "") -> RawObject:
    builder = make_pod(name, "ns").stored(uid or name, version)
    return decoded(builder.bound_to(node) if node else builder)


def node_of(obj: RawObject) -> list[str]:
    node = obj.raw["spec"].get("nodeName")
    return [node] if node else []


@pytest.fixture
def cache() -> Cache[RawObject]:
    cache: Cache[RawObject] = Cache()
    cache.add_index("node", node_of)
    return cache


def names(objects: list[RawObject]) -> list[str]:
    return [obj.metadata.name for obj in objects]


def test_an_object_is_found_by_its_key_until_it_is_deleted(cache: Cache[RawObject]) -> None:
    cache.upsert(pod("a"))
    found = cache.get("ns", "a")
    assert found is not None
    assert found.raw["metadata"]["name"] == "a"
    assert (len(cache), names(list(cache.values()))) == (1, ["a"])

    cache.delete(("ns", "a"))

    assert cache.get("ns", "a") is None
    assert len(cache) == 0


def test_an_index_follows_changes(cache: Cache[RawObject]) -> None:
    cache.upsert(pod("a"))
    cache.upsert(pod("b", node="n1"))
    assert names(cache.by_index("node", "n1")) == ["b"]

    cache.upsert(pod("a", "2", node="n1"))
    assert names(cache.by_index("node", "n1")) == ["b", "a"]

    cache.upsert(pod("b", "3", node="n2"))
    cache.delete(("ns", "a"))
    assert names(cache.by_index("node", "n1")) == []
    assert list(cache.each("node", "n1")) == []
    assert len(list(cache.each("node", "n2"))) == 1
    assert names(cache.by_index("node", "n2")) == ["b"]


def test_an_index_added_late_knows_what_is_there(cache: Cache[RawObject]) -> None:
    cache.upsert(pod("a"))

    cache.add_index("name", lambda obj: [obj.metadata.name])

    assert names(cache.by_index("name", "a")) == ["a"]


def test_an_unknown_index_is_our_own_mistake(cache: Cache[RawObject]) -> None:
    with pytest.raises(KeyError):
        cache.by_index("colour", "red")


def test_listeners_get_old_and_new(cache: Cache[RawObject]) -> None:
    heard: list[tuple[Any, Any]] = []

    def listen(old: RawObject | None, new: RawObject | None) -> None:
        heard.append((old and old.metadata.resource_version, new and new.metadata.resource_version))

    cache.subscribe(listen)
    cache.upsert(pod("a", "1"))
    cache.upsert(pod("a", "2"))
    cache.delete(("ns", "a"))
    cache.delete(("ns", "a"))

    assert heard == [(None, "1"), ("1", "2"), ("2", None)]


def test_a_list_that_repeats_what_is_known_is_no_change(cache: Cache[RawObject]) -> None:
    cache.upsert(pod("a", "1"))
    heard: list[object] = []
    cache.subscribe(lambda old, new: heard.append(new))

    cache.upsert(pod("a", "1"))

    assert heard == []


def test_an_object_without_index_values_changes_nothing(cache: Cache[RawObject]) -> None:
    cache.upsert(pod("a", node="n1"))
    poison = pod("a", "2")
    poison.raw["spec"] = None

    with pytest.raises(AttributeError):
        cache.upsert(poison)

    kept = cache.get("ns", "a")
    assert kept is not None
    assert kept.metadata.resource_version == "1"
    assert names(cache.by_index("node", "n1")) == ["a"]
    cache.delete(("ns", "a"))
    assert cache.by_index("node", "n1") == []


def test_all_listeners_hear_of_a_change_whatever_one_of_them_raises(
    cache: Cache[RawObject],
) -> None:
    heard: list[str] = []
    faults = [KeyError("first"), None]

    def faulty(_old: Any, _new: Any) -> None:
        fault = faults.pop(0)
        if fault is not None:
            raise fault

    cache.subscribe(faulty)
    cache.subscribe(lambda _, new: heard.append(new.metadata.name if new else "nothing"))

    with pytest.raises(KeyError, match="first"):
        cache.upsert(pod("a"))
    assert heard == ["a"]

    # Some listeners have not been notified: the same object again counts as a change.
    cache.upsert(pod("a"))
    cache.upsert(pod("a"))
    assert heard == ["a", "a"]
