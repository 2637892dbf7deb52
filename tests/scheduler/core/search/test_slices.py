"""Where the slices of a group go. Each test or row is one sentence of docs/topology.md."""

from dataclasses import replace

import pytest

from scheduler.core.explain.explain import explain
from scheduler.core.search import slices
from scheduler.core.search.batching import signature
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.search_memory import asked_by
from scheduler.core.state.shortage import BestDomain
from scheduler.core.values.model import PodSelector, PodTerm, Requirements
from tests.scheduler.core.slice_builder import INDEX, SliceBuilder, one_each
from tests.scheduler.state_builder import requests


def _refused(builder: SliceBuilder) -> Refusal:
    found = builder.place("g")
    assert isinstance(found, Refusal), found
    return found


@pytest.mark.parametrize(
    ("capacities", "minimum", "size", "cliques"),
    [
        pytest.param((4, 4), 8, 4, ["c0", "c1"], id="each slice gets one domain"),
        pytest.param((3, 5, 4), 8, 4, ["c2", "c1"], id="the tightest domain comes first"),
        pytest.param((8,), 8, 4, ["c0", "c0"], id="a domain may have several slices"),
        pytest.param((9, 2), 8, 8, ["c0"], id="one slice may be the complete group"),
        pytest.param((1, 1, 1), 3, 1, ["c0", "c1", "c2"], id="a slice may be one pod"),
    ],
)
def test_places(capacities: tuple[int, ...], minimum: int, size: int, cliques: list[str]) -> None:
    builder = SliceBuilder()
    builder.cliques(*capacities, nodes_of=2)
    builder.sliced(minimum, size)
    builder.indexed(range(minimum))

    assert one_each(builder.slices(size)) == cliques


@pytest.mark.parametrize(
    ("capacities", "per_block", "fits"),
    [
        pytest.param((4, 4, 4, 4), 2, True, id="all slices are in one domain of the group"),
        pytest.param((4, 3, 4, 3), 2, False, id="a block with one slice is not enough for two"),
        pytest.param((4, 3, 4, 3, 8, 0), 2, True, id="the block with two slices is found"),
        pytest.param((7, 1, 7, 1), 2, False, id="a rest of a domain is in no slice"),
    ],
)
def test_the_topology_of_the_group_is_around_that_of_its_slices(
    capacities: tuple[int, ...], per_block: int, fits: bool
) -> None:
    builder = SliceBuilder()
    builder.cliques(*capacities, per_block=per_block)
    builder.sliced(8, 4, block=True)
    builder.indexed(range(8))

    found = builder.place("g")

    assert isinstance(found, Placement) is fits
    if isinstance(found, Placement):
        assert (
            len({int(clique[1:]) // per_block for clique in builder.cliques_of(found).values()})
            == 1
        )


def test_a_preferred_topology_of_the_group_never_refuses_it() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 3, 4, 3, per_block=2)
    builder.sliced(8, 4, prefer=True)
    builder.indexed(range(8))

    assert one_each(builder.slices(4)) == ["c0", "c2"]


def test_nodes_without_the_label_are_in_no_slice() -> None:
    builder = SliceBuilder()
    builder.node("plain", 100)
    builder.sliced(4, 4)
    builder.indexed(range(4))

    blocker = explain(builder.state, _refused(builder))

    assert 'None of 1 node has the label "clique"' in blocker.summary


def test_nodes_without_the_label_take_nothing_from_those_with_it() -> None:
    builder = SliceBuilder()
    builder.node("plain", 100)
    builder.cliques(4)
    builder.sliced(4, 4)
    builder.indexed(range(4))

    assert one_each(builder.slices(4)) == ["c0"]


def test_a_slice_that_runs_on_a_node_without_the_label_gets_no_pod() -> None:
    builder = SliceBuilder()
    builder.node("plain", 100)
    builder.cliques(4)
    builder.sliced(4, 4)
    builder.indexed(range(3), node="plain")
    builder.indexed((3,))

    found = _refused(builder)

    assert found.shortage.kind == "invalid"
    assert "in 1: none" in found.shortage.message


def test_blocks_with_rests_of_domains_are_not_tried() -> None:
    """Thirty blocks have 8 free cores each, and only one has two slices of 4."""
    builder = SliceBuilder()
    builder.cliques(*(7, 1) * 30, 4, 4, per_block=2)
    builder.sliced(8, 4, block=True)
    builder.indexed(range(8))

    found = builder.place("g")
    assert isinstance(found, Placement)
    assert found.steps == 1
    assert set(builder.cliques_of(found).values()) == {"c60", "c61"}

    builder.pod(node="c60n0")
    assert _refused(builder).steps == 1


def test_consecutive_indexes_are_on_one_node_as_far_as_it_has_capacity() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4, nodes_of=2)
    builder.sliced(8, 4)
    builder.indexed(reversed(range(8)))

    where = builder.where(builder.place("g"))

    assert [where[f"g-{index}"] for index in range(8)] == [
        "c0n0", "c0n0", "c0n1", "c0n1", "c1n0", "c1n0", "c1n1", "c1n1",
    ]  # fmt: skip


