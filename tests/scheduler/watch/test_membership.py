"""Pods that name a group which is not theirs are kept back, in any order of events."""

from collections.abc import Callable, Mapping
from itertools import permutations, product
from types import MappingProxyType

import pytest

from api.constants import (
    ANNOTATION_PLAIN_NAME,
    ANNOTATION_STANDS_FOR,
    COSCHEDULING,
    JOB,
    JOBSET,
    WORKLOAD,
    KindName,
)
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
    WorkloadReference,
)
from scheduler.watch.event_handlers import GroupHandler, PodHandler
from tests.support.owners import made_for
from tools.testing.effort import count

LABEL = "scheduling.muster.dev/pod-group"
MANAGED = "scheduling.muster.dev/managed-group"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
JOB_UID = "batch.kubernetes.io/controller-uid"
PLUGINS = "scheduling.x-k8s.io/pod-group"
PREFIX = "scheduling.muster.dev/"

OF_JOBSET = {LABEL: "g", JOBSET_NAME: "s", JOBSET_UID: "uid-s"}

Event = Callable[[], None]


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
        labels: Mapping[str, str],
        job: str = "",
        managed: str = "",
        *,
        node: str = "",
        phase: str = "Pending",
    ) -> None:
        owners = [OwnerReference("batch/v1", "Job", "t", f"uid-{job}", True)] if job else []
        meta = Metadata(
            name=name,
            namespace="ns",
            uid=name,
            labels=dict(labels),
            annotations={MANAGED: managed} if managed else {},
            owner_references=owners,
        )
        spec = PodSpec(scheduler_name="muster-scheduler", node_name=node)
        self.pods.upsert(Pod(meta, spec, PodStatus(phase=phase)))

    def group(
        self,
        name: str,
        kind: KindName | None,
        owner: str = "",
        template: str = "",
        *,
        leaving: bool = False,
        usual_name: str = "",
        labels: Mapping[str, str] = MappingProxyType({}),
        plain_name: str = "",
    ) -> None:
        """Add a PodGroup of one pod for the owner with UID `uid-...`; None: by a user."""
        name_of = "t" if kind == JOB else owner
        notes = made_for(kind, name_of, f"uid-{owner}") if kind is not None else {}
        notes = notes | {"labels": {**notes.get("labels", {}), **labels}}
        if plain_name:
            said = notes.get("annotations", {}) | {ANNOTATION_PLAIN_NAME: plain_name}
            notes = notes | {"annotations": said}
        if usual_name:
            said = notes.get("annotations", {}) | {ANNOTATION_STANDS_FOR: usual_name}
            notes = notes | {"annotations": said}
        spec = GroupObjectSpec(
            scheduling_policy=Policy(gang=Gang(min_count=1)),
            workload_ref=WorkloadReference(owner, template) if template else None,
        )
        deleted = "2026-01-01T00:00:00Z" if leaving else None
        meta = Metadata(name=name, namespace="ns", deletion_timestamp=deleted, **notes)
        self.groups.upsert(GroupObject(meta, spec))

    def counted(self, name: str) -> set[str]:
        """Return the pods that may be placed as members of the group."""
        key: GroupKey = ("PodGroup", "ns", name)
        members = self.state.forest.groups[key].members
        return {uid for uid, pod in members.items() if pod.waiting}

    def running(self, name: str) -> int:
        """Return the number of pods that count for the group's minimum."""
        return self.state.forest.groups["PodGroup", "ns", name].running


def test_pods_of_a_job_do_not_enter_the_group_of_another_in_any_order() -> None:
    for order in permutations(range(3)):
        feed = Feed()
        events: tuple[Event, ...] = (
            lambda feed=feed: feed.pod("a", {LABEL: "g"}, job="a", managed="g"),  # type: ignore[misc]
            lambda feed=feed: feed.pod("b", {LABEL: "g"}, job="b", managed="g"),  # type: ignore[misc]
            lambda feed=feed: feed.group("g", JOB, "a"),  # type: ignore[misc]
        )
        for number in order:
            events[number]()

        assert feed.counted("g") == {"a"}, order


