"""Groups that pods ask for by annotations."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MADE_FOR,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PODS_DIFFER,
    ANNOTATION_PREFERRED_TOPOLOGY,
    FINALIZER_POD_GROUP,
)
from api.names import pod_group_of_value
from controllers.groups_from_pods import IDLE_ALONE_SECONDS, IDLE_SECONDS
from controllers.owner_chain import MOST_CONTROLLERS
from kube.errors import Forbidden
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import PodBuilder, make_pod

Json = dict[str, Any]
Owner = tuple[str, str, str]
"""API version, kind, name; the UID is `uid-NAME`."""

SET: Owner = ("apps/v1", "StatefulSet", "db")
MPI: Owner = ("kubeflow.org/v2beta1", "MPIJob", "mpi")
_LAG = 6.0


def asking(name: str, group: str = "g", count: str = "4") -> PodBuilder:
    return make_pod(name).in_group(group).annotation(ANNOTATION_MIN_COUNT, count)


def owned(builder: PodBuilder, owner: Owner) -> PodBuilder:
    version, kind, name = owner
    return builder.owned_by(kind, name, f"uid-{name}", version)


def submit(harness: ControllerHarness, *builders: PodBuilder) -> None:
    for builder in builders:
        harness.api.put(builder.build() | {"kind": "Pod"})


def existing(harness: ControllerHarness, owner: Owner, above: Owner | None = None) -> None:
    version, kind, name = owner
    meta: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if above is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": above[0],
                "kind": above[1],
                "name": above[2],
                "uid": f"uid-{above[2]}",
                "controller": True,
            }
        ]
    harness.api.put({"apiVersion": version, "kind": kind, "metadata": meta})


def group(harness: ControllerHarness, name: str = "g") -> Json:
    found: Json = harness.api.objects["PodGroup", "default", name]
    return found


def owner_of(harness: ControllerHarness, name: str = "g") -> tuple[str, str] | None:
    found = group(harness, name)["metadata"].get("ownerReferences", [])
    return next(((it["kind"], it["uid"]) for it in found if it.get("controller")), None)


def minimum(harness: ControllerHarness, name: str = "g") -> int:
    found: int = group(harness, name)["spec"]["schedulingPolicy"]["gang"]["minCount"]
    return found


async def test_the_first_pod_makes_the_group_as_it_says(harness: ControllerHarness) -> None:
    pods = [
        asking(f"p-{at}")
        .annotation(ANNOTATION_PREFERRED_TOPOLOGY, "rack")
        .annotation(ANNOTATION_DISRUPTION_MODE, "All")
        .priority_class("high")
        for at in range(4)
    ]
    submit(harness, *pods)

    await harness.settle()

    assert harness.api.writes == [("create", "PodGroup", "g")]
    made = group(harness)
    assert made["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "rack", "preferred": True}]},
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
    }
    assert made["metadata"]["finalizers"] == [FINALIZER_POD_GROUP]
    assert made["metadata"]["annotations"] == {ANNOTATION_MADE_FOR: "/Pod/g/"}
    assert "ownerReferences" not in made["metadata"]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("p").in_group("g"),
        make_pod("p").annotation(ANNOTATION_MIN_COUNT, "2"),
        asking("p").scheduler("default-scheduler"),
        asking("p").phase("Succeeded"),
        asking("p").phase("Failed"),
        asking("p", count="none"),
        asking("p").annotation("scheduling.muster.dev/managed-group", "g"),
    ],
    ids=[
        "no min-count",
        "no group",
        "another scheduler's",
        "succeeded",
        "failed",
        "a wrong value",
        "admission named its group",
    ],
)
async def test_other_pods_make_none(harness: ControllerHarness, pod: PodBuilder) -> None:
    submit(harness, pod)

    await harness.settle()

    assert harness.api.writes == []


async def test_each_value_of_a_label_is_a_group(harness: ControllerHarness) -> None:
    submit(
        harness,
        *(
            asking(f"p-{at}").annotation(ANNOTATION_GROUP_BY, "index").label("index", str(at % 2))
            for at in range(4)
        ),
    )

    await harness.settle()

    wanted = [pod_group_of_value("g", "index", value) for value in ("0", "1")]
    assert harness.api.names("PodGroup") == sorted(wanted)
    assert len(harness.api.writes) == 2


async def test_a_thousand_pods_of_a_group_cost_one_write_and_hardly_any_look(
    harness: ControllerHarness,
) -> None:
    existing(harness, SET)
    submit(harness, *(owned(asking(f"p-{at}"), SET) for at in range(500)))
    await harness.settle()
    looked = harness.from_pods.controller.queue
    submit(harness, *(owned(asking(f"q-{at}"), SET) for at in range(500)))

    assert len(looked) == 0
    await harness.settle(seconds=_LAG)
    assert harness.api.writes == [("create", "PodGroup", "g")]
    assert len(harness.api.reads) == 2  # the kind, and the owner


async def test_the_owner_is_the_highest_that_is_no_pod(harness: ControllerHarness) -> None:
    # As LeaderWorkerSet has it: a worker's StatefulSet belongs to the leader's pod.
    lws = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws")
    leaders, workers = ("apps/v1", "StatefulSet", "leaders"), ("apps/v1", "StatefulSet", "workers")
    existing(harness, lws)
    existing(harness, leaders, lws)
    leader = owned(asking("leader"), leaders).build()
    leader["metadata"]["uid"] = "uid-leader"
    existing(harness, workers, ("v1", "Pod", "leader"))
    harness.api.put(leader | {"kind": "Pod"})
    submit(harness, owned(asking("worker"), workers))

    await harness.settle()

    assert owner_of(harness) == ("LeaderWorkerSet", "uid-lws")
    (reference,) = group(harness)["metadata"]["ownerReferences"]
    assert "blockOwnerDeletion" not in reference  # it would need rights over every kind


async def test_what_two_kinds_of_pods_have_in_common_is_the_owner(
    harness: ControllerHarness,
) -> None:
    launcher = ("batch/v1", "Job", "mpi-launcher")
    existing(harness, MPI)
    submit(harness, owned(asking("worker"), MPI))
    await harness.settle()
    job = {"name": "mpi-launcher", "namespace": "default", "uid": "uid-mpi-launcher"}
    job["ownerReferences"] = [  # type: ignore[assignment]
        {"apiVersion": MPI[0], "kind": MPI[1], "name": "mpi", "uid": "uid-mpi", "controller": True}
    ]
    harness.api.put({"kind": "Job", "metadata": job, "spec": {}})
    submit(harness, owned(asking("launcher"), launcher))
    await harness.settle(seconds=_LAG)

    assert owner_of(harness) == ("MPIJob", "uid-mpi")
    assert harness.api.writes == [("create", "PodGroup", "g")]


@pytest.mark.parametrize("other", [None, ("apps/v1", "StatefulSet", "other")])
async def test_pods_that_have_nothing_in_common_own_the_group_themselves(
    harness: ControllerHarness, other: Owner | None
) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    assert owner_of(harness) == ("StatefulSet", "uid-db")

    if other is not None:
        existing(harness, other)
    submit(harness, asking("q") if other is None else owned(asking("q"), other))
    await harness.settle(seconds=_LAG)
    assert owner_of(harness) is None

    harness.api.remove("Pod", "default", "q")
    await harness.settle(seconds=_LAG)
    assert owner_of(harness) == ("StatefulSet", "uid-db")


async def test_without_rights_it_is_the_direct_owner(harness: ControllerHarness) -> None:
    harness.api.forbidden.add("/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/mpi")
    existing(harness, MPI, SET)
    submit(harness, owned(asking("p"), MPI))

    await harness.settle()

    assert owner_of(harness) == ("MPIJob", "uid-mpi")


async def test_an_owner_that_cannot_be_read_now_holds_nothing_up(
    harness: ControllerHarness,
) -> None:
    path = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/mpi"
    harness.api.broken.add(path)
    existing(harness, MPI, SET)
    existing(harness, SET)
    submit(harness, owned(asking("p"), MPI))
    await harness.settle()
    assert owner_of(harness) == ("MPIJob", "uid-mpi")

    harness.api.broken.clear()
    await harness.settle(seconds=31)
    assert owner_of(harness) == ("StatefulSet", "uid-db")


@pytest.mark.parametrize(
    "forged",
    [
        ("apps/v1", "StatefulSet", "absent"),
        ("apps/v1", "Nonsense", "x"),
        ("nowhere.example/v1", "Thing", "x"),
        ("../../x", "Thing", "x"),
        ("apps/v1", "StatefulSet", ".."),
        ("apps/v1", "StatefulSet", "a/b"),
        ("scheduling.muster.dev/v1alpha3", "PodGroup", "g"),
    ],
)
async def test_a_forged_owner_is_none(harness: ControllerHarness, forged: Owner) -> None:
    submit(harness, owned(asking("p"), forged))

    await harness.settle()

    assert owner_of(harness) is None
    assert not any(".." in path for path in harness.api.reads)


async def test_an_earlier_owner_of_the_name_is_not_taken_for_the_present_one(
    harness: ControllerHarness,
) -> None:
    existing(harness, SET)
    submit(harness, asking("p").owned_by("StatefulSet", "db", "uid-before", "apps/v1"))

    await harness.settle()

    assert owner_of(harness) is None


async def test_a_chain_in_a_ring_ends(harness: ControllerHarness) -> None:
    existing(harness, SET, MPI)
    existing(harness, MPI, SET)
    submit(harness, owned(asking("p"), SET))

    await harness.settle()

    assert len(harness.api.reads) == 4  # each kind and each object once


async def test_more_owners_than_are_looked_at_cost_no_look(harness: ControllerHarness) -> None:
    many = [("apps/v1", "StatefulSet", f"s-{at}") for at in range(MOST_CONTROLLERS + 1)]
    submit(harness, *(owned(asking(f"p-{it[2]}"), it) for it in many))

    await harness.settle()

    assert harness.api.reads == []
    assert owner_of(harness) is None


async def test_it_goes_with_its_owner_and_not_before_its_pods(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET).bound_to("n"))
    await harness.settle()

    harness.api.remove("StatefulSet", "default", "db")
    await harness.settle(seconds=_LAG)

    assert harness.api.names("Pod", "PodGroup") == []


@pytest.mark.parametrize("alone", [True, False])
async def test_it_goes_with_its_last_pod_after_a_while(
    harness: ControllerHarness, alone: bool
) -> None:
    existing(harness, SET)
    submit(harness, asking("p") if alone else owned(asking("p"), SET))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    stays = IDLE_ALONE_SECONDS if alone else IDLE_SECONDS

    await harness.settle(seconds=0.6)
    await harness.settle(seconds=stays - 1)
    assert harness.api.names("PodGroup") == ["g"]
    await harness.settle(seconds=1.5)

    assert harness.api.names("PodGroup") == []


async def test_it_stays_where_pods_are_made_again(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS - 10)
    submit(harness, owned(asking("p"), SET))
    await harness.settle(seconds=1)
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS - 10)

    assert harness.api.names("PodGroup") == ["g"]
    assert harness.api.writes == [("create", "PodGroup", "g")]


async def test_pods_that_say_nothing_keep_it_too(harness: ControllerHarness) -> None:
    submit(harness, asking("p"), make_pod("q").in_group("g"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS)
    assert harness.api.names("PodGroup") == ["g"]

    harness.api.remove("Pod", "default", "q")
    await harness.settle(seconds=1)
    await harness.settle(seconds=IDLE_ALONE_SECONDS)
    assert harness.api.names("PodGroup") == []


async def test_a_rolling_update_changes_the_minimum_with_the_last_pod_of_before(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p-0"), asking("p-1"))
    await harness.settle()

    submit(harness, asking("q-0", count="6"))
    await harness.settle(seconds=1)
    assert minimum(harness) == 4
    assert "min-count 6" in group(harness)["metadata"]["annotations"][ANNOTATION_PODS_DIFFER]
    assert harness.recorded.events == [
        ("PodGroup", "g", "PodsDiffer"),
        ("Pod", "q-0", "PodsDiffer"),
    ]

    harness.api.remove("Pod", "default", "p-0")
    submit(harness, asking("q-1", count="6"))
    await harness.settle(seconds=1)
    assert minimum(harness) == 4
    harness.api.remove("Pod", "default", "p-1")
    await harness.settle(seconds=1)

    assert minimum(harness) == 6
    assert ANNOTATION_PODS_DIFFER not in group(harness)["metadata"]["annotations"]
    assert len(harness.recorded.events) == 2


async def test_what_cannot_change_is_said_and_not_written(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    submit(harness, asking("q").annotation(ANNOTATION_PREFERRED_TOPOLOGY, "rack"))
    await harness.settle(seconds=1)

    assert "schedulingConstraints" not in group(harness)["spec"]
    said = group(harness)["metadata"]["annotations"][ANNOTATION_PODS_DIFFER]
    assert said.startswith("pods say topology rack (preferred), and the group has none: delete")
    assert harness.recorded.messages[0] == said


async def test_many_different_pods_are_looked_at_together(harness: ControllerHarness) -> None:
    submit(harness, asking("p", count="1"))
    await harness.settle(seconds=_LAG)
    before = len(harness.api.writes)
    submit(harness, *(asking(f"p-{at}", count=str(at)) for at in range(1, 500)))

    await harness.settle(seconds=1)

    assert len(harness.api.writes) == before + 1
    said = group(harness)["metadata"]["annotations"][ANNOTATION_PODS_DIFFER]
    assert "and 494 more" in said
    assert len(harness.recorded.events) == 2


async def test_a_group_of_others_is_never_touched(harness: ControllerHarness) -> None:
    gang = {"gang": {"minCount": 3}}
    meta = {"name": "g", "namespace": "default"}
    harness.api.put({"kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": gang}})
    submit(harness, asking("p", count="3"))
    await harness.settle(seconds=1)
    assert harness.recorded.events == []

    submit(harness, asking("q"))
    await harness.settle(seconds=1)
    assert harness.api.writes == []
    assert harness.recorded.events == [("Pod", "q", "PodsDiffer")]

    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    assert harness.api.writes[0] == ("create", "PodGroup", "g")


async def test_one_deleted_by_hand_is_made_again_where_no_pod_has_a_node(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    before = group(harness)["metadata"]["uid"]

    harness.api.remove("PodGroup", "default", "g")
    await harness.settle(seconds=_LAG)

    assert group(harness)["metadata"]["uid"] != before


async def test_one_deleted_by_hand_is_kept_for_running_pods_and_made_again_then(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p").bound_to("n"), asking("q"))
    await harness.settle()
    before = group(harness)["metadata"]["uid"]
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle(seconds=_LAG)
    assert group(harness)["metadata"]["uid"] == before

    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=_LAG)

    assert group(harness)["metadata"]["uid"] != before


async def test_a_group_that_is_refused_is_said_on_a_pod_once_and_tried_again(
    harness: ControllerHarness,
) -> None:
    harness.api.fail_next = [Forbidden(403, "Forbidden", "no such class")]
    submit(harness, asking("p"), asking("q"))
    await harness.settle()
    assert harness.recorded.events == [("Pod", "p", "GroupNotMade")]
    assert "no such class" in harness.recorded.messages[0]

    harness.api.fail_next = [Forbidden(403, "Forbidden", "no such class")]
    await harness.settle(seconds=61)
    assert len(harness.recorded.events) == 1

    await harness.settle(seconds=61)
    assert harness.api.names("PodGroup") == ["g"]


async def test_nothing_is_made_in_a_namespace_that_goes(harness: ControllerHarness) -> None:
    meta = {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    harness.api.put({"kind": "Namespace", "metadata": meta})
    submit(harness, asking("p"))

    await harness.settle()

    assert harness.api.writes == []


async def test_a_slow_watch_makes_no_second_one(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    harness.api.pause_events()
    await harness.settle()
    harness.from_pods.controller.queue.add(("default", "g"))
    await harness.settle()
    assert harness.api.writes == [("create", "PodGroup", "g")]

    harness.api.resume_events()
    await harness.settle(seconds=_LAG)
    assert harness.api.writes == [("create", "PodGroup", "g")]


async def test_two_that_lead_for_a_moment_make_one(harness: ControllerHarness) -> None:
    other = ControllerHarness()
    other.api.objects = harness.api.objects
    submit(harness, asking("p"))
    submit(other, asking("p"))

    await other.settle()
    await harness.settle()
    harness.api.relist()
    await harness.settle(seconds=_LAG)

    assert harness.api.names("PodGroup") == ["g"]
    assert [it for it in harness.api.writes if it[0] != "create"] == []
    other.close()


async def test_a_new_leader_takes_up_what_is_there(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    later = ControllerHarness()
    later.api.objects = harness.api.objects
    later.api.relist()

    await later.from_pods.resync()
    await later.settle()
    await later.settle(seconds=IDLE_ALONE_SECONDS + 1)

    assert later.api.names("PodGroup") == []
    later.close()


async def test_where_none_are_made_those_that_are_there_still_follow_and_go(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    harness.from_pods._makes = False
    submit(harness, asking("other", "other"), asking("p", count="2"))
    await harness.settle(seconds=1)
    assert harness.api.names("PodGroup") == ["g"]
    assert minimum(harness) == 2

    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=1)
    await harness.settle(seconds=IDLE_ALONE_SECONDS)
    assert harness.api.names("PodGroup") == []


async def test_pods_that_an_owner_adopts_bring_it(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, asking("p"))
    await harness.settle()
    assert owner_of(harness) is None

    submit(harness, owned(asking("p"), SET))
    await harness.settle(seconds=1)

    assert owner_of(harness) == ("StatefulSet", "uid-db")


async def test_references_of_others_stay(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    found = group(harness)
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "uid-c"}
    found["metadata"]["ownerReferences"].insert(0, theirs)
    harness.api.put(found)

    submit(harness, asking("q"))
    await harness.settle(seconds=1)

    assert group(harness)["metadata"]["ownerReferences"] == [theirs]
