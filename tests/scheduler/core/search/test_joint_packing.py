"""The minimums of a complete subtree, packed together."""

import pytest

from scheduler.core.groups.forest import Group
from scheduler.core.search.joint_packing import pack_jointly
from scheduler.core.values.model import Requirements
from tests.scheduler.state_builder import StateBuilder


def unequal(builder: StateBuilder, name: str, pods: int, minimum: int, *, cpu: int = 10) -> Group:
    """Create a gang in which no two pods are equal."""
    key = builder.gang(name, minimum)
    for number in range(pods):
        builder.pod(name, requirements=Requirements((("cpu", cpu + number), ("pods", 1))))
    return builder.state.forest.groups[key]


def test_a_gang_of_unequal_pods_that_all_must_run_is_packed_in_one_way() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=64)
    gang = unequal(builder, "g", 60, 60)

    # Without pruning, the search would visit 2 ** 60 choices of pods.
    placed = pack_jointly(builder.state.framework, gang, None, 1000)

    assert placed is not None
    assert sum(int(counts.sum()) for *_, counts in placed) == 60


def test_a_gang_that_has_fewer_pods_than_its_minimum_is_not_packed() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=64)
    gang = unequal(builder, "g", 3, 4)

    assert pack_jointly(builder.state.framework, gang, None, 1000) is None


class Expiry:
    """A budget that expires after that many checks; `late` counts checks after that."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.late = 0

    def __call__(self) -> bool:
        self.late += self.left <= 0
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("after", [0, 1, 50, 2000])
def test_a_packing_ends_with_its_budget(after: int) -> None:
    """Two pods fill a node; the proof that one of them is too many takes an endless search."""
    builder = StateBuilder()
    builder.nodes(16, cpu=1)
    gang = unequal(builder, "g", 33, 33, cpu=340)
    expiry = Expiry(after)

    placed = pack_jointly(builder.state.framework, gang, None, 10**12, expiry)

    assert placed is None
    assert expiry.left < 0, "it did not ask"
    assert expiry.late <= 40, "each level of the search may ask once more"


def test_a_tree_of_many_unequal_children_ends_with_its_budget() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=64)
    root = builder.composite("root", 60)
    for number in range(120):
        builder.gang(f"c{number}", 1, parent="root")
        builder.pod(f"c{number}", requirements=Requirements((("cpu", 10 + number), ("pods", 1))))
    expiry = Expiry(100)

    placed = pack_jointly(
        builder.state.framework, builder.state.forest.groups[root], None, 9, expiry
    )

    assert placed is None
    assert expiry.late <= 2
