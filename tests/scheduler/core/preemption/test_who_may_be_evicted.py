"""A tenant's settings that protect pods from eviction, and those that do not."""

from dataclasses import replace

import pytest

from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, may_preempt, preempt
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.state.units import Units
from scheduler.core.values.model import POD_GROUP, PodInfo, PreemptionInfo
from tests.scheduler.preemption_builder import PreemptionBuilder

NOW = 1_000_000.0
YEARS = 1e8


def names(*infos: PodInfo) -> set[str]:
    return {info.name for info in infos}


def units_of(builder: PreemptionBuilder) -> Units:
    builder.state.units.refresh()
    return builder.state.units


def preempt_now(builder: PreemptionBuilder, name: str) -> Plan | Refusal:
    return builder.preempt(name, effort=SearchEffort.at(NOW, 60))


def victims(plan: Plan | Refusal) -> set[str]:
    assert isinstance(plan, Plan), plan
    return {pod.info.name for unit in plan.victims for pod in unit.pods.values()}


@pytest.mark.parametrize("mode", ["all", "single"])
def test_a_pod_of_low_priority_cannot_hide_in_a_group_of_high_priority(mode: str) -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.group("shield", 1, priority=100, mode=mode)
    (low,) = builder.runs("shield", "n0", priority=0)
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(low)


def test_a_group_made_anew_with_a_higher_priority_does_not_protect_its_pods() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    key = builder.group("g", 2, priority=1, mode="all")
    low = builder.runs("g", "n0", "n1", priority=1)
    builder.state.remove_group(key)
    builder.group("g", 2, priority=100, mode="all")
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(*low)


def test_a_units_priority_is_the_least_of_its_pods_whoever_comes_and_goes() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=9)
    builder.group("g", 1, priority=7, mode="all")
    priorities = [9, 3, 7, 3, 5]
    infos = [builder.runs("g", "n0", priority=each)[0] for each in priorities]
    seen = []
    for info in [None, *infos]:
        if info is not None:
            builder.state.remove_pod(info.uid)
        units = units_of(builder)
        seen.append([int(units.priorities[i]) for i in units.below(100)])

    assert seen == [[3], [3], [3], [3], [5], []]


def test_an_equal_one_is_not_evicted_because_of_another_of_its_group() -> None:
    """In a group whose pods are evicted one by one, only the pod of low priority is a victim."""
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.group("g", 1, priority=9)
    (low,) = builder.runs("g", "n0", priority=0)
    builder.runs("g", "n1", priority=9)
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(low)


def test_pods_that_others_deleted_and_that_stay_for_years_are_not_waited_for() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (stays,) = builder.runs(None, "n0", priority=1)
    builder.state.set_pod(
        replace(stays, terminating=True, preemption=PreemptionInfo(leaves_by=NOW + YEARS))
    )
    (other,) = builder.runs(None, "n1", priority=0)
    (high,) = builder.waits(None, priority=5)

    assert victims(preempt_now(builder, high.name)) == names(other)


def test_a_pod_that_stays_for_years_can_itself_be_evicted() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    (stays,) = builder.runs(None, "n0", priority=1)
    builder.state.set_pod(
        replace(stays, terminating=True, preemption=PreemptionInfo(leaves_by=NOW + YEARS))
    )
    (high,) = builder.waits(None, priority=5)
    (equal,) = builder.waits(None, priority=1)

    assert victims(preempt_now(builder, high.name)) == names(stays)
    assert isinstance(preempt_now(builder, equal.name), Refusal)


def test_pods_that_others_deleted_and_that_go_soon_are_waited_for() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (goes,) = builder.runs(None, "n0")
    builder.state.set_pod(
        replace(goes, terminating=True, preemption=PreemptionInfo(leaves_by=NOW + 30))
    )
    builder.runs(None, "n1")
    (high,) = builder.waits(None, priority=5)

    assert victims(preempt_now(builder, high.name)) == set()


def test_our_own_victims_are_waited_for_as_long_as_they_were_granted() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (victim,) = builder.runs(None, "n0")
    builder.runs(None, "n1")
    builder.state.units.mark_evicting([builder.single(victim)], NOW + 600)
    (high,) = builder.waits(None, priority=5)

    assert victims(preempt_now(builder, high.name)) == set()
    late = builder.preempt(high.name, effort=SearchEffort.at(NOW + 661, 60))
    assert victims(late) != set()


