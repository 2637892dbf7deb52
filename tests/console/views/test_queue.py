"""The queue: pending workloads, their order, and their reason in one sentence."""

from dataclasses import replace

import pytest

from api.features import FeatureGates
from console.base.messages import Nearest, Owner, Waiting
from console.base.protocols import RefusedError, Viewer
from console.views import refusals
from console.views.queue import HEAD, ROUNDS_KEPT, Filters
from scheduler.core.groups.forest import Group
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupSpec
from scheduler.status.conditions import waiting_for
from tests.console.cluster_builder import ALL, Builder, blocker


def rows(cluster: Builder, viewer: Viewer = ALL, **filters: object) -> list[Waiting]:
    chosen = Filters(**filters)  # type: ignore[arg-type]
    return cluster.refresh().queue.page(viewer, chosen, "", 200).items


def gang(cluster: Builder, name: str, pods: int, *, minimum: int = 0, **more: object) -> None:
    cluster.gang(name, minimum or pods, **more)  # type: ignore[arg-type]
    for _ in range(pods):
        cluster.pod(name, priority=more.get("priority", 0))  # type: ignore[arg-type]


def test_the_order_is_the_schedulers_and_what_is_not_ready_comes_last() -> None:
    cluster = Builder()
    cluster.nodes(1, cpu=1)
    gang(cluster, "late", 2, priority=5, created="2026-11-23T12:00:02Z")
    gang(cluster, "early", 2, priority=5, created="2026-11-23T12:00:01Z")
    gang(cluster, "urgent", 2, priority=9, created="2026-11-23T12:00:03Z")
    gang(cluster, "unready", 1, minimum=3, priority=50, created="2026-11-23T12:00:00Z")

    found = rows(cluster)

    assert [row.name for row in found] == ["urgent", "early", "late", "unready"]
    assert [row.position for row in found] == [1, 2, 3, 4]
    assert list(cluster.following.queue) == [
        ("PodGroup", "ns", name) for name in ("urgent", "early", "late", "unready")
    ]


def test_a_row_says_what_the_scheduler_wrote() -> None:
    cluster = Builder()
    cluster.nodes(1)
    gang(cluster, "train", 4, priority=7, created="2026-11-23T12:00:00Z")
    best = {"key": "example.com/rack", "value": "b1/r2", "missing": 1}
    cluster.says(
        ("PodGroup", "ns", "train"),
        owner=("Job", "train"),
        blocker=blocker(
            "needs room for 4 more pods, there is room for 1",
            since="2026-11-23T12:00:05Z",
            bestDomain=best,
        ),
    )

    (row,) = rows(cluster)

    assert row == Waiting(
        id="ns/PodGroup/train",
        position=1,
        namespace="ns",
        kind="PodGroup",
        name="train",
        owner=Owner(kind="Job", name="train"),
        priority=7,
        since="2026-11-23T12:00:05Z",
        pods=4,
        minimum=4,
        reason="Unschedulable",
        sentence="needs room for 4 more pods, there is room for 1",
        nearest=Nearest(key="example.com/rack", value="b1/r2", slots=3, needed=4),
        waits_for="capacity for 3 more pods",
    )


def test_what_lacks_members_says_how_many() -> None:
    cluster = Builder()
    gang(cluster, "train", 5, minimum=32)

    (row,) = rows(cluster)

    assert (row.reason, row.waits_for) == ("Incomplete", "27 more pods")
    assert row.sentence.startswith("The group has 5 of 32 pods")


def test_a_row_counts_no_pod_that_terminates() -> None:
    cluster = Builder()
    gang(cluster, "train", 2, minimum=3)
    cluster.pod("train", terminating=True)

    assert [row.pods for row in rows(cluster)] == [2]


def test_what_the_scheduler_has_not_decided_is_asked_of_the_solver() -> None:
    cluster = Builder()
    cluster.nodes(2, cpu=4)
    gang(cluster, "big", 9)
    cluster.pod(name="alone", cpu=5)
    cluster.pod(name="small", cpu=1)

    found = {row.name: row for row in rows(cluster)}

    assert (found["big"].reason, found["big"].waits_for) == (
        "Unschedulable",
        "capacity for 1 more pod",
    )
    assert "; 8 fit" in found["big"].sentence
    assert found["alone"].kind == "Pod"
    assert found["alone"].reason == "Unschedulable"
    assert "cpu" in found["alone"].sentence
    assert found["small"].sentence == "It fits, and is about to be scheduled."


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("priority", "Gate"), ("invalid", "Invalid"), ("binding", "SchedulerError"),
     ("error", "SchedulerError"),
     ("constraint", "Unschedulable"), ("of-a-later-version", "Unschedulable")],
)  # fmt: skip
def test_reasons_follow_the_kind_of_the_blocker(kind: str, reason: str) -> None:
    cluster = Builder()
    gang(cluster, "train", 2)
    cluster.says(("PodGroup", "ns", "train"), blocker=blocker("waits", kind))

    (row,) = rows(cluster)

    assert row.reason == reason