def test_pods_without_indexes_form_slices_in_the_order_of_their_creation() -> None:
    builder = SliceBuilder()
    builder.cliques(2, 2)
    builder.sliced(4, 2)
    for name in ("a", "b", "c", "d"):
        builder.pod("g", name=name)

    found = builder.cliques_of(builder.place("g"))

    assert found["a"] == found["b"] != found["c"] == found["d"]


def test_two_pods_of_one_index_make_all_count_by_their_creation() -> None:
    builder = SliceBuilder()
    builder.cliques(2, 2)
    builder.sliced(4, 2)
    for name in ("a", "b", "c", "d"):
        builder.pod("g", name=name, labels={INDEX: "1"})

    found = builder.cliques_of(builder.place("g"))

    assert found["a"] == found["b"] != found["c"] == found["d"]


def test_a_replacement_returns_to_the_domain_of_its_slice() -> None:
    builder = SliceBuilder()
    builder.cliques(9, 4, 4)
    builder.sliced(8, 4)
    builder.indexed((0, 1, 2, 3), node="c1n0")
    builder.indexed((4, 5, 7), node="c2n0")
    builder.indexed((6,))

    assert builder.cliques_of(builder.place("g")) == {"g-6": "c2"}


def test_a_replacement_waits_if_the_domain_of_its_slice_is_full() -> None:
    builder = SliceBuilder()
    builder.cliques(9, 4, 4)
    builder.sliced(8, 4)
    builder.indexed((0, 1, 2, 3), node="c1n0")
    builder.indexed((4, 5, 7), node="c2n0")
    builder.pod(node="c2n0", name="other")
    builder.indexed((6,))

    blocker = explain(builder.state, _refused(builder))

    assert (
        "Slice 2 of 2 (indexes 4-7) needs capacity for 1 more pod in one clique; 0 fit in c2,"
        " the best one."
    ) in blocker.summary


def test_a_replacement_without_index_fills_the_slice_that_lacks_a_pod() -> None:
    builder = SliceBuilder()
    builder.cliques(9, 4, 4)
    builder.sliced(8, 4)
    for _ in range(4):
        builder.pod("g", node="c1n0")
    for _ in range(3):
        builder.pod("g", node="c2n0")
    builder.pod("g", name="new")

    assert builder.cliques_of(builder.place("g")) == {"new": "c2"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pods(phase: str) -> None:
    """A pod that succeeded keeps its place in its slice, one that failed does not."""
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(8, 4)
    builder.indexed((0, 1, 2, 3), node="c0n0", phase=phase)
    builder.indexed((4, 5, 6, 7))

    found = builder.place("g")

    if phase == "Succeeded":
        assert set(builder.cliques_of(found).values()) <= {"c0", "c1"}
        assert len(builder.cliques_of(found)) == 4
    else:
        assert isinstance(found, Refusal)


def test_a_slice_of_running_and_succeeded_pods_keeps_its_domain() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 9)
    builder.sliced(4, 4)
    builder.indexed((0,), node="c0n0")
    builder.indexed((1,), node="c0n0", phase="Succeeded")
    builder.indexed((2, 3))

    assert one_each(builder.slices(4)) == ["c0"]


def test_slices_that_lack_the_fewest_pods_come_first() -> None:
    """Capacity for three pods completes two of these slices, or only the one that lacks three."""
    builder = SliceBuilder()
    builder.cliques(9)
    builder.sliced(8, 4)
    builder.indexed((0,), node="c0n0")
    builder.indexed((4, 5), node="c0n0")
    builder.indexed((8, 9, 10), node="c0n0")
    builder.indexed((1, 2, 3, 6, 7, 11))

    assert set(builder.cliques_of(builder.place("g"))) == {"g-6", "g-7", "g-11"}


