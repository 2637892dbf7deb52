from typing import Any

import pytest

from localcluster.base.store import (
    ChangedError,
    CompactedError,
    Event,
    ExistsError,
    MissingError,
    Store,
)

THINGS = ("", "things")


def thing(name: str, value: int = 0) -> dict[str, Any]:
    return {
        "kind": "Thing",
        "apiVersion": "v1",
        "metadata": {"namespace": "ns", "name": name},
        "value": value,
    }


def test_every_change_takes_the_next_revision_of_one_counter() -> None:
    store = Store()

    first = store.create(THINGS, ("ns", "a"), thing("a"))
    other = store.create(("", "others"), ("ns", "a"), thing("a"))
    changed = store.update(THINGS, ("ns", "a"), thing("a", 1), first.revision)
    gone = store.delete(THINGS, ("ns", "a"), changed.revision)

    assert [first.revision, other.revision, changed.revision, gone.revision] == [2, 3, 4, 5]
    assert gone.obj["metadata"]["resourceVersion"] == "5"
    assert store.get(THINGS, ("ns", "a")) is None


def test_writers_that_saw_another_state_are_refused() -> None:
    store = Store()
    first = store.create(THINGS, ("ns", "a"), thing("a"))
    store.update(THINGS, ("ns", "a"), thing("a", 1), first.revision)

    with pytest.raises(ChangedError):
        store.update(THINGS, ("ns", "a"), thing("a", 2), first.revision)
    with pytest.raises(ChangedError):
        store.delete(THINGS, ("ns", "a"), first.revision)
    with pytest.raises(MissingError):
        store.delete(THINGS, ("ns", "b"), 1)
    with pytest.raises(ExistsError):
        store.create(THINGS, ("ns", "a"), thing("a"))


def test_the_state_of_any_remembered_revision_can_be_read() -> None:
    store = Store()
    a = store.create(THINGS, ("ns", "a"), thing("a"))
    b = store.create(THINGS, ("ns", "b"), thing("b"))
    then = store.revision
    store.delete(THINGS, ("ns", "a"), a.revision)
    store.update(THINGS, ("ns", "b"), thing("b", 7), b.revision)
    store.create(THINGS, ("ns", "c"), thing("c"))

    snapshot = store.snapshot(THINGS, then)

    assert {key[1]: value.obj["value"] for key, value in snapshot.items()} == {"a": 0, "b": 0}


def test_history_is_bounded_and_says_so() -> None:
    store = Store(history=2)
    for name in "abcd":
        store.create(THINGS, ("ns", name), thing(name))
    collection = store.collection(THINGS)

    assert [event.revision for event in collection.since(3)] == [4, 5]
    with pytest.raises(CompactedError) as caught:
        collection.since(2)
    assert caught.value.oldest == 3


def test_a_line_is_made_once_for_all_watchers() -> None:
    store = Store()
    event = Event("ADDED", store.create(THINGS, ("ns", "a"), thing("a")))

    assert event.line is event.line
    assert event.line.startswith(b'{"type":"ADDED","object":{"kind":"Thing","apiVersion":"v1",')
    assert event.line.endswith(b"}\n")


def test_keys_come_in_order_by_namespace() -> None:
    store = Store()
    for key in (("b", "x"), ("a", "z"), ("a", "y"), ("ab", "w")):
        store.create(THINGS, key, thing(key[1]))

    assert store.collection(THINGS).span("a") == [("a", "y"), ("a", "z")]
    assert store.collection(THINGS).span("")[-1] == ("b", "x")