@pytest.mark.parametrize(
    ("labels", "job", "managed", "kind", "owner", "want"),
    [
        pytest.param({LABEL: "g"}, "j", "g", JOB, "j", True, id="a Job's own group"),
        pytest.param({LABEL: "g"}, "j", "g", None, "", False, id="a user's in its place"),
        pytest.param({LABEL: "g"}, "j", "", JOB, "x", True, id="a label that a user wrote"),
        pytest.param({LABEL: "g"}, "", "", None, "", True, id="a user's pod, a user's group"),
        pytest.param({LABEL: "g"}, "j", "g", JOB, "i", False, id="an earlier Job's of the name"),
        pytest.param(
            {LABEL: "g", JOB_UID: "uid-j"}, "", "g", JOB, "j", True, id="a pod its Job orphaned"
        ),
        pytest.param(
            {LABEL: "g", JOB_UID: "uid-j"}, "", "g", JOB, "k", False, id="and the next Job's group"
        ),
        pytest.param(OF_JOBSET, "s-w-0", "g", JOBSET, "s", True, id="a JobSet's"),
        pytest.param(OF_JOBSET, "s-w-0", "g", JOBSET, "t", False, id="another JobSet's"),
        pytest.param(OF_JOBSET, "s-w-0", "g", JOB, "s-w-0", True, id="a delegated Job's"),
        pytest.param(
            {LABEL: "g", JOBSET_NAME: "s"}, "s-w-0", "g", JOBSET, "s", True, id="a JobSet's by name"
        ),
        pytest.param(
            {LABEL: "g", JOBSET_NAME: "s"}, "s-w-0", "g", JOBSET, "t", False, id="another's by name"
        ),
        pytest.param({PLUGINS: "g"}, "", "", COSCHEDULING, "g", True, id="a KEP-3370 group's"),
        pytest.param({PLUGINS: "g"}, "", "", None, "", False, id="a user's instead of KEP-3370's"),
    ],
)
def test_whose_group_it_is(
    labels: dict[str, str], job: str, managed: str, kind: KindName | None, owner: str, want: bool
) -> None:
    feed = Feed()
    feed.pod("p", labels, job, managed)
    feed.group("g", kind, owner)

    assert feed.counted("g") == ({"p"} if want else set())


def test_two_forms_that_give_one_name_never_share_its_group() -> None:
    feed = Feed()
    by = {PREFIX + "workload": "w"}
    feed.pod("keyed", by | {PREFIX + "template": "job", PREFIX + "replica-key": "1"})
    feed.pod("own", by | {PREFIX + "template": "job-1"})

    feed.group("w-job-1", WORKLOAD, "w", "job-1")
    first = feed.counted("w-job-1")
    feed.groups.delete(("ns", "w-job-1"))
    feed.group("w-job-1", WORKLOAD, "w", "job")

    assert first == {"own"}
    assert feed.counted("w-job-1") == {"keyed"}


def test_held_pods_go_on_when_the_group_in_the_way_is_gone() -> None:
    feed = Feed()
    feed.pod("p", {LABEL: "g"}, job="a", managed="g")
    feed.group("g", None)
    held = feed.counted("g")
    feed.groups.delete(("ns", "g"))
    feed.group("g", JOB, "a")

    assert (held, feed.counted("g")) == (set(), {"p"})


def test_nothing_is_kept_of_pods_and_groups_that_are_gone() -> None:
    feed = Feed()
    feed.pod("p", {LABEL: "g"}, job="a", managed="g")
    feed.group("g", None)
    feed.pods.delete(("ns", "p"))
    feed.groups.delete(("ns", "g"))

    members = feed.pods._members
    assert not members._owners
    assert not members._strangers
    assert not members._named
    assert not feed.state.forest.groups


class Collision:
    """Jobs `a` and `b` whose pods name the group `g`, which belongs to `a`."""

    def __init__(self, node: str) -> None:
        self.feed = feed = Feed()
        self.come: dict[str, Event] = {
            "a": lambda: feed.pod("a", {LABEL: "g"}, job="a", managed="g", node=node),
            "b": lambda: feed.pod("b", {LABEL: "g"}, job="b", managed="g", node=node),
            "g": lambda: feed.group("g", JOB, "a"),
            "h": lambda: feed.group("h", JOB, "b", usual_name="g"),
        }

    def go(self, name: str) -> None:
        (self.feed.groups if name in "gh" else self.feed.pods).delete(("ns", name))

    def members(self, name: str) -> set[str]:
        known = self.feed.state.forest.groups.get(("PodGroup", "ns", name))
        return set() if known is None else set(known.members)

    def kept(self) -> list[object]:
        kept = self.feed.pods._members
        tables = (
            kept._owners,
            kept._strangers,
            kept._named,
            kept._substitutes,
            kept._other_names,
        )
        return [it for it in (*tables, self.feed.state.forest.groups) if it]