def test_a_shortened_deletion_counts_from_when_it_was_shortened() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (stays,) = builder.runs(None, "n0")
    # The API server counts the shorter period from the first deletion, a day ago.
    builder.state.set_pod(
        replace(stays, terminating=True, preemption=PreemptionInfo(leaves_by=NOW - 86400))
    )
    builder.runs(None, "n1")
    builder.state.units.mark_evicting([builder.single(stays)], NOW + 30)
    (high,) = builder.waits(None, priority=5)

    assert victims(preempt_now(builder, high.name)) == set()


def test_a_finalizer_does_not_make_others_wait() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (stuck,) = builder.runs(None, "n0")
    builder.state.set_pod(
        replace(stuck, terminating=True, preemption=PreemptionInfo(leaves_by=NOW - 61))
    )
    (other,) = builder.runs(None, "n1")
    (high,) = builder.waits(None, priority=5)

    assert victims(preempt_now(builder, high.name)) == names(other)


def test_pods_of_a_daemon_set_are_never_victims() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    (agent,) = builder.runs(None, "n0")
    builder.state.set_pod(replace(agent, preemption=PreemptionInfo(daemon_set="uid-ds")))
    (high,) = builder.waits(None, priority=5)
    before = builder.victims(high.name)

    builder.state.units.daemons.set(("ns", "uid-ds"))
    kept = builder.preempt(high.name)
    builder.state.units.daemons.unset(("ns", "uid-ds"))

    assert before == names(agent), "a DaemonSet that does not exist protects nobody"
    assert isinstance(kept, Refusal)
    assert builder.victims(high.name) == names(agent)


def test_a_daemon_set_of_another_namespace_protects_nobody() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.state.units.daemons.set(("kube-system", "uid-ds"))
    (forged,) = builder.runs(None, "n0")
    builder.state.set_pod(replace(forged, preemption=PreemptionInfo(daemon_set="uid-ds")))
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(forged)


def test_a_daemon_in_a_gang_does_not_protect_the_gang() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.state.units.daemons.set(("ns", "uid-ds"))
    builder.group("g", 2, mode="all")
    agent, low = builder.runs("g", "n0", "n1")
    builder.state.set_pod(replace(agent, preemption=PreemptionInfo(daemon_set="uid-ds")))
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(low)


@pytest.mark.parametrize(("says", "protected"), [("uid-n0", True), ("uid-n1", False)])
def test_mirror_pods_are_never_victims_if_they_know_their_nodes_uid(
    says: str, protected: bool
) -> None:
    builder = PreemptionBuilder()
    builder.state.set_node(replace(builder.node("n0", cpu=1), uid="uid-n0"))
    (mirror,) = builder.runs(None, "n0")
    builder.state.set_pod(replace(mirror, preemption=PreemptionInfo(mirror_of=says)))
    (high,) = builder.waits(None, priority=5)

    assert isinstance(builder.preempt(high.name), Refusal) is protected


def test_pods_that_belonged_to_daemon_sets_leave_nothing_behind() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=9)
    for number in range(9):
        (agent,) = builder.runs(None, "n0")
        builder.state.set_pod(replace(agent, preemption=PreemptionInfo(daemon_set=f"uid-{number}")))
        units_of(builder)
        builder.state.remove_pod(agent.uid)
    daemons = units_of(builder).daemons

    assert (daemons._pods, daemons._key_of) == ({}, {})


def test_a_class_decides_whether_its_groups_preempt() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    (low,) = builder.runs(None, "n0")
    key = builder.group("g", 1, priority=5)
    builder.waits("g", priority=5)
    spec = builder.state.forest.groups[key].spec
    assert spec is not None
    builder.state.set_group(replace(spec, priority_class="modest"))
    before = builder.victims("g")

    builder.state.modest_classes.add("modest")

    assert before == names(low)
    assert isinstance(builder.preempt("g"), Refusal)


def test_a_group_cannot_evict_for_pods_that_may_not_evict_themselves() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.runs(None, "n0", "n1")
    key = builder.group("g", 2, priority=5)
    builder.waits("g", 1, priority=5)
    builder.waits("g", 1, priority=5, preempts=False)
    root = builder.state.forest.groups[key]
    refusal = place(builder.state, root, SearchBudget())
    assert isinstance(refusal, Refusal)

    assert key == (POD_GROUP, "ns", "g")
    assert not may_preempt(builder.state, root)
    assert preempt(builder.state, root, refusal, SearchBudget()) is refusal
