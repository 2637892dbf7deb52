"""The list of workloads: their status, filters, rights, pages, and what is kept of the deleted."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from api.constants import NATIVE_POD_GROUP
from console.base.messages import WorkloadRow, WorkloadsPage
from console.base.protocols import RefusedError, Viewer
from console.following.following import Following
from console.state import ended
from console.views import workloads as view
from console.views.workload_index import LONGEST
from console.views.workloads import WorkloadFilters
from localcluster.testing.clock import FakeClock
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import GroupKey, GroupSpec
from tests.console.cluster_builder import ALL, Builder

HOSTILE = "<script>alert(1)</script>\u202e"


class _Clock(FakeClock):
    """A clock; each reading is `step` seconds later than the one before."""

    seconds = 1e8
    step = 0.0

    def monotonic(self) -> float:
        self.seconds += self.step
        return self.seconds


class Listed(Builder):
    """A cluster whose list of workloads is asked for, with a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = _Clock()
        self.following = Following(self.cluster, now=lambda: self.time, clock=self.clock)
        self.nodes(2, cpu=8)

    def page(
        self, viewer: Viewer = ALL, *, after: str = "", limit: int = 200, **filters: Any
    ) -> WorkloadsPage:
        return asyncio.run(self.asked(viewer, after=after, limit=limit, **filters))

    async def asked(
        self, viewer: Viewer = ALL, *, after: str = "", limit: int = 200, **filters: Any
    ) -> WorkloadsPage:
        chosen = WorkloadFilters(**filters)

        async def fresh() -> None:
            self.refresh()

        await fresh()
        index = self.following.workloads
        return await view.page(index, viewer, chosen, after, limit, fresh=fresh, clock=self.clock)

    def rows(self, viewer: Viewer = ALL, **filters: Any) -> dict[str, WorkloadRow]:
        return {row.id: row for row in self.page(viewer, **filters).items}

    def job(self, name: str, *, pods: int = 2, node: str = "n0", phase: str = "") -> None:
        """Add a Job's group; without a node its pods wait."""
        self.gang(f"pg-{name}", pods, created="2026-11-23T12:00:00Z")
        self.says(("PodGroup", "ns", f"pg-{name}"), owner=("Job", name))
        for number in range(pods):
            self.pod(f"pg-{name}", name=f"{name}-{number}", node=node, phase=phase)

    def end(self, name: str, phase: str) -> None:
        """End the pods of a Job in this phase."""
        for pod in self.state.forest.groups["PodGroup", "ns", f"pg-{name}"].members.copy().values():
            self.state.set_pod(replace(pod.info, phase=phase))

    def delete(self, name: str) -> None:
        """Delete the pods of a Job, then its group."""
        key: GroupKey = ("PodGroup", "ns", f"pg-{name}")
        for uid in list(self.state.forest.groups[key].members):
            self.state.remove_pod(uid)
            self.refresh()
        self.state.remove_group(key)
        self.cluster.observed.pop(key, None)
        self.refresh()


def test_what_runs_and_what_waits_are_listed_by_their_owners() -> None:
    cluster = Listed()
    cluster.job("train")
    cluster.job("late", node="")
    cluster.pod(name="alone", node="n1")
    cluster.pod(name="unplaced", cpu=99)
    cluster.pod(name="others", node="n1", ours=False)

    found = cluster.page()

    assert [(row.id, row.status, row.state) for row in found.items] == [
        ("ns/Job/late", "waiting", "Waiting"), ("ns/Job/train", "running", "Running"),
        ("ns/Pod/alone", "running", "Running"), ("ns/Pod/unplaced", "waiting", "Waiting"),
    ]  # fmt: skip
    assert (found.total, found.running, found.waiting, found.finished) == (4, 2, 2, 0)
    train = found.items[1]
    assert (train.pods, train.bound, train.running, train.minimum) == (2, 2, 2, 2)
    assert (train.created, train.ended, train.deleted) == ("2026-11-23T12:00:00Z", None, False)


