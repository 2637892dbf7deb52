"""The order of tests by their cluster, and the end of a shared cluster after its last test."""

from pathlib import Path
from typing import Any

import pytest

from e2e.harness import last_use
from e2e.harness.last_use import LastUse

OWN = "e2e/faults/lives/test_lives.py"


class Item:
    """A test in a folder, with the cluster that it uses."""

    def __init__(self, name: str, folder: str, cluster: str) -> None:
        self.name, self.path, self.cluster = name, Path(folder) / "test_it.py", cluster


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(last_use, "cluster_of", lambda item: item.cluster)

    def order(*items: Item) -> tuple[LastUse, list[Any]]:
        made, found = LastUse(), list(items)
        made.order(found)  # type: ignore[arg-type]
        return made, found

    return order


def test_tests_of_a_cluster_follow_each_other_and_keep_their_order(ordered: Any) -> None:
    _, items = ordered(
        Item("1", "b", "cluster"),
        Item("2", "x", OWN),
        Item("3", "a", "cluster"),
        Item("4", "x", "with_kube_scheduler"),
        Item("5", "b", "cluster"),
        Item("6", "y", ""),
        Item("7", "x", OWN),
    )

    assert "".join(item.name for item in items) == "1534627"


def test_a_shared_cluster_ends_after_its_last_test_and_others_go_on(ordered: Any) -> None:
    made, items = ordered(
        Item("1", "a", "cluster"),
        Item("2", "a", "with_kube_scheduler"),
        Item("3", "b", "cluster"),
        Item("4", "b", OWN),
    )
    ended: list[str] = []
    for name in last_use.SHARED:
        made.end_of(name).callback(ended.append, name)

    seen = []
    for item in items:
        made.done(item)
        seen.append((item.name, list(ended)))

    assert seen == [
        ("1", []),
        ("3", ["cluster"]),
        ("2", ["cluster", "with_kube_scheduler"]),
        ("4", ["cluster", "with_kube_scheduler"]),
    ]


def test_what_fails_at_the_end_is_an_error_of_the_last_test(ordered: Any) -> None:
    made, (item,) = ordered(Item("1", "a", "cluster"))

    def fail() -> None:
        raise AssertionError("a right is missing")

    made.end_of("cluster").callback(fail)
    with pytest.raises(AssertionError, match="a right is missing"):
        made.done(item)


def test_the_cluster_of_a_test_is_the_nearest_definition(request: pytest.FixtureRequest) -> None:
    """This test has no fixture `cluster`, so it has none."""
    assert last_use.cluster_of(request.node) == ""
