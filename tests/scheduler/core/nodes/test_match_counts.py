"""Counts of matching pods, from the view of pods of one stage."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.nodes.match_counts import MatchCounts
from scheduler.core.values.model import POD_GROUP, Stage

TREES = ((POD_GROUP, "ns", "a"), (POD_GROUP, "ns", "b"))
STAGES = st.none() | st.builds(Stage, st.integers(1, 3), st.booleans(), st.sampled_from(TREES))
Change = tuple[int, int, Stage | None]
"""Row, number of added pods, and their stage."""


def met(seen_by: Stage | None, other: Stage | None) -> bool:
    """Return True if pods of the two stages meet.

    Two different stages of one tree meet only if both exist already.
    """
    if seen_by is None or other is None or seen_by.tree != other.tree:
        return True
    return seen_by.number == other.number or (seen_by.exists and other.exists)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), STAGES), max_size=20),
    st.lists(st.integers(0, 19), max_size=8),
    st.integers(-1, 2),
    STAGES,
)
def test_what_a_stage_sees_is_the_count_of_the_pods_that_it_meets(
    changes: list[Change], going: list[int], cleared: int, seen_by: Stage | None
) -> None:
    counts = MatchCounts()
    match_id, other_id = counts.new(), counts.new()
    for row, count, stage in changes:
        counts.add((match_id,), np.array([row]), np.array([count]), stage)
    left = dict(enumerate(changes))
    for at in going:
        row, count, stage = left.pop(at, (0, 0, None))
        counts.add((match_id,), np.array([row]), np.array([-count]), stage)
    if cleared >= 0:
        counts.clear(cleared)
        left = {at: each for at, each in left.items() if each[0] != cleared}

    expected: Counter[int] = Counter()
    for row, count, stage in left.values():
        expected[row] += count * met(seen_by, stage)
    rows = counts.rows(match_id, seen_by).tolist()
    found = dict(zip(rows, counts.amounts(match_id, seen_by).tolist(), strict=True))
    assert found == +expected
    assert counts.empty(match_id, seen_by) == (not +expected)
    assert counts.empty(other_id, seen_by)
    for row, count, stage in left.values():
        counts.add_one(match_id, row, -count, stage)
    assert not counts._staged
    assert counts.empty(match_id)