@pytest.mark.parametrize(("phase", "state"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
def test_a_workload_has_finished_once_all_its_pods_have_ended(phase: str, state: str) -> None:
    cluster = Listed()
    cluster.job("train")
    assert cluster.rows()["ns/Job/train"].status == "running"
    cluster.time = 1_795_435_205.0

    cluster.end("train", phase)

    row = cluster.rows()["ns/Job/train"]
    assert (row.status, row.state, row.deleted) == ("finished", state, False)
    assert row.ended == "2026-11-23T12:00:05Z"
    cluster.time += 60
    cluster.delete("train")
    kept = cluster.rows()["ns/Job/train"]
    assert (kept.status, kept.state, kept.deleted, kept.pods) == ("finished", state, True, 2)
    assert kept.ended == "2026-11-23T12:00:05Z"


def test_the_end_of_what_had_ended_before_the_console_started_is_unknown() -> None:
    cluster = Listed()
    cluster.job("train", phase="Succeeded")

    row = cluster.rows()["ns/Job/train"]

    assert (row.status, row.state, row.ended) == ("finished", "Succeeded", None)


def test_what_is_deleted_while_it_runs_has_ended_somehow() -> None:
    cluster = Listed()
    cluster.job("train")
    uid = cluster.pod(name="alone", node="n1").uid
    cluster.page()

    cluster.delete("train")
    cluster.state.remove_pod(uid)

    found = cluster.rows()
    assert {id_: (row.status, row.state, row.deleted) for id_, row in found.items()} == {
        "ns/Job/train": ("finished", "Ended", True), "ns/Pod/alone": ("finished", "Ended", True),
    }  # fmt: skip


def test_a_workload_that_is_created_again_is_no_longer_the_one_that_ended() -> None:
    cluster = Listed()
    cluster.job("train")
    cluster.page()
    cluster.delete("train")
    cluster.job("train", node="")

    (row,) = cluster.page().items

    assert (row.status, row.ended, row.deleted) == ("waiting", None, False)


def test_a_group_that_gets_an_owner_or_a_parent_has_not_ended() -> None:
    cluster = Listed()
    cluster.gang("a", 1)
    cluster.gang("b", 1)
    for name in "ab":
        cluster.pod(name, node="n0")
    assert set(cluster.rows()) == {"ns/PodGroup/a", "ns/PodGroup/b"}

    cluster.says(("PodGroup", "ns", "a"), owner=("Job", "train"))
    cluster.composite("set", 1)
    cluster.gang("b", 1, parent="set")

    assert set(cluster.rows()) == {"ns/CompositePodGroup/set", "ns/Job/train"}
    assert len(cluster.following.workloads.entries) == 2


def test_an_owner_of_several_groups_waits_if_one_of_them_does() -> None:
    cluster = Listed()
    for number, node in enumerate(("n0", "", "n1")):
        cluster.gang(f"replica-{number}", 1)
        cluster.says(("PodGroup", "ns", f"replica-{number}"), owner=("LeaderWorkerSet", "serve"))
        cluster.pod(f"replica-{number}", name=f"p{number}", node=node)

    assert cluster.rows()["ns/LeaderWorkerSet/serve"].status == "waiting"
    cluster.state.remove_pod("uid-p1")
    cluster.state.remove_group(("PodGroup", "ns", "replica-1"))
    row = cluster.rows()["ns/LeaderWorkerSet/serve"]
    assert (row.status, row.pods) == ("running", 2)


def test_an_empty_native_group_has_no_effect_next_to_musters() -> None:
    cluster = Listed()
    cluster.job("train")
    native: GroupKey = (NATIVE_POD_GROUP.full_kind, "ns", "train-abc")
    cluster.state.set_group(GroupSpec(native, 3))
    cluster.says(native, owner=("Job", "train"))

    assert cluster.rows()["ns/Job/train"].status == "running"


def test_a_part_that_is_over_while_another_is_to_come_has_not_finished() -> None:
    cluster = Listed()
    cluster.composite("set", 2)
    for name in ("first", "second"):
        cluster.gang(name, 1, parent="set")
    cluster.pod("first", name="p", node="n0", phase="Succeeded")

    assert cluster.rows()["ns/CompositePodGroup/set"].status == "waiting"


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"search": "TRA"}, ["ns/Job/train"]),
        ({"search": " job/"}, ["ns/Job/late", "ns/Job/train"]),
        ({"kind": "job"}, ["ns/Job/late", "ns/Job/train"]),
        ({"kind": "Jo"}, []),
        ({"node": "n1"}, ["other/Pod/there"]),
        ({"node": "none"}, []),
        ({"namespace": "other"}, ["other/Pod/there"]),
        ({"namespace": "other", "node": "n0"}, []),
        ({"status": "waiting"}, ["ns/Job/late"]),
        ({"status": "finished"}, []),
    ],
)
def test_filters(filters: dict[str, Any], found: list[str]) -> None:
    cluster = Listed()
    cluster.job("train")
    cluster.job("late", node="")
    cluster.pod(name="there", node="n1", namespace="other")

    page = cluster.page(**filters)

    assert [row.id for row in page.items] == found
    assert page.total == len(found)


def test_finished_workloads_alone_are_in_the_order_of_their_ends() -> None:
    cluster = Listed()
    for name in "abc":
        cluster.job(name)
    cluster.page()
    for name in "bca":
        cluster.time += 1
        cluster.end(name, "Succeeded")
        cluster.refresh()

    first = cluster.page(status="finished", limit=2)
    last = cluster.page(status="finished", limit=2, after=first.next or "")

    assert [row.name for row in (*first.items, *last.items)] == ["a", "c", "b"]
    assert (first.total, last.total, last.next) == (3, 3, None)


