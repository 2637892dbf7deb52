"""Devices that provide extended resources, in preemption, batches, and snapshots."""

import pytest

from scheduler.cel.selectors import Selectors
from scheduler.core.explain.devices_used import devices_used
from scheduler.core.search.batching import batchable, place_batch, signature
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from tests.scheduler.devices.builders import CLASS
from tests.scheduler.devices.mapped_cluster import GPU, NIC, MappedCluster
from tests.scheduler.devices.test_device_snapshot import replayed


def cluster(nodes: int, count: int = 2) -> MappedCluster:
    made = MappedCluster()
    for at in range(nodes):
        made.gpu_node(f"n{at}", count=count)
    return made


def test_the_pod_goes_whose_claim_has_the_device() -> None:
    made = cluster(1, count=1)
    made.holds("n0")
    holder = made.holds("n0", "gpu-0")
    made.holds("n0")
    high = made.wants(priority=1)

    assert made.victims(high.name) == {holder.name}


@pytest.mark.parametrize(("native", "want"), [(0, 2), (1, 1), (2, 0)])
def test_nobody_goes_for_what_a_node_offers(native: int, want: int) -> None:
    made = cluster(1)
    holders = {made.holds("n0", f"gpu-{at}").name for at in range(2)}
    made.offers("native", **{GPU: native})
    made.gang("g", 2, priority=1)
    for _ in range(2):
        made.wants("g", priority=1)

    if want:
        assert len(made.victims("g") & holders) == want
    else:
        assert isinstance(made.place("g"), Placement)


def test_nobody_goes_if_that_does_not_suffice() -> None:
    made = cluster(1)
    for at in range(2):
        made.holds("n0", f"gpu-{at}")
    made.offers("native", **{GPU: 2})
    high = made.wants(count=3, priority=1)

    assert isinstance(made.preempt(high.name), Refusal)


def test_a_pod_that_runs_on_what_its_node_offers_holds_no_device() -> None:
    made = cluster(1, count=1)
    made.offers("native", **{GPU: 1})
    decision = made.write(made.place_single(made.wants()))
    other = made.write(made.place_single(made.wants()))

    found = [len(each.devices or {}) for each in (decision, other)]
    assert sorted(found) == [0, 1]
    assert len(made.table.use) == 1


def test_equal_gangs_are_placed_in_one_go() -> None:
    made = cluster(4, count=3)
    made.offers("native", **{GPU: 4})
    for name in "abcd":
        made.gang(name, 4)
        for _ in range(4):
            made.wants(name)
    groups = [made.state.forest.groups["PodGroup", "ns", name] for name in "abcd"]
    shapes = {shape for group in groups for shape in group.pending}

    assert len(shapes) == 1
    assert signature(groups[0]) == signature(groups[1])
    assert batchable(made.state, shapes.pop())
    placements = place_batch(made.state, groups, SearchBudget())
    for placement in placements:
        made.write(placement)

    assert len(placements) == 4
    assert len(made.table.use) == 12
    assert made.complaints() == []


def test_few_searches_serve_many_equal_nodes() -> None:
    made = cluster(200, count=8)
    made.gang("g", 1600)
    for _ in range(1600):
        made.wants("g")

    made.write(made.place("g"))

    assert made.table.states.searches < 40
    assert len(made.table.use) == 1600


def test_decisions_are_the_same_after_writing_and_reading() -> None:
    made = MappedCluster(GPU, NIC, evaluate=Selectors().evaluate)
    for at in range(2):
        made.gpu_node(f"n{at}", count=2)
    made.offers("native", **{GPU: 1})
    made.run(made.place_single(made.wants()))
    made.write(made.place_single(made.wants()))
    for name, more in (("a", {}), ("b", {NIC: 1}), ("c", {NIC: 2})):
        made.gang(name, 2)
        for _ in range(2):
            made.wants(name, more=more)
    assert isinstance(made.place("c"), Refusal)

    replayed(made)


def test_devices_count_as_used_before_their_claim_is_made() -> None:
    made = cluster(1)
    waiting = made.wants(count=2)
    made.run(made.place_single(waiting))

    assert made.table.claims == {}
    assert devices_used(made.table, [waiting.uid]) == {CLASS: 2}