def test_a_feature_gate_that_is_off_is_a_gate() -> None:
    cluster = Builder()
    spec = GroupSpec(("PodGroup", "ns", "off"), 1, gate_off="Preemption")
    cluster.state.set_group(spec)
    cluster.pod("off")

    (row,) = rows(cluster)

    assert row.reason == "Gate"
    assert "Preemption" in row.sentence


def test_a_nomination_waits_for_the_pods_that_end_there() -> None:
    cluster = Builder()
    cluster.nodes(1, cpu=2)
    victim = cluster.pod(name="victim", cpu=2, node="n0")
    gang(cluster, "next", 2, priority=5)
    for pod in list(cluster.state.forest.groups["PodGroup", "ns", "next"].members.values()):
        cluster.state.set_pod(replace(pod.info, nominated="n0"))
    (row,) = rows(cluster)
    assert row.reason == "Nominated"
    assert row.sentence == "2 pods nominated to 1 node, about to be bound"

    targeted = replace(victim.preemption, targeted=True)
    cluster.state.set_pod(replace(victim, preemption=targeted, terminating=True))
    cluster.cluster.observed.changed.add(("PodGroup", "ns", "next"))

    (row,) = rows(cluster)
    assert (row.reason, row.waits_for) == ("Preempting", "1 pod to terminate")
    assert row.sentence == "2 pods nominated to 1 node; 1 pod there must be evicted"


def test_what_runs_whole_does_not_wait_and_what_lacks_extras_does() -> None:
    cluster = Builder()
    cluster.gang("whole", 1)
    cluster.pod("whole", node="n0")
    cluster.gang("more", 1)
    cluster.pod("more", node="n0")
    cluster.pod("more")

    assert [row.name for row in rows(cluster)] == ["more"]


def test_of_a_tree_the_root_waits_and_the_cheapest_children_are_its_minimum() -> None:
    cluster = Builder()
    cluster.composite("set", 2)
    for name, pods in (("a", 3), ("b", 1), ("c", 5)):
        cluster.gang(name, pods, parent="set")
        cluster.pods(name, pods)

    (row,) = rows(cluster)

    assert (row.kind, row.name) == ("CompositePodGroup", "set")
    assert (row.pods, row.minimum) == (9, 4)


def test_a_group_that_finds_its_parent_has_no_row_of_its_own() -> None:
    cluster = Builder()
    cluster.gang("a", 1)
    cluster.pods("a", 1)
    assert [row.name for row in rows(cluster)] == ["a"]

    cluster.composite("set", 1)
    cluster.gang("a", 1, parent="set")

    assert [row.name for row in rows(cluster)] == ["set"]


def test_filters_and_pages() -> None:
    cluster = Builder()
    for number in range(10):
        gang(cluster, f"g{number}", 1, minimum=1 + number % 2, priority=number)
    queue = cluster.refresh().queue

    assert [row.name for row in rows(cluster, priority=8)] == ["g8", "g9"]
    assert {row.name for row in rows(cluster, reason="Incomplete")} == {
        f"g{n}" for n in (1, 3, 5, 7, 9)
    }
    assert rows(cluster, namespace="other") == []
    first = queue.page(ALL, Filters(reason="Incomplete"), "", 2)
    assert ([row.name for row in first.items], first.total) == (["g9", "g7"], 5)
    second = queue.page(ALL, Filters(reason="Incomplete"), first.next or "", 2)
    third = queue.page(ALL, Filters(reason="Incomplete"), second.next or "", 2)
    assert [row.name for row in (*second.items, *third.items)] == ["g5", "g3", "g1"]
    assert third.next is None
    some = queue.page(ALL, Filters(), "", 4)
    assert (len(some.items), some.next, some.total) == (4, "4", 10)


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30, "١"])
def test_a_cursor_of_somebody_else_is_refused(cursor: str) -> None:
    with pytest.raises(RefusedError):
        Builder().refresh().queue.page(ALL, Filters(), cursor, 10)


def test_viewers_see_their_own_namespaces() -> None:
    cluster = Builder()
    for namespace in ("a", "b", "b"):
        cluster.pod(namespace=namespace)
    viewer = Viewer("b", "two", namespaces=frozenset({"b", "empty"}))
    page = cluster.refresh().queue.page(viewer, Filters(), "", 10)

    assert {row.namespace for row in page.items} == {"b"}
    assert page.total == 2
    with pytest.raises(RefusedError) as raised:
        cluster.following.queue.page(viewer, Filters(namespace="a"), "", 10)
    assert raised.value.status == 403

    change = cluster.following.queue.take_change()
    assert change is not None
    part = cluster.following.queue.for_viewer(change, viewer)
    assert ({row.namespace for row in part.changed}, part.total) == ({"b"}, 2)