@pytest.mark.parametrize("node", ["", "n"])
def test_pods_find_the_group_that_stands_for_the_name_they_give_in_any_order(node: str) -> None:
    every = list(permutations("abgh"))
    for come, go in product(every, every[:: count(5, 1)]):
        collision = Collision(node)
        for name in come:
            collision.come[name]()
        assert (collision.members("g"), collision.members("h")) == ({"a"}, {"b"}), come

        left = set("abgh")
        for name in go:
            collision.go(name)
            left.remove(name)
            assert collision.members("h") == ({"b"} if {"b", "h"} <= left else set()), (come, go)
            assert "a" not in left or "a" in collision.members("g"), (come, go)
        assert collision.kept() == []


def test_only_a_group_that_was_made_for_somebody_stands_for_a_name() -> None:
    feed = Feed()
    feed.pod("p", {LABEL: "g"}, job="a", managed="g")
    feed.pod("user's", {LABEL: "g"})
    feed.group("h", None, usual_name="g")
    feed.group("g", JOB, "a")

    assert feed.counted("g") == {"p", "user's"}
    feed.group("i", JOB, "b", usual_name="g")
    assert feed.counted("g") == {"p", "user's"}, "what claims nobody is where its name says"


def test_no_group_stands_for_one_that_its_owner_has() -> None:
    """Any user may write this on a PodGroup in the namespace."""
    feed = Feed()
    feed.group("g", JOB, "a")
    feed.pod("a", {LABEL: "g"}, job="a", managed="g")
    feed.group("h", JOB, "a", usual_name="g")

    assert feed.counted("g") == {"a"}


def test_pods_that_left_for_their_own_group_hold_none_of_the_others() -> None:
    """Muster keeps back pods that exceed their group's size; these are not among them."""
    feed = Feed()
    feed.group("g", JOB, "a")
    for number in range(3):
        feed.pod(f"b{number}", {LABEL: "g"}, job="b", managed="g")
    feed.pod("a", {LABEL: "g"}, job="a", managed="g")
    feed.group("h", JOB, "b", usual_name="g")

    assert feed.counted("g") == {"a"}
    assert feed.counted("h") == {"b0", "b1", "b2"}


@pytest.mark.parametrize("first", ["pod", "group"])
@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_pods_of_an_earlier_owner_count_for_nothing(first: str, phase: str) -> None:
    """Succeeded ones remain for a moment after their Job and its group are deleted."""
    feed = Feed()
    feed.group("g", JOB, "first")
    feed.pod("old", {LABEL: "g"}, job="first", managed="g", node="n", phase=phase)
    assert feed.running("g") == 1

    feed.groups.delete(("ns", "g"))
    feed.group("g", JOB, "second")
    if first == "group":
        feed.pod("old", {LABEL: "g"}, job="first", managed="g", node="n", phase=phase)
    feed.pod("new", {LABEL: "g"}, job="second", managed="g", node="n")

    assert feed.running("g") == 1
    assert ("old" in feed.state.pods) == (phase == "Running"), "it still takes room"


def test_a_pod_that_runs_in_an_earlier_owner_s_group_comes_to_its_own() -> None:
    """An earlier version of Muster admitted it."""
    feed = Feed()
    feed.group("g", JOB, "first")
    feed.pod("p", {LABEL: "g"}, job="second", managed="g", node="n", phase="Running")
    assert feed.running("g") == 0

    feed.groups.delete(("ns", "g"))
    feed.group("g", JOB, "second")

    assert feed.running("g") == 1


BY_WORKLOAD = {PREFIX + "workload": "w", PREFIX + "template": "t"}


@pytest.mark.parametrize(
    ("labels", "group", "kind", "owner"),
    [
        pytest.param(BY_WORKLOAD, "w-t", WORKLOAD, "w", id="a Workload"),
        pytest.param({PLUGINS: "g"}, "g", COSCHEDULING, "g", id="a KEP-3370 group"),
    ],
)
def test_a_group_that_goes_takes_no_pods_that_know_its_owner_by_name(
    labels: dict[str, str], group: str, kind: KindName, owner: str
) -> None:
    feed = Feed()
    feed.group(group, kind, owner, "t")
    feed.pod("runs", labels, node="n", phase="Running")
    feed.pod("waits", labels)
    before = feed.counted(group)

    feed.group(group, kind, owner, "t", leaving=True)

    assert (before, feed.counted(group)) == ({"waits"}, set())
    assert feed.running(group) == 1


