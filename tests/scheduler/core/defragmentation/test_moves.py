"""Which gangs are moved for a root, and which never are."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from api.constants import NATIVE_POD_GROUP
from scheduler.core.defragmentation.movable import (
    MOST_PODS,
    MOVABLE_LABEL,
    MoveLimits,
    Progress,
)
from scheduler.core.defragmentation.plan import MOST_MOVERS, MovePlan, NoMoves, defragment
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.state.starvation_gate import ClosedFor
from scheduler.core.values.model import (
    POD_GROUP,
    GroupKey,
    GroupSpec,
    MembershipInfo,
    PodInfo,
    Slicing,
)
from scheduler.core.values.run_protection import RunProtection
from tests.scheduler.move_builder import NOW, MoveBuilder

B: GroupKey = (POD_GROUP, "ns", "b")


def split(*, mode: str = "single") -> tuple[MoveBuilder, list[PodInfo]]:
    """Return two racks of two nodes, half full each, and the pods of the gang that may be moved.

    A gang needs a complete rack.
    """
    builder = MoveBuilder()
    builder.nodes(4, cpu=2, rack_of=2)
    builder.group("a", 2)
    builder.run_pods("a", "n0", "n1")
    pods = builder.movable("b", "n2", "n3", mode=mode)
    builder.group("large", 4, topology="rack")
    builder.waits("large", 4)
    return builder, pods


@pytest.mark.parametrize("mode", ["single", "all"])
def test_a_gang_moves_to_the_other_rack(mode: str) -> None:
    builder, _ = split(mode=mode)

    plan = builder.defragment("large")

    assert isinstance(plan, MovePlan)
    assert {mover.root.name for mover in plan.moves} == {"b"}
    assert plan.pods == 2
    assert sorted(builder.targets(plan).values()) == ["n0", "n1", "n2", "n2", "n3", "n3"]


def test_the_gang_that_ran_less_moves() -> None:
    builder, _ = split()
    builder.change((POD_GROUP, "ns", "a"), movable=True)

    assert builder.moved("large") == {"b"}


def spec(**fields: object) -> Callable[[MoveBuilder, list[PodInfo]], None]:
    return lambda builder, _pods: builder.change(B, **fields)


def pod(**fields: object) -> Callable[[MoveBuilder, list[PodInfo]], None]:
    """Change one of the two pods."""
    return lambda builder, pods: _set(builder, replace(pods[1], **fields))  # type: ignore[arg-type]


def _set(builder: MoveBuilder, info: PodInfo) -> None:
    builder.state.set_pod(info)


def spared(builder: MoveBuilder, pods: list[PodInfo]) -> None:
    builder.state.units.spare([builder.state.pods[pods[0].uid]])


def young(builder: MoveBuilder, _pods: list[PodInfo]) -> None:
    builder.state.units.protection = RunProtection(now=NOW, usual=2 * NOW, most=2 * NOW)


def one_more(builder: MoveBuilder, _pods: list[PodInfo]) -> None:
    builder.waits("b", 1, cpu=3)


def one_lost(builder: MoveBuilder, _pods: list[PodInfo]) -> None:
    builder.change(B, minimum=3)


def preempted(builder: MoveBuilder, _pods: list[PodInfo]) -> None:
    builder.change(B, preempted=(1, NOW - 60))


def budget(builder: MoveBuilder, pods: list[PodInfo]) -> None:
    _set(builder, replace(pods[0], labels={"app": "b"}))
    builder.budget("b", 0, app="b")


def nowhere(builder: MoveBuilder, _pods: list[PodInfo]) -> None:
    """Fill the nodes to which the gang would move."""
    builder.run_pods("a", "n0", "n1")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(spec(movable=None), "nothing", id="nobody agreed"),
        pytest.param(spec(movable=False), "nothing", id="the owner did not agree"),
        pytest.param(pod(ours=False), "nothing", id="a pod of another scheduler"),
        pytest.param(pod(membership=MembershipInfo()), "nothing", id="a pod without controller"),
        pytest.param(pod(terminating=True), "nothing", id="a pod terminates"),
        pytest.param(pod(device_claims=(("ns", "c"),)), "nothing", id="a pod with devices"),
        pytest.param(pod(expected=True), "nothing", id="a place held for an expected pod"),
        pytest.param(spared, "nothing", id="a pod cannot be evicted"),
        pytest.param(young, "nothing", id="its min-run-time is not over"),
        pytest.param(one_more, "nothing", id="it waits for pods itself"),
        pytest.param(one_lost, "nothing", id="it has lost a pod that it needs"),
        pytest.param(preempted, "nothing", id="it was preempted lately"),
        pytest.param(budget, "returns", id="a budget protects it"),
        pytest.param(nowhere, "returns", id="it would not fit again"),
    ],
)
def test_a_gang_stays(change: Callable[[MoveBuilder, list[PodInfo]], None], why: str) -> None:
    builder, pods = split()
    change(builder, pods)

    plan = builder.defragment("large")

    assert isinstance(plan, NoMoves)
    assert plan.why == why


def test_a_gang_of_higher_priority_stays() -> None:
    builder, pods = split()
    builder.change(B, priority=1)
    for info in pods:
        _set(builder, replace(info, priority=1))

    assert builder.defragment("large") == NoMoves("nothing")


def test_a_namespace_agrees_for_gangs_that_say_nothing() -> None:
    builder, _ = split()
    builder.change(B, movable=None)
    builder.change((POD_GROUP, "ns", "a"), movable=False)
    builder.state.set_namespace("ns", {MOVABLE_LABEL: "true"})

    assert builder.moved("large") == {"b"}


def test_limits_of_a_move() -> None:
    builder, _ = split()

    assert builder.defragment("large", MoveLimits(rests={B})) == NoMoves("nothing")
    assert builder.defragment("large", MoveLimits(left=lambda _: 0)) == NoMoves("returns", 1)
    assert builder.defragment("large", MoveLimits(left=lambda _: 1)) != NoMoves("returns", 1)


def test_a_root_that_may_not_preempt_moves_nothing() -> None:
    builder, _ = split()
    builder.change((POD_GROUP, "ns", "large"), preempts=False)

    assert builder.defragment("large") == NoMoves("unsuited")


def test_nothing_moves_while_others_wait_for_a_starving_root() -> None:
    builder, _ = split()
    builder.group("first", 1)
    builder.waits("first", 1, cpu=9)
    builder.state.starvation.closed_for = ClosedFor((POD_GROUP, "ns", "first"), 0, 9)

    assert builder.defragment("large") == NoMoves("unsuited")


def test_pods_that_terminate_may_suffice() -> None:
    builder, pods = split()
    extra = builder.movable("c", "n0", "n1")
    for info in (*pods, *extra):
        builder.leave(info)

    assert builder.defragment("large") == NoMoves("leaving")


def test_the_others_of_a_chain_move_too() -> None:
    """A gang that needs a large node takes that of a gang that fits anywhere."""
    builder = MoveBuilder()
    builder.node("wide", 4, labels={"size": "4"})
    builder.node("narrow", 2, labels={"size": "2"})
    builder.node("other", 2, labels={"size": "2"})
    builder.node("target", 4, labels={"size": "4", "gpu": "1"})
    builder.movable("rigid", "target", cpu=4)
    builder.movable("s", "wide", cpu=2)
    builder.group("root", 1)
    (info,) = builder.waits("root", 1, cpu=4)
    wants = replace(info.requirements, selector=(("gpu", "1"),))
    builder.state.set_pod(replace(info, requirements=wants))

    assert builder.moved("root") == {"rigid", "s"}


def test_a_tree_is_moved_complete() -> None:
    builder = MoveBuilder()
    builder.nodes(4, cpu=2, rack_of=2)
    key = builder.group("tree", 2, composite=True)
    builder.change(key, movable=True)
    builder.movable("left", "n0", parent="tree")
    builder.movable("right", "n2", parent="tree")
    builder.group("large", 4, topology="rack")
    builder.waits("large", 4)

    plan = builder.defragment("large")

    assert isinstance(plan, MovePlan)
    (mover,) = plan.moves
    assert mover.root.name == "tree"
    assert len(mover.pods) == 2
    racks = {name: builder.targets(plan)[name][1] for name in builder.targets(plan)}
    assert len(racks) == 6


def test_slices_stay_in_their_domains() -> None:
    builder, pods = split()
    for at, info in enumerate(pods):
        index = {"batch.kubernetes.io/job-completion-index": str(at)}
        _set(builder, replace(info, labels=index))
    builder.change(B, slicing=Slicing(2, "rack"))

    plan = builder.defragment("large")

    assert isinstance(plan, MovePlan)
    (pairs,) = plan.moves.values()
    assert {builder.state.nodes.name_of(row) for _, row in pairs} == {"n0", "n1"}


@pytest.mark.parametrize("ours", [True, False])
def test_native_groups_move_if_their_pods_are_ours(ours: bool) -> None:
    builder, pods = split()
    native = NATIVE_POD_GROUP.full_kind
    builder.change(B, movable=False)
    builder.state.set_group(
        GroupSpec((native, "ns", "native"), 2, priority=0, shared=True, movable=True)
    )
    for info in pods:
        builder.state.remove_pod(info.uid)
        _set(builder, replace(info, group="native", group_kind=native, ours=ours))

    plan = builder.defragment("large")

    if not ours:
        assert plan == NoMoves("nothing")
        return
    assert isinstance(plan, MovePlan)
    assert [mover.key[0] for mover in plan.moves] == [native]


def test_extra_pods_return_too() -> None:
    """All of a gang returns, not only its minimum."""
    builder, _ = split()
    builder.change(B, minimum=1)
    builder.run_pods("a", "n0")

    assert builder.defragment("large") == NoMoves("returns", 1)


def test_nothing_changes() -> None:
    builder, _ = split()
    state = builder.state
    before = (state.nodes.free.copy(), set(state.forest.groups), set(state.pods))

    builder.defragment("large")

    assert (state.nodes.free == before[0]).all()
    assert (set(state.forest.groups), set(state.pods)) == before[1:]


def many() -> MoveBuilder:
    """Return 200 nodes, each half full with a gang that may be moved; a root needs a rack."""
    builder = MoveBuilder()
    builder.nodes(200, cpu=4, rack_of=4)
    for at in range(200):
        builder.movable(f"g{at}", f"n{at}", cpu=2)
    builder.group("large", 4, topology="rack")
    builder.waits("large", 4, cpu=4)
    return builder


def test_many_movable_gangs_are_searched_within_the_effort() -> None:
    builder = many()

    plan = builder.defragment("large", MoveLimits(4))

    assert isinstance(plan, MovePlan)
    assert len(plan.moves) == 4
    assert plan.movable == 200
    assert plan.solves <= SearchEffort().solves + MOST_MOVERS


def test_a_search_ends_with_its_time() -> None:
    builder, pods = split()
    nowhere(builder, pods)
    late = SearchBudget(expired=lambda: True)

    assert builder.defragment("large", budget=late) == NoMoves("limit", 1)


def test_the_next_search_continues_the_last_one() -> None:
    """Of nine gangs only the one that is tried last fits elsewhere."""
    builder = MoveBuilder()
    builder.node("free", 1)
    for at in range(9):
        builder.node(f"n{at}", 2, labels={"rack": f"r{at}"})
        (info,) = builder.movable(f"g{at}", f"n{at}")
        if at:
            wants = replace(info.requirements, selector=(("rack", f"r{at}"),))
            _set(builder, replace(info, requirements=wants))
    builder.group("root", 1)
    builder.waits("root", 1, cpu=2)
    tried, searches = Progress(), 0
    while True:
        searches += 1
        plan = builder.defragment("root", MoveLimits(1, tried=tried), calls(12))
        if isinstance(plan, MovePlan):
            break
        assert plan.why == "limit"
        assert plan.tried.sets > tried.sets
        tried = plan.tried

    assert [mover.root.name for mover in plan.moves] == ["g0"]
    assert searches > 1


def calls(number: int) -> SearchBudget:
    """Return a budget whose time ends after so many questions about it."""
    left = iter(range(number))
    return SearchBudget(expired=lambda: next(left, None) is None)


def test_a_set_that_the_time_cut_off_is_tried_again() -> None:
    builder, _ = split()
    for number in range(1, 40):
        plan = builder.defragment("large", budget=calls(number))
        if isinstance(plan, MovePlan):
            return
        assert plan == NoMoves("limit", 1)
    pytest.fail("the set was never tried to its end")


def test_all_movable_gangs_have_their_turn() -> None:
    """Of many gangs, only one fits elsewhere; a search considers a few of them."""
    builder = MoveBuilder()
    builder.node("free", 1)
    number = 3 * MOST_MOVERS
    for at in range(number):
        builder.node(f"n{at}", 2, labels={"rack": f"r{at}"})
        (info,) = builder.movable(f"g{at}", f"n{at}")
        if at != number // 2:
            wants = replace(info.requirements, selector=(("rack", f"r{at}"),))
            _set(builder, replace(info, requirements=wants))
    builder.group("root", 1)
    builder.waits("root", 1, cpu=2)
    tried = Progress()
    for _ in range(3):
        plan = builder.defragment("root", MoveLimits(1, tried=tried))
        if isinstance(plan, MovePlan):
            assert [mover.root.name for mover in plan.moves] == [f"g{number // 2}"]
            return
        assert plan.why == "limit"
        assert plan.tried.gangs > tried.gangs or plan.tried == Progress()
        tried = plan.tried
    pytest.fail("the gang that fits elsewhere was never considered")


def test_progress_among_other_gangs_is_forgotten() -> None:
    """Sets are numbered among the gangs that were movable then."""
    builder, _ = split()

    plan = builder.defragment("large", MoveLimits(tried=Progress(MOST_MOVERS, 5)))

    assert isinstance(plan, MovePlan)


def test_a_search_that_ends_before_its_sets_keeps_the_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DryRun, "fits", lambda *_: None)
    tried = Progress(MOST_MOVERS, 5)

    plan = many().defragment("large", MoveLimits(tried=tried), calls(0))

    assert plan == NoMoves("limit", 200, tried)


def test_the_sets_have_time_however_many_gangs_are_movable() -> None:
    """A step takes a hundredth of the time; a budget begins when it is asked for."""
    builder = many()
    now = [0]

    def pause() -> None:
        now[0] += 1

    def budget() -> SearchBudget:
        end = now[0] + 100
        return SearchBudget(expired=lambda: now[0] >= end, pause=pause)

    root = builder.root("large")
    refusal = place(builder.state, root, SearchBudget())
    assert isinstance(refusal, Refusal)
    plan = defragment(builder.state, root, refusal, budget, MoveLimits(4))

    assert now[0] > 200, "each movable gang is a step"
    assert plan != NoMoves("limit", 200), "no set was tried"


def test_gangs_with_too_many_pods_stay() -> None:
    builder = MoveBuilder()
    builder.node("full", MOST_PODS + 1, pods=MOST_PODS + 1)
    builder.node("free", MOST_PODS + 1, pods=MOST_PODS + 1)
    builder.movable("huge", *(["full"] * (MOST_PODS + 1)))
    builder.movable("small", "free")
    builder.group("root", 1)
    builder.waits("root", 1, cpu=MOST_PODS + 1)

    assert builder.defragment("root") == NoMoves("returns", 1)
