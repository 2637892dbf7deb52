"""The interpretation of lists and watch lines, as plain calls."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from kube.base.errors import Gone, ProtocolError, ServerError
from kube.client.meta import ObjectMeta
from kube.informers.watching import Change, Deleted, Undecodable, Upserted, WatchState, is_at
from tests.support.api_server import status_body


class Thing(msgspec.Struct):
    metadata: ObjectMeta
    size: int = 0


decode = msgspec.json.Decoder(Thing).decode


def thing(name: str, version: int = 1, *, uid: str | None = None, **more: Any) -> dict[str, Any]:
    meta = {"namespace": "ns", "name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": meta, **more}


def page(*items: dict[str, Any], version: str = "10", token: str = "") -> bytes:
    return json.dumps(
        {"metadata": {"resourceVersion": version, "continue": token}, "items": items}
    ).encode()


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def short(changes: Iterable[Change[Thing]]) -> list[str]:
    words = []
    for change in changes:
        match change:
            case Upserted(obj):
                words.append(f"+{obj.metadata.name}@{obj.metadata.resource_version}")
            case Deleted(key):
                words.append(f"-{key[1]}")
            case Undecodable(key):
                words.append(f"?{key[1]}")
    return words


def listed(*items: dict[str, Any]) -> WatchState[Thing]:
    state = WatchState(decode)
    state.begin_list()
    read(state, page(*items))
    list(state.end_list())
    return state


def read(state: WatchState[Thing], body: bytes) -> list[Change[Thing]]:
    """Return all changes of one page."""
    return list(state.feed_page(body)[0])


def test_a_list_of_two_pages_gives_the_version_of_the_last() -> None:
    state = WatchState(decode)
    state.begin_list()

    first, token = state.feed_page(page(thing("a"), version="5", token="more"))
    assert (short(first), token, state.version) == (["+a@1"], "more", None)

    second, token = state.feed_page(page(thing("b"), version="6"))
    assert (short(second), token, state.version) == (["+b@1"], "", None)
    assert list(state.end_list()) == []
    assert state.version == "6"


def test_an_empty_list_may_say_null_items() -> None:
    state = WatchState(decode)
    state.begin_list()

    changes = read(state, b'{"metadata":{"resourceVersion":"3"},"items":null}')

    assert (changes, list(state.end_list()), state.version) == ([], [], "3")


def test_events_move_the_version_on() -> None:
    state = listed(thing("a"))

    assert short(state.feed(line("ADDED", thing("b", 11)))) == ["+b@11"]
    assert short(state.feed(line("MODIFIED", thing("a", 12)))) == ["+a@12"]
    assert short(state.feed(line("DELETED", thing("a", 13)))) == ["-a"]
    assert state.version == "13"


def test_a_bookmark_moves_the_version_and_changes_nothing() -> None:
    state = listed()
    bookmark = {"kind": "Thing", "metadata": {"resourceVersion": "99", "creationTimestamp": None}}

    assert state.feed(line("BOOKMARK", bookmark)) == []
    assert state.version == "99"


def test_a_second_list_yields_the_deletions_that_were_missed() -> None:
    state = listed(thing("a"), thing("b"))
    state.begin_list()
    read(state, page(thing("b"), thing("c")))

    assert short(state.end_list()) == ["-a"]


def test_deletions_that_nobody_took_are_told_after_the_next_list() -> None:
    state = listed(thing("a"), thing("b"), thing("c"))
    state.begin_list()
    read(state, page())

    assert short([next(state.end_list())]) == ["-a"]
    assert state.version is None

    state.begin_list()
    read(state, page(thing("c")))
    assert short(state.end_list()) == ["-b"]


def test_a_list_that_breaks_off_deletes_nothing_and_can_begin_again() -> None:
    state = listed(thing("a"), thing("b"))
    state.begin_list()
    read(state, page(thing("b"), token="more"))

    state.begin_list()
    read(state, page(thing("a"), thing("b")))

    assert list(state.end_list()) == []


def test_what_a_broken_list_told_of_is_deleted_if_the_next_list_lacks_it() -> None:
    state = WatchState(decode)
    state.begin_list()
    read(state, page(thing("a"), thing("b"), token="more"))

    state.begin_list()
    read(state, page(thing("b")))

    assert short(state.end_list()) == ["-a"]


def test_a_namesake_of_what_a_broken_list_told_of_is_first_deleted_then_added() -> None:
    state = WatchState(decode)
    state.begin_list()
    read(state, page(thing("a", uid="old"), token="more"))

    state.begin_list()

    assert short(read(state, page(thing("a", 20, uid="new")))) == ["-a", "+a@20"]
    assert list(state.end_list()) == []


def test_an_object_that_a_broken_list_replaced_is_not_replaced_again() -> None:
    state = listed(thing("a", uid="old"))
    state.begin_list()
    read(state, page(thing("a", 20, uid="new"), token="more"))

    state.begin_list()

    assert short(read(state, page(thing("a", 20, uid="new")))) == ["+a@20"]


@pytest.mark.parametrize("by_list", [True, False], ids=["in a list", "in a watch"])
def test_a_namesake_is_first_deleted_then_added(by_list: bool) -> None:
    state = listed(thing("a", uid="old"))
    successor = thing("a", 20, uid="new")

    if by_list:
        state.begin_list()
        changes = read(state, page(successor)) + list(state.end_list())
    else:
        changes = state.feed(line("ADDED", successor))

    assert short(changes) == ["-a", "+a@20"]


def test_a_late_deletion_of_a_replaced_object_is_ignored() -> None:
    state = listed(thing("a", uid="new"))

    assert state.feed(line("DELETED", thing("a", 21, uid="old"))) == []
    assert short(state.feed(line("DELETED", thing("a", 22, uid="new")))) == ["-a"]


def test_a_repeated_deletion_is_ignored() -> None:
    state = listed(thing("a"))
    state.feed(line("DELETED", thing("a", 2)))

    assert state.feed(line("DELETED", thing("a", 2))) == []


def test_expired_history_asks_for_a_list() -> None:
    state = listed()

    with pytest.raises(Gone):
        state.feed(line("ERROR", status_body(410, "Expired")))

    assert state.version is None


def test_any_other_error_event_asks_for_a_list_too() -> None:
    state = listed()

    with pytest.raises(ServerError):
        state.feed(line("ERROR", status_body(500, "InternalError")))

    assert state.version is None


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b'{"type":"ADD', id="half a line"),
        pytest.param(b"proxy error\n", id="no JSON"),
        pytest.param(b'{"type":"\xbc"}', id="no UTF-8"),
        pytest.param(b'{"type":"PONDERED","object":{}}', id="an unknown type"),
    ],
)
def test_a_line_that_is_not_the_protocol_asks_for_a_list(garbage: bytes) -> None:
    state = listed()

    with pytest.raises(ProtocolError):
        state.feed(garbage)

    assert state.version is None


def test_a_page_that_is_not_the_protocol_is_refused() -> None:
    with pytest.raises(ProtocolError):
        WatchState(decode).feed_page(b"<html>")


def test_an_object_of_the_wrong_shape_is_reported_and_the_stream_goes_on() -> None:
    state = listed(thing("a"))

    assert short(state.feed(line("MODIFIED", thing("a", 7, size="huge")))) == ["?a"]
    assert state.version == "7"
    assert short(state.feed(line("DELETED", thing("a", 8)))) == ["-a"]


def test_an_object_of_the_wrong_shape_in_a_list_does_not_count_as_deleted() -> None:
    state = listed(thing("a"))
    state.begin_list()

    changes = read(state, page(thing("a", 9, size="huge")))

    assert short(changes + list(state.end_list())) == ["?a"]


@pytest.mark.parametrize("by_list", [True, False], ids=["in a list", "in a watch"])
def test_a_namesake_of_the_wrong_shape_ends_its_predecessor(by_list: bool) -> None:
    state = listed(thing("a", uid="old"))
    successor = thing("a", 9, uid="new", size="huge")

    if by_list:
        state.begin_list()
        changes = read(state, page(successor)) + list(state.end_list())
    else:
        changes = state.feed(line("ADDED", successor))

    assert short(changes) == ["-a", "?a"]


def test_an_object_with_an_odd_timestamp_does_not_break_the_list() -> None:
    odd, plain = thing("odd"), thing("plain")
    odd["metadata"]["deletionTimestamp"] = "+292277026596-12-04T15:30:08Z"
    state = WatchState(decode)
    state.begin_list()

    assert short(read(state, page(odd, plain))) == ["?odd", "+plain@1"]


@pytest.mark.parametrize(
    "error", [ValueError("odd"), OverflowError(), RecursionError(), KeyError()]
)
def test_whatever_decoding_raises_is_about_that_object_alone(error: Exception) -> None:
    def picky(data: bytes) -> Thing:
        obj = decode(data)
        if obj.metadata.name == "poison":
            raise error
        return obj

    state = WatchState(picky)
    state.begin_list()

    changes = read(state, page(thing("a"), thing("poison"), thing("z")))

    assert short(changes) == ["+a@1", "?poison", "+z@1"]


_LEVELS = 9_990
"""API servers accept 10,000 levels, including those of the list around the object."""


@pytest.mark.parametrize("by_list", [True, False], ids=["in a list", "in a watch"])
@pytest.mark.parametrize(("left", "right"), [('{"f:a":', "}"), ("[", "]")], ids=["maps", "lists"])
def test_an_object_of_thousands_of_levels_is_one_like_all_others(
    left: str, right: str, by_list: bool
) -> None:
    deep = left * _LEVELS + "0" + right * _LEVELS
    obj = thing("a", 2)
    obj["metadata"]["managedFields"] = [{"fieldsV1": "DEEP"}]
    state = listed()

    if by_list:
        state.begin_list()
        changes = read(state, page(obj, thing("b")).replace(b'"DEEP"', deep.encode()))
    else:
        changes = state.feed(line("ADDED", obj).replace(b'"DEEP"', deep.encode()))

    assert short(changes)[0] == "+a@2"


def test_nothing_is_so_deep_that_it_raises_anything_but_the_protocol_error() -> None:
    state = listed()
    bottomless = b'{"type":"ADDED","object":' + b"[" * 200_000

    with pytest.raises(ProtocolError):
        state.feed(bottomless)
    with pytest.raises(ProtocolError):
        state.feed_page(bottomless)


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("10", "10", True),
        ("11", "10", True),
        ("9", "10", False),
        (None, "10", False),
        ("x", "x", True),
        ("y", "x", False),
        ("11", "x", False),
        ("\u0661\u0661", "10", False),
        ("9" * 5000, "10", False),
        ("", "", True),
    ],
)
def test_versions_are_compared_as_numbers_or_else_for_equality(
    version: str | None, wanted: str, expected: bool
) -> None:
    assert is_at(version, wanted) == expected