def test_a_group_that_goes_keeps_the_pods_of_its_own_job() -> None:
    feed = Feed()
    feed.pod("p", {LABEL: "g"}, job="j", managed="g")

    feed.group("g", JOB, "j", leaving=True)

    assert feed.counted("g") == {"p"}


@pytest.mark.parametrize(
    ("named", "other", "template", "kind"),
    [
        pytest.param(
            {PREFIX + "workload": "a", PREFIX + "template": "b-c"},
            {PREFIX + "workload": "a-b", PREFIX + "template": "c"},
            "b-c",
            WORKLOAD,
            id="by Workload and template",
        ),
        pytest.param(
            {PREFIX + "workload": "a", PREFIX + "template": "b", PREFIX + "replica-key": "c"},
            {PREFIX + "workload": "a-b", PREFIX + "template": "c"},
            "b",
            WORKLOAD,
            id="by replica key",
        ),
        pytest.param(
            {PLUGINS: "a", PREFIX + "subset": "b-c"},
            {PLUGINS: "a-b", PREFIX + "subset": "c"},
            "b-c",
            COSCHEDULING,
            id="by subset",
        ),
    ],
)
def test_a_group_that_an_earlier_version_named_keeps_its_pods_in_any_order(
    named: dict[str, str], other: dict[str, str], template: str, kind: KindName
) -> None:
    for order in permutations(range(4)):
        feed = Feed()
        events: tuple[Event, ...] = (
            lambda feed=feed: feed.pod("runs", named, node="n", phase="Running"),  # type: ignore[misc]
            lambda feed=feed: feed.pod("waits", named),  # type: ignore[misc]
            lambda feed=feed: feed.pod("another", other),  # type: ignore[misc]
            lambda feed=feed: feed.group("a-b-c", kind, "a", template),  # type: ignore[misc]
        )
        for number in order:
            events[number]()

        assert feed.counted("a-b-c") == {"waits"}, order
        assert feed.running("a-b-c") == 1, order
        members = feed.state.forest.groups["PodGroup", "ns", "a-b-c"].members
        assert members.keys() == {"runs", "waits"}

        feed.group("a-b-c", kind, "a", template, leaving=True)
        assert (feed.counted("a-b-c"), feed.running("a-b-c")) == (set(), 1)
        feed.groups.delete(("ns", "a-b-c"))
        feed.pods.delete(("ns", "runs"))
        feed.pods.delete(("ns", "waits"))
        assert ("PodGroup", "ns", "a-b-c") not in feed.state.forest.groups


def test_pods_of_both_versions_are_in_the_group_of_a_jobset_in_any_order() -> None:
    """During an upgrade, webhooks of 0.2 name it `g`, and those of this version `g-hash`."""
    for order in permutations(range(4)):
        feed = Feed()
        hashed = OF_JOBSET | {LABEL: "g-hash"}
        other = OF_JOBSET | {JOBSET_UID: "uid-other"}
        events: tuple[Event, ...] = (
            lambda feed=feed: feed.pod("plain", OF_JOBSET, "j", "g"),  # type: ignore[misc]
            lambda feed=feed, pod=hashed: feed.pod("hashed", pod, "j", "g-hash"),  # type: ignore[misc]
            lambda feed=feed, pod=other: feed.pod("other", pod, "k", "g"),  # type: ignore[misc]
            lambda feed=feed: feed.group("g-hash", JOBSET, "s", plain_name="g"),  # type: ignore[misc]
        )
        for number in order:
            events[number]()

        assert feed.counted("g-hash") == {"plain", "hashed"}, order


def test_a_group_whose_label_changes_gives_up_the_pods_of_the_earlier_one() -> None:
    """A user may write any replica key on a group."""
    feed = Feed()
    labels = {PREFIX + "workload": "a", PREFIX + "template": "b", PREFIX + "replica-key": "c"}
    feed.pod("runs", labels, node="n", phase="Running")
    feed.group("a-b-c", WORKLOAD, "a", "b")
    assert feed.running("a-b-c") == 1

    feed.group("a-b-c", WORKLOAD, "a", "b", labels={PREFIX + "replica-key": "other"})
    assert feed.running("a-b-c") == 0
    feed.groups.delete(("ns", "a-b-c"))
    feed.group("a-b-c", WORKLOAD, "a", "b")

    assert feed.running("a-b-c") == 1
