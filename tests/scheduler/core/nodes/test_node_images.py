"""Images on nodes: by name, with sizes, as nodes come, change and go."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.nodes.node_images import MOST_NAMES, NodeImages
from scheduler.core.state.state import State
from scheduler.decoding.objects import Node, decode_node
from scheduler.watch.object_handlers import node_handler


def on(images: NodeImages, name: str) -> tuple[int, list[int]]:
    size, rows = images.on(name)
    return size, sorted(rows.tolist())


def test_images_as_nodes_come_change_and_go() -> None:
    images = NodeImages()
    images.set(0, [("web:1", 10), ("db:1", 20)])
    images.set(2, [("web:1", 10)])
    assert on(images, "web:1") == (10, [0, 2])
    assert on(images, "none") == (0, [])

    images.set(0, [("db:1", 20), ("db:2", 30)])
    assert [on(images, name) for name in ("web:1", "db:1", "db:2")] == [
        (10, [2]),
        (20, [0]),
        (30, [0]),
    ]

    images.clear(0)
    images.clear(2)
    assert len(images) == 0


def test_the_first_node_decides_the_size() -> None:
    images = NodeImages()
    images.set(0, [("web:1", 10)])
    images.set(1, [("web:1", 99)])

    assert on(images, "web:1") == (10, [0, 1])


@pytest.mark.parametrize(
    ("again", "changes"),
    [
        pytest.param([("a", 1), ("b", 2)], False, id="the same"),
        pytest.param([("b", 2), ("a", 1)], False, id="in another order"),
        pytest.param([("a", 1)], True, id="one fewer"),
        pytest.param([("a", 1), ("c", 2)], True, id="another one"),
    ],
)
def test_the_version_changes_with_the_images(again: list[tuple[str, int]], changes: bool) -> None:
    images = NodeImages()
    images.set(0, [("a", 1), ("b", 2)])
    before = images.version

    images.set(0, again)

    assert (images.version != before) is changes


def test_of_thousands_of_images_the_first_count() -> None:
    images = NodeImages()

    images.set(0, ((f"i{number}", 1) for number in range(5_000)))

    assert len(images) == MOST_NAMES


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.sampled_from("abcde"), unique=True)), max_size=20
    )
)
def test_any_course_of_changes(course: list[tuple[int, list[str]]]) -> None:
    images, want = NodeImages(), dict[int, set[str]]()
    for row, names in course:
        images.set(row, [(name, 7) for name in names])
        want[row] = set(names)

    for name in "abcde":
        rows = sorted(row for row, names in want.items() if name in names)
        assert on(images, name) == (7 if rows else 0, rows)


def published(*names: str) -> Node:
    node = {"metadata": {"name": "n"}, "status": {"images": [{"names": names, "sizeBytes": 7}]}}
    return decode_node(msgspec.json.encode(node))


def test_images_of_a_node_follow_its_events() -> None:
    state = State()
    handler = node_handler(state, lambda: None)
    handler.upsert(published("web:1"))
    before = state.nodes.images.version
    handler.upsert(published("web:1"))
    assert state.nodes.images.version == before

    handler.upsert(published("web:2"))
    assert [on(state.nodes.images, name) for name in ("web:1", "web:2")] == [(0, []), (7, [0])]

    handler.delete(("", "n"))
    assert len(state.nodes.images) == 0
    handler.upsert(published("web:2"))
    assert on(state.nodes.images, "web:2") == (7, [0])
