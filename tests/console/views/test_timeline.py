"""The timeline: the times at which a group had what it needs, and preemptions."""

from dataclasses import replace

import pytest

from console.base.messages import Event
from console.state import victims
from console.views import workload as view
from scheduler.core.values.model import PodInfo
from tests.console.cluster_builder import ALL, Builder, blocker

FOR = "muster-scheduler: preempted for PodGroup ns/high of priority 9"
NOON = "2026-11-23T12:00:0{}Z"


def told(cluster: Builder, id_: str, *events: str) -> list[Event]:
    """Return these events on the timeline."""
    seen = cluster.refresh().cluster
    line = view.complete_view(seen, view.find(seen, id_, ALL)).timeline
    return [event for event in line if event.event in events]


def member(cluster: Builder, group: str, second: int, **more: object) -> PodInfo:
    info = replace(cluster.pod(group), created=NOON.format(second), **more)  # type: ignore[arg-type]
    cluster.state.set_pod(info)
    return info


def mark(cluster: Builder, info: PodInfo, second: int, says: str = FOR) -> PodInfo:
    marked = replace(
        info.preemption, targeted=True, targeted_at=NOON.format(second), target_says=says
    )
    info = replace(info, preemption=marked)
    cluster.state.set_pod(info)
    return info


def test_quorum_is_when_the_last_needed_pod_came() -> None:
    cluster = Builder()
    cluster.gang("g", 2)
    member(cluster, "g", 1)
    assert told(cluster, "ns/PodGroup/g", "Quorum") == []

    for second in (3, 3, 5):
        member(cluster, "g", second)

    (found,) = told(cluster, "ns/PodGroup/g", "Quorum")
    assert (found.at, found.sentence) == (NOON.format(3), "3 of 4 pods exist; minCount is 2")


def test_pods_that_do_not_count_make_no_quorum() -> None:
    cluster = Builder()
    cluster.gang("g", 2)
    member(cluster, "g", 1)
    member(cluster, "g", 2, gated=True)
    member(cluster, "g", 3, terminating=True)

    assert told(cluster, "ns/PodGroup/g", "Quorum") == []


def test_the_quorum_of_a_composite_is_that_of_its_children() -> None:
    cluster = Builder()
    cluster.composite("root", 2)
    for name, second in (("a", 1), ("b", 4), ("c", 6)):
        cluster.gang(name, 1, parent="root")
        if name != "c":
            member(cluster, name, second)

    found = told(cluster, "ns/CompositePodGroup/root", "Quorum")

    assert [(event.at, event.sentence) for event in found] == [
        (NOON.format(1), "PodGroup a: 1 of 1 pod exist; minCount is 1"),
        (NOON.format(4), "2 of 3 child groups are complete; minGroupCount is 2"),
        (NOON.format(4), "PodGroup b: 1 of 1 pod exist; minCount is 1"),
    ]


def test_a_victim_says_who_preempted_it() -> None:
    cluster = Builder()
    cluster.gang("g", 2)
    for second in (1, 2):
        mark(cluster, cluster.pod("g", node="n0"), second)

    (found,) = told(cluster, "ns/PodGroup/g", "Preempted")

    assert (found.at, found.by) == (NOON.format(1), "PodGroup ns/high of priority 9")
    assert found.sentence == "2 pods preempted by a workload of higher priority"


def test_it_is_still_known_when_the_pods_are_gone() -> None:
    cluster = Builder()
    cluster.gang("g", 3)
    first = [mark(cluster, cluster.pod("g", node="n0"), 1) for _ in range(2)]
    cluster.refresh()
    cluster.state.remove_pod(first[0].uid)
    mark(cluster, cluster.pod("g", node="n0"), 2)
    cluster.refresh()
    for uid in [pod.uid for pod in first[1:]]:
        cluster.state.remove_pod(uid)
    cluster.pod("g")
    mark(
        cluster, cluster.pod("g", node="n0"), 9, "muster-scheduler: preempted for a Pod of another"
    )

    found = told(cluster, "ns/PodGroup/g", "Preempted")

    assert [(event.at, event.sentence.partition(" preempted")[0], event.by) for event in found] == [
        (NOON.format(1), "3 pods", "PodGroup ns/high of priority 9"),
        (NOON.format(9), "1 pod", "a Pod of another"),
    ]
    for uid in list(cluster.state.pods):
        cluster.state.remove_pod(uid)
    cluster.state.remove_group(("PodGroup", "ns", "g"))
    cluster.refresh()
    assert cluster.cluster.victims.of([("PodGroup", "ns", "g")]) == []