def test_a_minimum_that_is_no_multiple_is_rounded_up() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 3)
    builder.sliced(6, 4)
    builder.indexed(range(8))
    assert isinstance(builder.place("g"), Refusal)

    builder.cliques(4, 4)

    placed = builder.place("g")
    assert isinstance(placed, Placement)
    assert placed.minimums == 8


def test_a_gang_with_its_minimum_of_pods_needs_no_more() -> None:
    """Two slices lack a pod each. The gang runs as many as it needs: what waits are extras."""
    builder = SliceBuilder()
    builder.cliques(3, 3)
    builder.sliced(4, 4)
    builder.indexed(range(3), node="c0n0")
    builder.indexed(range(4, 7), node="c1n0")
    builder.indexed((3, 7))

    assert not _refused(builder).shortage.minimum


def test_the_rest_of_a_slice_whose_other_pods_succeeded_may_go_anywhere() -> None:
    builder = SliceBuilder()
    builder.cliques(1, 2)
    builder.sliced(4, 4)
    builder.indexed((0, 1), node="c0n0", phase="Succeeded")
    builder.indexed((2, 3))

    assert one_each(builder.slices(4)) == ["c1"]


def test_pods_beyond_the_minimum_start_as_complete_slices() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4, 3)
    builder.sliced(4, 4)
    builder.indexed(range(12))

    placed = builder.place("g")
    assert isinstance(placed, Placement)

    assert placed.minimums == 4
    assert sorted(builder.cliques_of(placed).values()) == ["c0"] * 4 + ["c1"] * 4


@pytest.mark.parametrize(
    ("capacities", "cpu"),
    [
        pytest.param((2, 0, 2, 0), 1, id="equal pods"),
        pytest.param((2, 0, 4, 0, 4, 0), 2, id="different pods"),
    ],
)
def test_slices_beyond_the_minimum_may_leave_a_preferred_domain(
    capacities: tuple[int, ...], cpu: int
) -> None:
    builder = SliceBuilder()
    builder.cliques(*capacities, per_block=2)
    builder.sliced(2, 2, prefer=True)
    builder.indexed((0, 1))
    builder.indexed((2, 3), cpu=cpu)

    first, second = one_each(builder.slices(2))

    assert first != second


def test_a_slice_that_lacks_a_pod_does_not_start() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(4, 4)
    builder.indexed(range(7))

    assert list(builder.slices(4)) == [0]


def test_a_slice_that_runs_gets_the_pods_that_exist() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(4, 4)
    builder.indexed(range(4), node="c0n0")
    builder.indexed((4, 5), node="c1n0")
    builder.indexed((6,))

    assert builder.cliques_of(builder.place("g")) == {"g-6": "c1"}


def test_the_minimum_needs_slices_with_all_their_pods() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(4, 4)
    builder.indexed((0, 1, 2, 4))

    found = _refused(builder)

    assert found.shortage.kind == "quorum"
    assert found.shortage.message == (
        "The group needs 1 more slice with all pods; 0 exist."
        " Slice 1 of 2 (indexes 0-3) has 3 of 4 pods."
    )


def test_the_basic_policy_starts_with_one_slice() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 3)
    builder.sliced(1, 4, gang=False)
    builder.indexed(range(8))

    assert one_each(builder.slices(4)) == ["c0"]


def test_pods_that_run_in_two_domains_block_their_slice_alone() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4, 4)
    builder.sliced(8, 4)
    builder.indexed((0, 1), node="c0n0")
    builder.indexed((2,), node="c1n0")
    builder.indexed((3,))
    builder.indexed(range(4, 8), node="c2n0")

    found = _refused(builder)

    assert found.shortage.kind == "invalid"
    assert found.shortage.part == "slice 1 of 2 (indexes 0-3)"
    assert explain(builder.state, found).summary.startswith(
        'Slice 1 of 2 (indexes 0-3): The running pods are not in one clique, but in 2: "c0", "c1".'
    )


