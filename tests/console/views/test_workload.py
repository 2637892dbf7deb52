"""One workload: tree, states, conditions, timeline, search, and infeasible nodes."""

from dataclasses import replace

import pytest

from api.constants import NATIVE_POD_GROUP
from console.base.messages import Branch, Workload
from console.base.protocols import RefusedError, Viewer
from console.views import workload as view
from console.views.why_not import why
from scheduler.core.values.model import GroupKey, GroupSpec, HostPort, Requirements, Taint
from tests.console.cluster_builder import ALL, BLOCK, RACK, Builder, blocker
from tests.scheduler.state_builder import requests


def shown(cluster: Builder, id_: str) -> Workload:
    following = cluster.refresh()
    return view.complete_view(
        following.cluster, view.find(following.cluster, id_, ALL), "kind: Job\n"
    )


def parts(branch: Branch) -> list[tuple[str, str]]:
    return [(branch.name, branch.state), *(each for c in branch.children for each in parts(c))]


@pytest.fixture
def jobset() -> Builder:
    """Return a JobSet of two groups below a composite: `a` runs, `b` is pending."""
    cluster = Builder()
    cluster.nodes(2, cpu=2)
    cluster.composite("root", 2)
    for name in ("a", "b"):
        cluster.gang(name, 2, parent="root")
        cluster.says(("PodGroup", "ns", name), owner=("JobSet", "train"))
    cluster.says(("CompositePodGroup", "ns", "root"), owner=("JobSet", "train"))
    for number in range(2):
        cluster.pod("a", 2, name=f"a-{number}", node=f"n{number}")
        cluster.pod("b", 2, name=f"b-{number}")
    return cluster


def test_an_owner_has_its_groups_below_it(jobset: Builder) -> None:
    found = shown(jobset, "ns/JobSet/train")

    assert (found.id, found.tree.kind, found.tree.name) == ("ns/JobSet/train", "JobSet", "train")
    assert parts(found.tree) == [
        ("train", "Waiting"), ("root", "Waiting"), ("a", "Running"), ("b", "Waiting"),
    ]  # fmt: skip
    counts = found.tree.counts
    assert (counts.pods, counts.bound, counts.running, counts.minimum) == (4, 2, 2, 4)
    (root,) = found.tree.children
    assert [(pod.name, pod.node, pod.state) for pod in root.children[0].pods] == [
        ("a-0", "n0", "Running"), ("a-1", "n1", "Running"),
    ]  # fmt: skip
    assert found.yaml == "kind: Job\n"


def test_a_train_job_is_its_jobset(jobset: Builder) -> None:
    assert shown(jobset, "ns/TrainJob/train").tree.counts.pods == 4


def test_an_empty_native_group_does_not_count_next_to_musters() -> None:
    """The Job controller creates it; the Job has the annotation that asks for Muster's."""
    cluster = Builder()
    cluster.nodes(1, cpu=1)
    cluster.gang("pg-job-j", 1)
    native: GroupKey = (NATIVE_POD_GROUP.full_kind, "ns", "j-abc")
    cluster.state.set_group(GroupSpec(native, 3))
    for key in (("PodGroup", "ns", "pg-job-j"), native):
        cluster.says(key, owner=("Job", "j"))
    cluster.pod("pg-job-j", 1, name="j-0", node="n0")

    found = shown(cluster, "ns/Job/j").tree

    assert (found.state, found.counts.minimum, len(found.children)) == ("Running", 1, 2)


def test_a_group_of_another_scheduler_is_in_no_queue_of_musters() -> None:
    cluster = Builder()
    cluster.nodes(2, cpu=1)
    key: GroupKey = (NATIVE_POD_GROUP.full_kind, "ns", "g")
    cluster.state.set_group(GroupSpec(key, 2, shared=True))
    info = cluster.pod(None, node="n0", ours=False)
    cluster.state.set_pod(replace(info, uid="other", name="o", group="g", group_kind=key[0]))

    tree = shown(cluster, "/".join((key[1], key[0], key[2]))).tree

    assert (tree.state, list(cluster.following.queue)) == ("Other scheduler", [])


