"""Pods beyond the size for which minCount was computed are kept back, in any order of events."""

import random
from collections.abc import Iterable

import pytest

from api.constants import JOB, JOBSET, KindName
from kube.client.meta import OwnerReference
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.decoding.objects import (
    Gang,
    GroupObject,
    GroupObjectSpec,
    Metadata,
    Pod,
    PodSpec,
    PodStatus,
    Policy,
)
from scheduler.watch.event_handlers import GroupHandler, PodHandler
from tests.support.owners import made_for

LABEL = "scheduling.muster.dev/pod-group"
MANAGED = "scheduling.muster.dev/managed-group"
BASIS = "scheduling.muster.dev/min-count-basis"


class Feed:
    """The handlers of pods and PodGroups over one state."""

    def __init__(self) -> None:
        self.state = State()
        self.pods = PodHandler(self.state, lambda: None)
        self.groups = GroupHandler(
            "PodGroup", self.state, lambda: None, {}, self.pods.on_group_changed
        )

    def pod(
        self,
        name: str,
        *,
        node: str = "",
        phase: str = "Pending",
        going: bool = False,
        managed: str = "g",
        gates: Iterable[str] = (),
    ) -> None:
        meta = Metadata(
            name=name,
            namespace="ns",
            uid=name,
            labels={LABEL: "g"},
            annotations={MANAGED: managed} if managed else {},
            owner_references=[OwnerReference("batch/v1", "Job", "j", "uid-j", True)],
            deletion_timestamp="2026-01-01T00:00:00Z" if going else None,
        )
        spec = PodSpec(scheduler_name="muster-scheduler", node_name=node)
        spec.scheduling_gates = [{"name": gate} for gate in gates]  # type: ignore[misc]
        self.pods.upsert(Pod(meta, spec, PodStatus(phase=phase)))

    def all(self, count: int, *, node: str = "", first: int = 0) -> None:
        for number in range(first, first + count):
            self.pod(f"p{number}", node=node, phase="Running" if node else "Pending")

    def group(self, pods: int | None, kind: KindName | None = JOB, owner: str = "j") -> None:
        """Add a PodGroup whose minCount fits that many pods; None: without the annotation."""
        notes = made_for(kind, owner, f"uid-{owner}") if kind is not None else {"annotations": {}}
        if pods is not None:
            notes["annotations"] |= {BASIS: f"size={pods},asked={pods},pods={pods},minCount={pods}"}
        spec = GroupObjectSpec(scheduling_policy=Policy(gang=Gang(min_count=2)))
        self.groups.upsert(GroupObject(Metadata(name="g", namespace="ns", **notes), spec))

    def delete(self, name: str) -> None:
        self.pods.delete(("ns", name))

    def waiting(self) -> set[str]:
        """Return the pods that may be placed."""
        key: GroupKey = ("PodGroup", "ns", "g")
        members = self.state.forest.groups[key].members
        return {uid for uid, pod in members.items() if pod.waiting}


@pytest.fixture
def feed() -> Feed:
    return Feed()


def named(*numbers: int) -> set[str]:
    return {f"p{number}" for number in numbers}


def test_pods_of_an_owner_that_grew_wait_for_the_note(feed: Feed) -> None:
    feed.group(2)
    feed.all(2, node="n")
    feed.all(4, first=2)
    assert feed.waiting() == set()

    feed.group(6)
    assert feed.waiting() == named(2, 3, 4, 5)


def test_the_first_pods_still_wait(feed: Feed) -> None:
    feed.group(2)
    feed.all(6)

    assert feed.waiting() == named(0, 1)


def test_the_group_comes_after_its_pods(feed: Feed) -> None:
    feed.all(5)
    assert feed.waiting() == named(0, 1, 2, 3, 4)

    feed.group(2)
    assert len(feed.waiting()) == 2


def test_pods_that_run_are_seen_last(feed: Feed) -> None:
    feed.group(2)
    feed.all(2)
    feed.all(2, node="n", first=2)

    assert feed.waiting() == set()


@pytest.mark.parametrize("end", ["Failed", "Succeeded", "going", "gone"])
def test_a_replacement_is_not_held(feed: Feed, end: str) -> None:
    feed.group(2)
    feed.all(2, node="n")
    if end == "gone":
        feed.delete("p0")
    elif end == "going":
        feed.pod("p0", node="n", phase="Running", going=True)
    else:
        feed.pod("p0", node="n", phase=end)
    feed.pod("p2")

    assert feed.waiting() == named(2)


def test_one_takes_the_place_of_each_that_goes_unless_its_owner_grew(feed: Feed) -> None:
    feed.group(2)
    feed.all(2, node="n")
    feed.pod("p0", node="n", phase="Failed")
    feed.pod("p2")
    assert feed.waiting() == named(2)


@pytest.mark.parametrize("going", [False, True])
def test_nothing_takes_the_place_of_a_pod_that_goes_once_its_owner_grew(
    feed: Feed, going: bool
) -> None:
    feed.group(1)
    feed.all(1, node="n")
    feed.all(2, first=1)
    feed.pod("p0", node="n", phase="Running" if going else "Failed", going=going)
    feed.pod("p3")
    assert feed.waiting() == set(), "all three are of the new size"

    feed.group(3)
    assert feed.waiting() == named(1, 2, 3)
    assert not feed.pods._growth._of["p1"].ended


