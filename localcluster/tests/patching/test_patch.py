import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.base.errors import StatusError
from localcluster.base.resources import PODS
from localcluster.definitions.merging import built_in_rules
from localcluster.patching.patch import json_patch, merge_patch
from localcluster.patching.strategic import strategic_merge

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab~/", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text("ab~/", max_size=2), values, max_size=4)


@given(objects, objects)
def test_a_json_patch_between_two_objects_leads_from_one_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    operations = jsonpatch.make_patch(before, after).patch

    assert json_patch(copy.deepcopy(before), operations) == after


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/a", "value": 2}, id="a test of another value"),
        pytest.param({"op": "test", "path": "/a", "value": True}, id="true is not one"),
        pytest.param({"op": "remove", "path": "/b"}, id="a removal of nothing"),
        pytest.param({"op": "replace", "path": "/b", "value": 1}, id="a replacement of nothing"),
        pytest.param({"op": "add", "path": "/b/c", "value": 1}, id="a parent that is missing"),
        pytest.param({"op": "add", "path": "/l/5", "value": 1}, id="an index beyond the end"),
        pytest.param({"op": "add", "path": "b", "value": 1}, id="no pointer"),
        pytest.param({"op": "add", "path": "/b"}, id="no value"),
        pytest.param({"op": "move", "path": "/o/x", "from": "/o"}, id="a move into itself"),
        pytest.param({"op": "grow", "path": "/a"}, id="an unknown operation"),
    ],
)
def test_operations_that_do_not_apply_are_rejected(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({"a": 1, "l": [], "o": {}}, [operation])

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_what_is_no_list_of_operations_is_a_bad_request() -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({}, {"op": "add"})

    assert caught.value.code == 400


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)

    assert caught.value.code == 413


def test_a_merge_patch_removes_by_null_and_replaces_lists() -> None:
    target = {"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1}
    patch = {"a": {"b": None, "d": {"e": None, "f": 1}}, "l": [3], "x": None}

    assert merge_patch(target, patch) == {"a": {"c": 2, "d": {"f": 1}}, "l": [3]}


def _containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": f"{name}:1"} for name in names]}}


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param(
            [{"name": "b", "image": "b:2"}], ["a:1", "b:2"], id="an item is merged by its key"
        ),
        pytest.param([{"name": "c", "image": "c:1"}], ["a:1", "b:1", "c:1"], id="a new item"),
        pytest.param([{"name": "a", "$patch": "delete"}], ["b:1"], id="an item is deleted"),
        pytest.param(
            [{"$patch": "replace"}, {"name": "z", "image": "z:1"}], ["z:1"], id="the list goes"
        ),
    ],
)
def test_strategic_patches_know_lists_with_keys(patch: list[Any], want: list[str]) -> None:
    node = built_in_rules(PODS.collection)

    merged = strategic_merge(_containers("a", "b"), {"spec": {"containers": patch}}, node)

    assert [c["image"] for c in merged["spec"]["containers"]] == want


def test_strategic_patches_order_items_as_told() -> None:
    order = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}

    merged = strategic_merge(_containers("a", "b"), order, built_in_rules(PODS.collection))

    assert [c["name"] for c in merged["spec"]["containers"]] == ["b", "a"]


def test_strategic_patches_add_to_and_delete_from_sets() -> None:
    node, target = built_in_rules(PODS.collection), {"metadata": {"finalizers": ["x/a", "x/b"]}}

    more = strategic_merge(target, {"metadata": {"finalizers": ["x/b", "x/c"]}}, node)
    less = strategic_merge(
        more, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}, node
    )

    assert less == {"metadata": {"finalizers": ["x/b", "x/c"]}}


def test_an_item_without_its_key_is_a_bad_request() -> None:
    with pytest.raises(StatusError, match="declared merge key: name"):
        strategic_merge(
            {}, {"spec": {"containers": [{"image": "x"}]}}, built_in_rules(PODS.collection)
        )