def test_different_pods_are_packed_slice_by_slice() -> None:
    """2 + 2 and 3 + 1 cores fit two domains of 4 only if no slice is cut."""
    builder = SliceBuilder()
    builder.cliques(5, 5)
    builder.sliced(4, 2)
    builder.indexed((0,), cpu=4)
    builder.indexed((1, 2), cpu=1)
    builder.indexed((3,), cpu=4)

    assert sorted(one_each(builder.slices(2))) == ["c0", "c1"]


def test_slices_of_a_child_are_inside_the_domains_of_its_parents() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4, 4, 4, per_block=2)
    builder.gang("root", 2, composite=True, workload="w")
    builder.sliced(8, 4, block=True, parent="root")
    builder.sliced(8, 4, block=True, parent="root", name="h")
    builder.indexed(range(8))
    builder.indexed(range(8), group="h")

    found = builder.cliques_of(builder.place("root", composite=True))

    assert {clique for pod, clique in found.items() if pod.startswith("g")} == {"c0", "c1"}
    assert {clique for pod, clique in found.items() if pod.startswith("h")} == {"c2", "c3"}


def test_children_with_slices_are_not_placed_as_equal_ones() -> None:
    builder = SliceBuilder()
    builder.cliques(*(3,) * 4)
    builder.gang("root", 4, composite=True, workload="w")
    for name in ("g", "h", "i", "j"):
        builder.sliced(2, 2, parent="root", name=name)
        builder.indexed(range(2), group=name)

    found = builder.cliques_of(builder.place("root", composite=True))

    assert all(found[f"{name}-0"] == found[f"{name}-1"] for name in ("g", "h", "i", "j"))


def test_children_take_turns_with_slices_beyond_their_minimum() -> None:
    builder = SliceBuilder()
    builder.cliques(12)
    builder.gang("root", 2, composite=True, workload="w")
    for name in ("g", "h"):
        builder.sliced(2, 2, parent="root", name=name)
        builder.indexed(range(8), group=name)

    found = [pod[0] for pod in builder.cliques_of(builder.place("root", composite=True))]

    assert (found.count("g"), found.count("h")) == (6, 6)


def test_a_gang_with_slices_is_decided_alone() -> None:
    builder = SliceBuilder()
    builder.sliced(4, 2)
    builder.indexed(range(4))
    assert signature(builder.group) is None

    before = asked_by(builder.group)
    builder.sliced(4, 4)
    assert asked_by(builder.group) != before

    builder.gang("g", 4)
    assert signature(builder.group) is not None


def test_a_clique_of_each_block_is_a_domain_of_its_own() -> None:
    builder = SliceBuilder()
    for block in range(2):
        builder.node(f"b{block}", 2, labels={"clique": "c", "block": f"b{block}"})
    builder.sliced(4, 4, block=True)
    builder.indexed(range(4))

    found = _refused(builder)
    view = replace(found, shortage=replace(found.shortage, best=BestDomain("clique", "c", 2)))

    assert explain(builder.state, view).impossible


def test_jobs_with_a_known_number_of_pods_count_as_one_row_of_indexes() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(8, 4, job_pods=2)
    _jobs(builder, jobs=4, pods=2)

    found = builder.cliques_of(builder.place("g"))

    assert found["j0-0"] == found["j0-1"] == found["j1-0"] != found["j2-0"]


def test_jobs_of_unknown_size_share_no_slice() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(8, 4)
    _jobs(builder, jobs=4, pods=2)

    assert _refused(builder).shortage.kind == "quorum"


def _jobs(builder: SliceBuilder, *, jobs: int, pods: int) -> None:
    for job in range(jobs):
        for index in range(pods):
            labels = {
                INDEX: str(index),
                "jobset.sigs.k8s.io/job-index": str(job),
                "jobset.sigs.k8s.io/replicatedjob-name": "workers",
            }
            builder.pod("g", name=f"j{job}-{index}", labels=labels)


def test_a_refusal_names_the_slice_and_the_best_domain() -> None:
    builder = SliceBuilder()
    builder.cliques(5, 3, per_block=2)
    builder.sliced(8, 4, block=True)
    builder.indexed(range(8))

    blocker = explain(builder.state, _refused(builder))

    assert blocker.summary.startswith("0/2 nodes are available: ")
    assert (
        "With its other 4 pods placed, slice 2 of 2 (indexes 4-7) needs capacity for 4 more pods"
        " in one clique; 3 fit in c1, the best one."
    ) in blocker.summary