def test_what_is_gone_makes_room_for_one_that_was_too_many(feed: Feed) -> None:
    feed.group(2)
    feed.all(3)
    feed.delete("p0")
    assert feed.waiting() == named(1, 2)
    feed.delete("p1")
    feed.all(2, first=3)
    feed.pod("p2", node="n", phase="Failed")
    assert feed.waiting() == named(3), "the one that ended counts while another is held"
    feed.delete("p2")
    assert feed.waiting() == named(3, 4)


def test_shrinking_releases_nobody_and_leaves_who_may_be_placed(feed: Feed) -> None:
    feed.group(4)
    feed.all(4)
    feed.group(2)
    held = named(0, 1, 2, 3) - feed.waiting()
    assert len(held) == 2

    for name in held:
        feed.delete(name)
    assert feed.waiting() == named(0, 1, 2, 3) - held


@pytest.mark.parametrize(
    ("kind", "pods"), [(JOB, None), (None, 2)], ids=["no note", "a user's group"]
)
def test_other_groups_hold_nobody(feed: Feed, kind: KindName | None, pods: int | None) -> None:
    feed.group(pods, kind)
    for number in range(4):
        feed.pod(f"p{number}", managed="" if kind is None else "g")

    assert feed.waiting() == named(0, 1, 2, 3)


def test_the_group_goes_and_comes_again(feed: Feed) -> None:
    feed.group(2)
    feed.all(3)
    feed.groups.delete(("ns", "g"))
    assert feed.waiting() == named(0, 1, 2)
    feed.group(2)
    assert len(feed.waiting()) == 2


def test_a_user_s_extra_pods_are_neither_counted_nor_held(feed: Feed) -> None:
    feed.group(2)
    for number in range(3):
        feed.pod(f"extra-{number}", managed="")
    feed.all(2)

    assert feed.waiting() == named(0, 1) | {f"extra-{number}" for number in range(3)}


def test_pods_of_another_owner_take_no_place(feed: Feed) -> None:
    feed.group(2, JOBSET, "other")
    feed.all(3)
    assert feed.waiting() == set()

    feed.group(3)
    assert feed.waiting() == named(0, 1, 2)
    feed.group(3, JOBSET, "other")
    assert feed.waiting() == set()
    feed.group(2)
    assert len(feed.waiting()) == 2
    feed.all(3)
    assert len(feed.waiting()) == 2
    for number in range(3):
        feed.delete(f"p{number}")
    feed.all(2, first=3)
    assert feed.waiting() == named(3, 4)


def test_gated_pods_are_counted(feed: Feed) -> None:
    feed.group(2)
    feed.pod("p0", gates=["theirs"])
    feed.all(2, first=1)
    assert feed.waiting() == named(1)

    feed.pod("p0")
    assert len(feed.waiting()) == 2


def test_what_changes_of_a_held_pod_does_not_release_it(feed: Feed) -> None:
    feed.group(1)
    feed.all(2)
    feed.pod("p1")
    assert feed.waiting() == named(0)

    feed.group(2)
    assert feed.waiting() == named(0, 1)


def test_an_event_costs_the_same_however_many_wait(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.group(10)
    feed.all(300)
    calls = 0
    set_pod = feed.state.set_pod

    def counted(info: object) -> object:
        nonlocal calls
        calls += 1
        return set_pod(info)  # type: ignore[arg-type]

    monkeypatch.setattr(feed.state, "set_pod", counted)
    for number in range(300, 310):
        feed.pod(f"p{number}")
        feed.delete("p0" if number == 300 else f"p{number - 1}")

    assert calls <= 3 * 10


def test_nothing_is_kept_of_what_is_gone(feed: Feed) -> None:
    feed.group(1)
    feed.all(3)
    for number in range(3):
        feed.delete(f"p{number}")
    feed.groups.delete(("ns", "g"))

    growth = feed.pods._growth
    assert not growth._of
    assert not growth._groups


def test_nothing_is_kept_of_strangers(feed: Feed) -> None:
    feed.group(1, JOBSET, "other")
    feed.all(3)
    for number in range(3):
        feed.delete(f"p{number}")
    feed.groups.delete(("ns", "g"))

    growth = feed.pods._growth
    assert not growth._of
    assert not growth._groups


@pytest.mark.parametrize("seed", range(30))
def test_as_many_are_held_as_there_are_too_many(feed: Feed, seed: int) -> None:
    draw = random.Random(seed)
    limit, pods, ended = 0, dict[str, str](), set[str]()
    feed.group(limit)
    for step in range(120):
        kind = draw.choice(("new", "new", "bound", "ended", "gone", "resized"))
        name = draw.choice(sorted(pods)) if pods else ""
        if kind == "new":
            pods[f"p{step}"] = ""
            feed.pod(f"p{step}")
        elif kind == "resized":
            before, limit = limit, draw.randint(0, 8)
            feed.group(limit)
            ended = ended if limit == before else set()
        elif name and kind == "bound":
            pods[name] = "n"
            feed.pod(name, node="n", phase="Running")
        elif name and kind == "ended":
            held = {it for it, node in pods.items() if not node} - feed.waiting()
            if held and name not in held:
                ended.add(name)
            feed.pod(name, node="n", phase="Failed")
            del pods[name]
        elif name:
            feed.delete(name)
            del pods[name]
        unbound = [it for it, node in pods.items() if not node]
        too_many = min(len(unbound), max(0, len(pods) + len(ended) - limit))
        assert len(feed.waiting()) == len(unbound) - too_many, (step, kind)
