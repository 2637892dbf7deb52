"""A snapshot has the slices of groups: a replay decides alike."""

from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, decide_all, decode, encode, queue_of, restore, take
from tests.scheduler.core.slice_builder import SliceBuilder


def test_slices_without_indexes_are_decided_alike_after_a_restore() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4, 4)
    builder.sliced(12, 4)
    for node in ("c2n0", "c0n0", "c2n0", "c0n0", "c2n0"):
        builder.pod("g", node=node)
    builder.pods("g", 7)
    builder.state.take_changes()
    limits = Limits.of(SearchBudget())

    taken = take(builder.state, queue_of(builder.state), limits)
    state, queue = restore(decode(encode(taken), "here"))

    assert taken.decisions[0].placed
    assert list(decide_all(state, queue.waiting(), limits)) == taken.decisions
