"""Completion indexes in the compressed form of a Job's status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.controllers.jobs.indexes import compress, first_free, index_of, parse
from localcluster.tests.controllers.builders import make_pod


@pytest.mark.parametrize(
    ("indexes", "want"),
    [
        pytest.param([], "", id="no index is an empty text"),
        pytest.param([3], "3", id="one index stands alone"),
        pytest.param([1, 0], "0,1", id="two in a row are listed"),
        pytest.param([0, 1, 2, 5, 7, 8], "0-2,5,7,8", id="three in a row are a range"),
    ],
)
def test_indexes_are_compressed_as_kubernetes_does(indexes: list[int], want: str) -> None:
    assert compress(indexes) == want


@given(st.frozensets(st.integers(min_value=0, max_value=60)))
def test_what_is_compressed_reads_back(indexes: frozenset[int]) -> None:
    assert parse(compress(indexes), 61) == indexes


def test_indexes_beyond_the_completions_are_dropped() -> None:
    assert parse("0,3-9,12", 5) == {0, 3, 4}


@pytest.mark.parametrize(
    ("taken", "completions", "wanted", "want"),
    [
        pytest.param([], 4, 2, [0, 1], id="the lowest come first"),
        pytest.param([0, 2], 4, 3, [1, 3], id="gaps are filled and completions not exceeded"),
        pytest.param([0, 1], 2, 1, [], id="none is free"),
    ],
)
def test_the_lowest_free_indexes_are_taken(
    taken: list[int], completions: int, wanted: int, want: list[int]
) -> None:
    assert first_free(taken, completions, wanted) == want


def test_a_pod_without_a_valid_index_has_none() -> None:
    assert index_of(make_pod("a"), 3) is None
    assert index_of(make_pod("a", index=3), 3) is None
    assert index_of(make_pod("a", index=2), 3) == 2