def test_pages_follow_each_other_while_rows_come_and_go() -> None:
    cluster = Listed()
    for number in range(10):
        cluster.pod(name=f"p{number}", node="n0")
    first = cluster.page(limit=4)
    cluster.state.remove_pod("uid-p3")
    cluster.pod(name="p00", node="n0")

    second = cluster.page(limit=4, after=first.next or "")
    third = cluster.page(limit=4, after=second.next or "")

    names = [row.name for row in (*first.items, *second.items, *third.items)]
    assert names == [f"p{number}" for number in range(10)]
    assert third.next is None


@pytest.mark.parametrize("after", ["x", ":", "0.0:", "nan:a", "inf:a", "1e999:a", "-:a"])
def test_a_cursor_that_is_none_is_refused(after: str) -> None:
    with pytest.raises(RefusedError) as raised:
        Listed().page(after=after)

    assert raised.value.status == 400


def test_a_viewer_sees_the_namespaces_that_they_may_list() -> None:
    cluster = Listed()
    uid = cluster.pod(name="ended", node="n0", namespace="a").uid
    for namespace in "ab":
        cluster.pod(name=f"{namespace}p", node="n0", namespace=namespace)
    cluster.page()
    cluster.state.remove_pod(uid)
    viewer = Viewer("b", "two", namespaces=frozenset({"b", "empty"}), nodes=False)

    page = cluster.page(viewer)

    assert [row.id for row in page.items] == ["b/Pod/bp"]
    assert (page.total, page.running, page.finished) == (1, 1, 0)
    assert set(cluster.rows(viewer, node="n0")) == {"b/Pod/bp"}
    assert cluster.page(viewer, namespace="empty").total == 0
    with pytest.raises(RefusedError) as raised:
        cluster.page(viewer, namespace="a")
    assert raised.value.status == 403


def test_hostile_names_are_passed_on_and_long_ones_of_owners_are_not() -> None:
    cluster = Listed()
    for name, owner in (("a", HOSTILE.replace("/", "")), ("b", "x" * (LONGEST + 1)), ("c", "a/b")):
        cluster.gang(name, 1)
        cluster.says(("PodGroup", "ns", name), owner=(owner, HOSTILE.replace("/", "")))
        cluster.pod(name, node="n0")

    found = {(row.kind, row.name) for row in cluster.page().items}

    assert found == {
        (HOSTILE.replace("/", ""), HOSTILE.replace("/", "")), ("PodGroup", "b"), ("PodGroup", "c"),
    }  # fmt: skip


def test_what_is_kept_is_bounded_for_each_namespace_and_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ended, "MOST", 5)
    monkeypatch.setattr(ended, "MOST_OF_NAMESPACE", 3)
    cluster = Listed()
    for namespace in "abc":
        uids = [cluster.pod(name=f"p{n}", namespace=namespace).uid for n in range(9)]
        for number, _ in enumerate(uids):
            cluster.pod(name=f"{namespace}{number}", namespace=namespace)
        cluster.refresh()
        for number in range(9):
            cluster.state.remove_pod(f"uid-{namespace}{number}")
            cluster.refresh()

    kept = [row.id for row in cluster.page(status="finished").items]

    assert sorted(kept) == ["b/Pod/b7", "b/Pod/b8", "c/Pod/c6", "c/Pod/c7", "c/Pod/c8"]
    assert len(cluster.following.workloads.entries) == len(kept) + 9


def test_what_ended_a_day_ago_is_dropped_with_all_that_the_index_has_of_it() -> None:
    cluster = Listed()
    uid = cluster.pod(name="p").uid
    cluster.page()
    cluster.state.remove_pod(uid)
    cluster.clock.seconds += 1
    assert cluster.page().finished == 1

    cluster.clock.seconds += ended.KEPT_SECONDS

    assert cluster.page().items == []
    index = cluster.following.workloads
    assert (index.entries, index.ids, index.namespaces, index.id_of) == ({}, {}, [], {})


async def test_a_page_gives_way_and_takes_the_changes_that_come_meanwhile() -> None:
    cluster = Listed()
    uids = [cluster.pod(name=f"p{number:03}", node="n0").uid for number in range(300)]
    cluster.refresh()
    cluster.clock.step = 0.01
    turns = 0

    asked = asyncio.create_task(cluster.asked(limit=100))
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 3:
            for uid in uids[250:]:
                cluster.state.remove_pod(uid)

    page = await asked
    assert turns > 100
    assert (page.total, page.running, page.finished) == (300, 250, 50)


def test_following_costs_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Listed()
    for number in range(300):
        cluster.pod(name=f"p{number:03}", node="n0")
    cluster.refresh()
    index = cluster.following.workloads
    entered: list[GroupKey] = []
    enter = index._enter

    def counted(key: GroupKey, id_: str, entity: Group | Pod) -> None:
        entered.append(key)
        enter(key, id_, entity)

    monkeypatch.setattr(index, "_enter", counted)

    cluster.pod(name="new", node="n0")
    cluster.refresh()

    assert entered == [("Pod", "ns", "new")]