def test_a_slice_beyond_the_minimum_that_waits_is_named() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 2)
    builder.sliced(4, 4)
    builder.indexed(range(4), node="c0n0")
    builder.indexed(range(4, 8))

    blocker = explain(builder.state, _refused(builder))

    assert not blocker.minimum
    assert (
        "Slice 2 of 2 (indexes 4-7), beyond the minimum, needs capacity for 4 more pods in one"
        " clique; 2 fit in c1, the best one."
    ) in blocker.summary


def test_pods_beyond_the_minimum_that_are_no_complete_slice_are_named() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.sliced(4, 4)
    builder.indexed(range(4), node="c0n0")
    builder.indexed((4, 5))

    found = _refused(builder)

    assert (found.shortage.kind, found.shortage.minimum) == ("quorum", False)
    assert found.shortage.message == "Slice 2 of 2 (indexes 4-7) has 2 of 4 pods."


def test_a_slice_that_fits_no_empty_domain_is_impossible() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 3)
    builder.sliced(8, 8)
    builder.indexed(range(8))

    blocker = explain(builder.state, _refused(builder))

    assert blocker.impossible
    assert blocker.summary.endswith(
        "use a smaller slice-size, request less, or use another slice-topology."
    )


def test_a_slice_that_waits_for_other_pods_is_possible() -> None:
    builder = SliceBuilder()
    builder.cliques(4, 4)
    builder.pod(node="c0n0")
    builder.sliced(8, 4)
    builder.indexed(range(8))

    assert not explain(builder.state, _refused(builder)).impossible


def test_a_group_with_a_flaw_gets_no_nodes() -> None:
    builder = SliceBuilder()
    builder.cliques(4)
    builder.sliced(4, 4, flaw="slice-size is wrong: correct it.")
    builder.indexed(range(4))

    found = _refused(builder)

    assert (found.shortage.kind, found.shortage.message) == (
        "invalid",
        "slice-size is wrong: correct it.",
    )


def test_too_many_slices_of_different_pods_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_MOST_APART", 2)
    builder = SliceBuilder()
    builder.cliques(100)
    builder.sliced(6, 2)
    builder.indexed((0, 1, 2))
    builder.indexed((3, 4, 5), cpu=2)

    found = _refused(builder)

    assert found.shortage.kind == "constraint"
    assert "3 slices of different pods" in found.shortage.message


def test_pods_that_must_be_apart_are_placed_slice_by_slice() -> None:
    builder = SliceBuilder()
    for number in range(4):
        labels = {"clique": f"c{number // 2}", "host": f"{number}"}
        builder.node(f"c{number // 2}n{number}", 4, labels=labels)
    builder.sliced(4, 2)
    apart = Requirements(
        requests(1), required_anti_affinity=(PodTerm(PodSelector((), ("ns",)), "host"),)
    )
    for number in range(4):
        builder.pod("g", name=f"g-{number}", requirements=apart, labels={INDEX: str(number)})

    placed = builder.place("g")

    assert len(set(builder.where(placed).values())) == 4
    found = builder.cliques_of(placed)
    assert found["g-0"] == found["g-1"] != found["g-2"] == found["g-3"]


def test_each_slice_of_few_pods_costs_less_than_a_call() -> None:
    """Ten times the slices take no further steps, and give way as often as there are pods."""
    pauses = [_pauses(slices) for slices in (300, 3000)]

    assert pauses[1] - pauses[0] >= 2
    assert pauses[1] < 100


def _pauses(count: int) -> int:
    builder = SliceBuilder()
    builder.cliques(*(1,) * count)
    builder.sliced(count, 1)
    builder.indexed(range(count))
    times = 0

    def pause() -> None:
        nonlocal times
        times += 1

    found = builder.place("g", budget=SearchBudget(pause=pause))
    assert isinstance(found, Placement)
    assert found.steps <= 2
    return times


def test_a_huge_gang_in_slices_is_placed_without_a_search_for_each() -> None:
    builder = SliceBuilder()
    builder.cliques(*(8,) * 500)
    builder.sliced(4000, 8)
    builder.indexed(range(4000))

    found = builder.place("g")

    assert isinstance(found, Placement)
    assert found.steps <= 2
    assert len(set(builder.cliques_of(found).values())) == 500