def test_changes_are_rows_that_are_new_or_moved_and_those_that_left() -> None:
    cluster = Builder()
    for number in (1, 2, 3):
        cluster.pod(name=f"p{number}", priority=number)
    queue = cluster.refresh().queue
    first = queue.take_change()
    assert first is not None
    assert [(row.name, row.position) for row in first.changed] == [("p3", 1), ("p2", 2), ("p1", 3)]
    cluster.refresh()
    assert queue.take_change() is None

    cluster.state.remove_pod("uid-p2")
    cluster.refresh()

    change = queue.take_change()
    assert change is not None
    assert change.gone == ["ns/Pod/p2"]
    assert [(row.name, row.position) for row in change.changed] == [("p1", 2)]
    assert change.total == 2


def test_a_changed_row_far_behind_is_told_too() -> None:
    cluster = Builder()
    for number in range(HEAD + 20):
        cluster.pod(name=f"p{number:04}")
    queue = cluster.refresh().queue
    queue.take_change()
    cluster.pod(name="last", priority=-1)
    cluster.refresh()

    change = queue.take_change()

    assert change is not None
    assert [(row.name, row.position) for row in change.changed] == [("last", HEAD + 21)]


def test_following_costs_what_changed() -> None:
    cluster = Builder()
    cluster.nodes(3)
    for number in range(300):
        cluster.pod(name=f"p{number:03}", cpu=50)
    cluster.refresh()

    cluster.pod(name="new", cpu=50)
    changed = cluster.following.refresh()

    assert changed.roots == {("Pod", "ns", "new")}


@pytest.mark.parametrize(
    "said",
    [{}, {"summary": 5}, [], "text", 7, {"summary": "x", "needed": "many"},
     {"summary": "x", "bestDomain": []}, {"summary": None}],
)  # fmt: skip
def test_a_status_that_is_none_breaks_nothing(said: object) -> None:
    cluster = Builder()
    cluster.nodes(1, cpu=1)
    gang(cluster, "train", 2)
    cluster.says(("PodGroup", "ns", "train"), blocker=said)

    (row,) = rows(cluster)

    assert row.sentence


def test_names_that_are_hostile_are_passed_on_as_they_are() -> None:
    cluster = Builder()
    name = "<script>alert(1)</script>\u202e" + "x" * 200
    gang(cluster, name, 1)
    cluster.says(("PodGroup", "ns", name), blocker=blocker(name))

    (row,) = rows(cluster)

    assert (row.name, row.sentence) == (name, name)


def test_a_workload_that_breaks_the_solver_keeps_nobody_from_being_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Builder()
    gang(cluster, "poison", 2)
    gang(cluster, "good", 2)

    def broken(state: State, top: Group, gates: FeatureGates) -> object:
        if top.name == "poison":
            raise RuntimeError("of the test")
        return waiting_for(state, top, gates)

    monkeypatch.setattr(refusals, "waiting_for", broken)

    found = {row.name: row.reason for row in rows(cluster)}

    assert found == {"poison": "SchedulerError", "good": "Unschedulable"}


def test_what_streams_tell_of_the_undecided_comes_from_the_solver_one_by_one() -> None:
    cluster = Builder()
    cluster.nodes(1, cpu=1)
    for number in (1, 2):
        cluster.pod(name=f"p{number}", cpu=5)
    queue = cluster.refresh().queue

    def told() -> dict[str, str]:
        queue.ask_solver()
        change = queue.take_change()
        return {row.name: row.sentence for row in change.changed} if change is not None else {}

    assert set(told()) == {"p1", "p2"}
    first, second = told(), told()
    assert (set(first), set(second)) == ({"p1"}, {"p2"})
    assert "cpu" in first["p1"]
    assert told() == {}
    page = queue.page(ALL, Filters(), "", 10)
    assert [row.sentence for row in page.items] == [first["p1"], second["p2"]]


def test_an_old_answer_of_the_solver_is_asked_for_anew() -> None:
    cluster = Builder()
    cluster.nodes(1, cpu=1)
    cluster.pod(name="p", cpu=5)
    queue = cluster.refresh().queue
    for _ in range(2):
        queue.ask_solver()
        queue.take_change()
    cluster.node("large", cpu=9)
    cluster.refresh()
    said = []
    for _ in range(ROUNDS_KEPT + 1):
        queue.ask_solver()
        change = queue.take_change()
        said += [row.sentence for row in change.changed] if change is not None else []

    assert said == ["It fits, and is about to be scheduled."]


def test_what_was_undecided_and_is_gone_is_forgotten() -> None:
    cluster = Builder()
    cluster.pod(name="p", cpu=5)
    queue = cluster.refresh().queue
    queue.take_change()
    cluster.state.remove_pod("uid-p")
    cluster.refresh()
    queue.ask_solver()

    change = queue.take_change()

    assert change is not None
    assert (change.changed, change.gone) == ([], ["ns/Pod/p"])
