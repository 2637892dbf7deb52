"""The controllers' copy of a kind: current, indexed, and never behind their own writes."""

from localcluster.controllers.base.cache import Cache
from localcluster.tests.controllers.builders import Obj


def obj(name: str, version: int, *, uid: str = "", colour: str = "red") -> Obj:
    meta = {"name": name, "namespace": "default", "uid": uid or name}
    return {"metadata": {**meta, "resourceVersion": str(version)}, "colour": colour}


def by_colour(one: Obj) -> tuple[str]:
    return (one["colour"],)


def names(objects: list[Obj]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


def test_an_older_state_does_not_come_back() -> None:
    cache = Cache()
    cache.observe("MODIFIED", obj("a", 7, colour="blue"))  # the result of our own write
    cache.observe("ADDED", obj("a", 3))  # an event sent before that write

    found = cache.get(("default", "a"))
    assert found is not None
    assert found["colour"] == "blue"


def test_what_we_deleted_does_not_come_back() -> None:
    cache = Cache()
    cache.observe("ADDED", obj("a", 3))
    cache.forget(obj("a", 3))
    cache.observe("MODIFIED", obj("a", 4))

    assert cache.get(("default", "a")) is None

    cache.observe("DELETED", obj("a", 5))
    cache.observe("ADDED", obj("a", 6, uid="another"))
    assert cache.get(("default", "a")) is not None


def test_a_late_deletion_leaves_a_successor_of_the_same_name() -> None:
    cache = Cache()
    cache.observe("ADDED", obj("a", 9, uid="second"))
    cache.observe("DELETED", obj("a", 8, uid="first"))

    assert cache.get(("default", "a")) is not None


def test_an_index_follows_its_objects_in_order_of_arrival() -> None:
    cache = Cache()
    cache.observe("ADDED", obj("a", 1))
    cache.add_index("colour", by_colour)
    cache.observe("ADDED", obj("b", 2))
    cache.observe("MODIFIED", obj("a", 3))
    assert names(cache.by_index("colour", "red")) == ["a", "b"]

    cache.observe("MODIFIED", obj("a", 4, colour="blue"))
    assert names(cache.by_index("colour", "red")) == ["b"]
    assert names(cache.by_index("colour", "blue")) == ["a"]

    cache.observe("DELETED", obj("b", 5))
    assert cache.by_index("colour", "red") == []


def test_subscribers_hear_what_was_and_what_is() -> None:
    heard: list[tuple[str, str]] = []
    cache = Cache()

    def hear(old: Obj | None, new: Obj | None) -> None:
        heard.append((old["colour"] if old else "-", new["colour"] if new else "-"))

    cache.subscribe(hear)
    cache.observe("ADDED", obj("a", 1))
    cache.observe("MODIFIED", obj("a", 2, colour="blue"))
    cache.observe("MODIFIED", obj("a", 2, colour="blue"))
    cache.observe("DELETED", obj("a", 3, colour="blue"))

    assert heard == [("-", "red"), ("red", "blue"), ("blue", "-")]


def test_a_new_list_takes_away_what_is_not_in_it() -> None:
    gone: list[str] = []
    cache = Cache()
    for name in ("a", "b", "c"):
        cache.observe("ADDED", obj(name, 1))
    cache.subscribe(
        lambda old, new: gone.append(old["metadata"]["uid"]) if old and not new else None
    )

    cache.replace([obj("a", 1), obj("b", 9, uid="another b")])

    assert gone == ["b", "c"]
    assert names(list(cache.values())) == ["a", "b"]


def test_a_new_list_is_the_truth_about_what_we_deleted_too() -> None:
    cache = Cache()
    cache.observe("ADDED", obj("a", 1))
    cache.forget(obj("a", 1))

    cache.replace([obj("a", 9)])

    assert names(list(cache.values())) == ["a"]
