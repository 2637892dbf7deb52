"""The field sets of an object, for field ownership."""

from typing import Any

import pytest

from localcluster.base.merge_node import MergeNode
from localcluster.patching.fields import Differences, owned

KEYED = MergeNode(fields={"list": MergeNode("map", keys=("name",))})


@pytest.mark.parametrize("item", [3, "text", None, [1]])
def test_an_item_without_keys_in_a_list_of_keyed_ones_is_left_to_its_schema(item: Any) -> None:
    fields = owned({"list": [{"name": "a"}, item]}, KEYED)

    assert len(fields["f:list"]) == 2
    assert Differences({"list": []}, {"list": [item]}, KEYED).changed