def test_groups_and_pods_can_be_asked_for_too(jobset: Builder) -> None:
    assert shown(jobset, "ns/PodGroup/b").tree.counts.pods == 2
    assert shown(jobset, "ns/CompositePodGroup/root").tree.kind == "CompositePodGroup"
    (pod,) = shown(jobset, "ns/Pod/a-1").tree.pods
    assert (pod.node, pod.state) == ("n1", "Running")


@pytest.mark.parametrize(
    "id_",
    ["", "ns", "ns/Job", "ns/Job/", "/Job/x", "ns/Job/none", "ns/PodGroup/none", "ns/Pod/none",
     "ns/PodGroup/../..", "other/JobSet/train", "x" * 5000],
)  # fmt: skip
def test_what_is_not_there_is_refused(jobset: Builder, id_: str) -> None:
    with pytest.raises(RefusedError) as raised:
        shown(jobset, id_)

    assert raised.value.status == 404


def test_what_may_not_be_seen_is_refused_like_what_is_not_there(jobset: Builder) -> None:
    viewer = Viewer("b", "two", namespaces=frozenset({"b"}))
    cluster = jobset.refresh().cluster
    with pytest.raises(RefusedError) as hidden:
        view.find(cluster, "ns/JobSet/train", viewer)
    with pytest.raises(RefusedError) as missing:
        view.find(cluster, "b/JobSet/none", viewer)

    assert (hidden.value.status, hidden.value.message) == (
        missing.value.status, missing.value.message,
    )  # fmt: skip


def test_pods_light_up_where_they_are(jobset: Builder) -> None:
    cluster = jobset.refresh().cluster
    found = view.pods_on_nodes(view.find(cluster, "ns/JobSet/train", ALL))

    assert [(each.node, each.pods) for each in found] == [("n0", 1), ("n1", 1)]


def test_an_owner_is_forgotten_with_its_groups(jobset: Builder) -> None:
    observed = jobset.cluster.observed
    for key in list(observed):
        observed.pop(key, None)

    assert observed.owned == {}
    with pytest.raises(RefusedError):
        shown(jobset, "ns/JobSet/train")


def test_conditions_are_as_the_object_has_them_and_what_is_none_is_left_out() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    good = {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "needs room",
        "lastTransitionTime": "2026-11-23T12:00:00Z",
    }
    hostile = [good, {}, 5, None, {"type": 7}, {"type": "x", "message": ["y"]}]
    cluster.says(("PodGroup", "ns", "g"), conditions=hostile)

    (condition,) = shown(cluster, "ns/PodGroup/g").conditions

    assert condition.message == "needs room"
    assert condition.last_transition_time == "2026-11-23T12:00:00Z"
    others: list[object] = [{}, "text", 3]
    for other in others:
        cluster.says(("PodGroup", "ns", "g"), conditions=other)
        assert shown(cluster, "ns/PodGroup/g").conditions == []


def test_the_time_line_is_what_objects_and_the_console_know() -> None:
    cluster = Builder()
    cluster.nodes(1, cpu=2)
    cluster.gang("g", 2, created="2026-11-23T12:00:00Z")
    cluster.refresh()
    members = [replace(cluster.pod("g"), created=f"2026-11-23T12:00:0{n}Z") for n in (1, 2)]
    for info in members:
        cluster.state.set_pod(info)
    cluster.says(("PodGroup", "ns", "g"), blocker=blocker("no room", since="2026-11-23T12:00:03Z"))
    cluster.time = 1_795_435_204.0  # 12:00:04
    cluster.refresh()
    for info in members:
        cluster.state.set_pod(replace(info, node="n0", phase="Running", started=1_795_435_206.0))
    cluster.says(
        ("PodGroup", "ns", "g"),
        conditions=[
            {
                "type": "PodGroupInitiallyScheduled",
                "status": "True",
                "reason": "Scheduled",
                "message": "minCount pods are scheduled.",
                "lastTransitionTime": "2026-11-23T12:00:05Z",
            }
        ],
    )
    cluster.time = 1_795_435_205.0

    found = shown(cluster, "ns/PodGroup/g").timeline

    assert [event.event for event in found] == [
        *("Created", "First pod", "Last pod", "Quorum", "Unschedulable"),
        *("Scheduled", "Bound", "Started", "All started"),
    ]  # fmt: skip
    assert found[0].sentence == "PodGroup g with minCount 2"
    assert found[3].sentence == "2 of 2 pods exist; minCount is 2"
    assert found[4].sentence == "no room"
    assert [event.at for event in found] == sorted(event.at for event in found)