def test_a_group_that_was_marked_says_it_once() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": FOR,
        "lastTransitionTime": NOON.format(1),
    }
    cluster.says(("PodGroup", "ns", "g"), conditions=[condition])
    (alone,) = told(cluster, "ns/PodGroup/g", "Preempted", "DisruptionTarget")
    assert alone.by == "PodGroup ns/high of priority 9"

    mark(cluster, cluster.pod("g", node="n0"), 1)

    (found,) = told(cluster, "ns/PodGroup/g", "Preempted", "DisruptionTarget")
    assert found.sentence.startswith("1 pod preempted")


def test_a_refusal_that_was_over_before_anybody_looked_is_told() -> None:
    cluster = Builder()
    cluster.node("n0", 4)
    cluster.gang("g", 1)
    waiting = cluster.pod("g")
    cluster.refresh()
    key = ("PodGroup", "ns", "g")

    cluster.says(key, blocker=blocker("4 pods need room, 1 has it"))
    cluster.says(key)
    cluster.state.set_pod(replace(waiting, node="n0"))

    found = told(cluster, "ns/PodGroup/g", "Unschedulable", "Bound")
    assert [(event.event, event.sentence) for event in found] == [
        ("Unschedulable", "4 pods need room, 1 has it"),
        ("Bound", "1 pod bound"),
    ]


def test_a_refusal_is_not_told_of_a_new_group_of_the_same_name() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    cluster.pod("g")
    cluster.refresh()
    key = ("PodGroup", "ns", "g")

    cluster.says(key, blocker=blocker("no room"))
    cluster.cluster.observed.pop(key)
    cluster.says(key)

    assert told(cluster, "ns/PodGroup/g", "Unschedulable") == []


def test_a_refusal_from_before_the_first_look_is_still_told_when_it_is_over() -> None:
    cluster = Builder()
    cluster.node("n0", 4)
    cluster.gang("g", 1)
    waiting = cluster.pod("g")
    key = ("PodGroup", "ns", "g")
    cluster.says(key, blocker=blocker("no room", since=NOON.format(3)))
    (standing,) = told(cluster, "ns/PodGroup/g", "Unschedulable", "Bound")

    cluster.says(key)
    cluster.state.set_pod(replace(waiting, node="n0"))

    refused, bound = told(cluster, "ns/PodGroup/g", "Unschedulable", "Bound")
    assert {refused.event, bound.event} == {"Unschedulable", "Bound"}
    assert standing in (refused, bound)
    assert (standing.at, standing.sentence) == (NOON.format(3), "no room")


def test_what_is_said_again_is_told_once() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    cluster.pod("g")
    cluster.refresh()
    key = ("PodGroup", "ns", "g")
    for conditions in (["other"], []):
        cluster.says(key, blocker=blocker("no room"), conditions=conditions)
        cluster.refresh()
    cluster.says(key, blocker={"summary": ["not", "a", "sentence"]})
    cluster.says(key)

    (found,) = told(cluster, "ns/PodGroup/g", "Unschedulable")

    assert found.sentence == "no room"


def test_a_mark_that_another_controller_set_is_shown_as_it_is() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "message": "drained",
        "lastTransitionTime": NOON.format(1),
    }
    cluster.says(("PodGroup", "ns", "g"), conditions=[condition])

    assert [event.sentence for event in told(cluster, "ns/PodGroup/g", "DisruptionTarget")] == [
        "drained"
    ]


def test_a_pod_without_a_group_says_it_too() -> None:
    cluster = Builder()
    mark(cluster, cluster.pod(name="p", node="n0"), 1)

    (found,) = told(cluster, "ns/Pod/p", "Preempted")

    assert (found.sentence[:15], found.by) == ("1 pod preempted", "PodGroup ns/high of priority 9")


@pytest.mark.parametrize(
    ("says", "event"),
    [
        ("", "Preempted"),
        ("muster-scheduler: preempted; its eviction had begun before a restart", "Preempted"),
        ("muster-scheduler: not whole in time", "Evicted"),
    ],
)
def test_other_reasons_are_told_as_they_are(says: str, event: str) -> None:
    found = victims.preempted(NOON.format(1), says, "2 pods")

    assert (found.event, found.by) == (event, "muster-scheduler")
    assert found.sentence.endswith(says.removeprefix("muster-scheduler: "))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "MOST_ROOTS", 2)
    cluster = Builder()
    for number in range(3):
        cluster.gang(f"g{number}", 1)
        mark(cluster, cluster.pod(f"g{number}", node="n0"), 1)
        cluster.refresh()

    keys = [("PodGroup", "ns", f"g{number}") for number in range(3)]
    assert [len(cluster.cluster.victims.of([key])) for key in keys] == [0, 1, 1]


def test_times_that_are_none_break_nothing() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    for number, at in enumerate(("", "yesterday", "9" * 400)):
        info = cluster.pod("g", node="n0", name=f"p{number}")
        marked = replace(info.preemption, targeted=True, targeted_at=at, target_says=FOR)
        cluster.state.set_pod(replace(info, preemption=marked))

    assert len(told(cluster, "ns/PodGroup/g", "Preempted")) == 1
