"""What `muster explain` says about the slices of a group."""

from analysis.explain.slices import slice_lines
from tests.scheduler.core.slice_builder import SliceBuilder


def test_slices_that_lack_pods_come_first() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4, 4)
    builder.sliced(12, 4)
    builder.indexed(range(4), node="c1n0")
    builder.indexed((4, 5, 7), node="c0n0")
    builder.indexed((6, 8, 9))

    assert list(slice_lines(builder.state, builder.group)) == [
        "slice 2 of 3 (indexes 4-7): 3 of 4 pods run in c0, 1 pod waiting",
        "slice 3 of 3 (indexes 8-11): 0 of 4 pods run, 2 pods waiting",
        "slice 1 of 3 (indexes 0-3): 4 of 4 pods run in c1",
    ]


def test_many_slices_are_counted() -> None:
    builder = SliceBuilder()
    builder.cliques(25)
    builder.sliced(25, 1)
    builder.indexed(range(25))

    *_, last = slice_lines(builder.state, builder.group)

    assert last == "and 5 more slices"


def test_a_group_without_slices_or_with_wrong_ones_has_no_line() -> None:
    builder = SliceBuilder()
    builder.sliced(4, 2, flaw="wrong.")
    assert list(slice_lines(builder.state, builder.group)) == []

    builder.gang("g", 4)
    assert list(slice_lines(builder.state, builder.group)) == []