def test_times_after_the_year_9999_break_nothing() -> None:
    cluster = Builder()
    info = cluster.pod(name="p", node="n0")
    cluster.state.set_pod(replace(info, started=1e12))
    cluster.nodes(1)

    (pod,) = shown(cluster, "ns/Pod/p").tree.pods

    assert pod.since == info.created


def reasons(cluster: Builder, id_: str, node: str) -> tuple[bool, list[str]]:
    seen = cluster.refresh().cluster
    found = why(seen, view.find(seen, id_, ALL), node)
    assert found.node == node
    return found.fits, found.reasons


def test_a_node_that_lacks_a_resource_says_how_much() -> None:
    cluster = Builder()
    cluster.node("n0", cpu=4)
    cluster.node("n1", cpu=16)
    cluster.pod(node="n0", cpu=3)
    cluster.pod(name="p", requirements=Requirements(requests(8, memory=1 << 30)))

    assert reasons(cluster, "ns/Pod/p", "n0") == (False, ["Insufficient cpu: 8 requested, 1 free"])
    assert reasons(cluster, "ns/Pod/p", "n1") == (True, [])


def test_taints_and_ports_are_named_in_kube_schedulers_words() -> None:
    cluster = Builder()
    cluster.node("tainted", taints=(Taint("team", "a", "NoSchedule"),))
    cluster.node("taken")
    ports = Requirements(requests(1), ports=(HostPort("TCP", 80),))
    cluster.pod(node="taken", requirements=ports)
    cluster.pod(name="p", requirements=ports)

    fits, tainted = reasons(cluster, "ns/Pod/p", "tainted")
    assert not fits
    assert tainted == ["node(s) had untolerated taint {team: a}"]
    fits, taken = reasons(cluster, "ns/Pod/p", "taken")
    assert (fits, len(taken)) == (False, 1)
    assert "ports" in taken[0]


def test_room_that_is_nominated_for_others_is_not_there() -> None:
    cluster = Builder()
    cluster.node("n0", cpu=4)
    cluster.gang("first", 1, priority=9)
    cluster.state.set_pod(replace(cluster.pod("first", 4), nominated="n0"))
    cluster.pod(name="p", cpu=1)

    fits, found = reasons(cluster, "ns/Pod/p", "n0")

    assert not fits
    assert found == ["its free capacity is nominated for pods of the same or a higher priority"]


def test_a_gang_that_needs_one_domain_says_what_that_domain_has_room_for() -> None:
    cluster = Builder()
    cluster.racks(blocks=1, racks=2, nodes=2, cpu=4)
    cluster.gang("g", 10, rack=True, key=RACK)
    cluster.pods("g", 10)

    fits, found = reasons(cluster, "ns/PodGroup/g", "n-1-1-1")

    assert fits
    assert found == [f"{RACK}=r1 has capacity for 8 of the 10 pods that need one domain"]
    cluster.node("elsewhere", labels={BLOCK: "b1"})
    _, found = reasons(cluster, "ns/PodGroup/g", "elsewhere")
    assert found == [f"it is in no domain of {RACK}, and 10 pods must be in one"]


def test_several_kinds_of_pods_are_told_apart() -> None:
    cluster = Builder()
    cluster.node("n0", cpu=4)
    cluster.gang("g", 2)
    cluster.pod("g", 1, name="small")
    cluster.pod("g", 9, name="large")

    assert reasons(cluster, "ns/PodGroup/g", "n0") == (
        True, ["large: Insufficient cpu: 9 requested, 4 free"],
    )  # fmt: skip


def test_unknown_nodes_and_groups_without_pods_are_refused() -> None:
    cluster = Builder()
    cluster.node("n0")
    cluster.gang("empty", 1)
    cluster.pod(name="p")
    for id_, node in (("ns/Pod/p", "nope"), ("ns/Pod/p", ""), ("ns/PodGroup/empty", "n0")):
        with pytest.raises(RefusedError) as raised:
            reasons(cluster, id_, node)
        assert raised.value.status == 404
