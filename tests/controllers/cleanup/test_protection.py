"""Finalizers are removed from the leaves up, once no pod uses a group, and never by hand."""

import sys
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    JOBSET,
    JOBSET_LABEL_UID,
    LABEL_COSCHEDULING,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    finalizer_of,
)
from kube.base.errors import Invalid, KubeError, ServerError
from tests.controllers.asking import asking
from tests.controllers.conftest import ControllerHarness
from tests.support.apps import admitted, deployment
from tests.support.builders import make_pod
from tests.support.owners import job_template, made_for, make_job, make_jobset

Json = dict[str, Any]


def group(kind: str, name: str, parent: str = "", *extra: str) -> Json:
    finalizers = [*extra, finalizer_of(kind)]
    spec = {"parentCompositePodGroupName": parent} if parent else {}
    metadata = {"name": name, "namespace": "default", "finalizers": finalizers}
    return {"kind": kind, "metadata": metadata, "spec": spec}


def leaf(name: str, parent: str = "", *extra: str) -> Json:
    return group("PodGroup", name, parent, *extra)


def composite(name: str, parent: str = "") -> Json:
    return group("CompositePodGroup", name, parent)


def pod(name: str, groups: str, phase: str = "Running") -> Json:
    return make_pod(name).in_group(groups).phase(phase).build() | {"kind": "Pod"}


def left(harness: ControllerHarness) -> list[str]:
    return harness.api.names("PodGroup", "CompositePodGroup")


async def test_a_group_is_held_by_its_pods(harness: ControllerHarness) -> None:
    harness.api.put(leaf("g"))
    harness.api.put(pod("p", "g"))

    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    assert left(harness) == ["g"]

    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    assert left(harness) == []


WORKLOAD_LABELS = {LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t"}


@pytest.mark.parametrize(
    ("name", "labels", "node", "want"),
    [
        pytest.param("w-t", WORKLOAD_LABELS, "", [], id="by Workload and template, waiting"),
        pytest.param("w-t", WORKLOAD_LABELS, "n", ["w-t"], id="by Workload and template, running"),
        pytest.param("g", {LABEL_COSCHEDULING: "g"}, "", [], id="of KEP-3370, waiting"),
    ],
)
async def test_pods_that_wait_for_another_group_of_the_name_hold_nothing(
    harness: ControllerHarness, name: str, labels: dict[str, str], node: str, want: list[str]
) -> None:
    """A user created the group; the scheduler keeps such pods pending until it is deleted."""
    harness.api.put(leaf(name))
    builder = make_pod("p").phase("Pending")
    for key, value in labels.items():
        builder = builder.label(key, value)
    harness.api.put((builder.bound_to(node) if node else builder).build() | {"kind": "Pod"})

    harness.api.remove("PodGroup", "default", name)
    await harness.settle()

    assert left(harness) == want


async def test_pods_of_other_schedulers_hold_nothing_by_their_own_words(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf("g"))
    theirs = make_pod("p").scheduler("default-scheduler").label(LABEL_COSCHEDULING, "g").build()
    theirs["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    harness.api.put(theirs | {"kind": "Pod"})

    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()

    assert left(harness) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pods_hold_nothing(harness: ControllerHarness, phase: str) -> None:
    harness.api.put(leaf("g"))
    harness.api.put(pod("p", "g"))
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()

    harness.api.put(pod("p", "g", phase))
    await harness.settle()

    assert left(harness) == []


async def test_a_living_group_keeps_its_finalizer(harness: ControllerHarness) -> None:
    harness.api.put(leaf("g"))

    await harness.settle()

    assert harness.api.writes == []


def start_job(harness: ControllerHarness, jobset: str, pods: str) -> None:
    """Create the objects of the JobSet and Job controllers for a JobSet of this UID."""
    job = make_job("a-b-0").managed("pg-a").of_jobset("a", "b", 0, "JobSet").build()
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "a"}
    job["metadata"] |= {"uid": f"job-of-{jobset}"}
    job["metadata"]["ownerReferences"] = [owner | {"uid": jobset, "controller": True}]
    harness.api.put(job | {"kind": "Job"})
    start_pods(harness, jobset, pods)


def start_pods(harness: ControllerHarness, jobset: str, pods: str) -> None:
    for number in range(2):
        made = make_pod(f"{pods}-{number}").managed("pg-a").label(JOBSET_LABEL_UID, jobset)
        harness.api.put(made.owned_by("Job", "a-b-0", f"job-of-{jobset}").build() | {"kind": "Pod"})


GANG = make_jobset("a").asks(gang_mode="Gang").replicated_job("b", 1, job_template().pods(2))


async def test_the_pods_of_a_namesake_do_not_hold_a_group(harness: ControllerHarness) -> None:
    """They existed before the garbage collector reached the group, so no check rejected them."""
    harness.submit_jobset(GANG.build())
    start_job(harness, "uid-of-a", "old")
    await harness.settle()
    for kind, name in (("JobSet", "a"), ("Job", "a-b-0"), ("Workload", "w-a")):
        harness.api.forget(kind, "default", name)
    again = GANG.build()
    again["metadata"]["uid"] = "uid-of-the-second"
    harness.submit_jobset(again)
    start_job(harness, "uid-of-the-second", "new")

    harness.api.remove("PodGroup", "default", "pg-a")  # only now
    await harness.settle()
    assert made_by(harness) == "uid-of-a", "its own pods still hold it"
    for number in range(2):
        harness.api.remove("Pod", "default", f"old-{number}")
    await harness.settle()

    assert made_by(harness) == "uid-of-the-second"
    assert harness.recorded.events == []


async def a_jobset(harness: ControllerHarness) -> str:
    harness.submit_jobset(GANG.build())
    return "pg-a"


async def a_tree(harness: ControllerHarness) -> str:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 1).build()
    harness.submit_jobset(jobset)
    return "pg-a-b-0"


async def a_job(harness: ControllerHarness) -> str:
    harness.submit_job(make_job("j").asks(gang_mode="Gang").pods(2).build())
    return "pg-job-j"


async def a_deployment(harness: ControllerHarness) -> str:
    made = admitted(deployment(gang_mode="Gang"), request_uid="r")
    harness.api.put(made)
    return str(made["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP])


async def a_workload(harness: ControllerHarness) -> str:
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    metadata = {"name": "w", "namespace": "default"}
    spec = {"podGroupTemplates": [template]}
    harness.api.put({"kind": "Workload", "metadata": metadata, "spec": spec})
    named = make_pod("names").label(LABEL_WORKLOAD, "w").label(LABEL_TEMPLATE, "t").build()
    harness.api.put(named | {"kind": "Pod"})
    return "w-t"


async def pods_that_ask(harness: ControllerHarness) -> str:
    harness.api.put(asking("asks").build() | {"kind": "Pod"})
    return "g"


MAKERS = (a_jobset, a_tree, a_job, a_deployment, a_workload, pods_that_ask)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("node", ["", "n"], ids=["waiting", "running"])
async def test_no_pod_holds_a_group_that_is_made_again(
    harness: ControllerHarness,
    make: Callable[[ControllerHarness], Awaitable[str]],
    node: str,
) -> None:
    """A pod lost during the group's deletion would be missing until all others have ended."""
    group = await make(harness)
    await harness.settle()
    before = uids(harness)
    assert ("PodGroup", group) in before
    made = make_pod("p").in_group(group)
    harness.api.put((made.bound_to(node) if node else made).build() | {"kind": "Pod"})

    for kind, name in before:
        harness.api.remove(kind, "default", name)
    await harness.settle(seconds=1)
    await harness.settle(seconds=5)

    after = uids(harness)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    stored = harness.api.objects["PodGroup", "default", group]
    assert "deletionTimestamp" not in stored["metadata"]


def uids(harness: ControllerHarness) -> dict[tuple[str, str], str]:
    """Return the UIDs of the groups of both kinds."""
    return {
        (kind, name): obj["metadata"]["uid"]
        for (kind, _, name), obj in harness.api.objects.items()
        if kind in ("PodGroup", "CompositePodGroup")
    }


@pytest.mark.parametrize("owner", ["going", "gone"])
async def test_a_pod_that_waits_holds_a_group_that_nobody_makes_again(
    harness: ControllerHarness, owner: str
) -> None:
    harness.submit_jobset(GANG.build())
    await harness.settle()
    before = uid_of_group(harness)
    harness.api.put(pod("first", "pg-a", "Pending"))

    if owner == "going":
        harness.api.objects["JobSet", "default", "a"]["metadata"]["finalizers"] = ["somebody/s"]
        harness.api.remove("JobSet", "default", "a")
    else:
        harness.api.forget("JobSet", "default", "a")
    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle()

    assert uid_of_group(harness) == before


@pytest.mark.parametrize(("jobset", "want"), [("uid-of-the-second", []), ("uid-of-a", ["pg-a"])])
async def test_pods_say_themselves_whose_group_they_hold(
    harness: ControllerHarness, jobset: str, want: list[str]
) -> None:
    """Their Job may be deleted, or not known yet."""
    harness.api.put(leaf("pg-a") | {"metadata": group_of("uid-of-a")})
    start_pods(harness, jobset, "p")

    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle()

    assert left(harness) == want


def group_of(jobset: str) -> Json:
    metadata: Json = leaf("pg-a")["metadata"]
    return metadata | made_for(JOBSET, "a", jobset)


def uid_of_group(harness: ControllerHarness) -> str:
    return str(harness.api.objects["PodGroup", "default", "pg-a"]["metadata"]["uid"])


def made_by(harness: ControllerHarness) -> str:
    owners = harness.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
    uid: str = owners[0]["uid"]
    return uid


async def test_a_tree_is_released_from_the_leaves(harness: ControllerHarness) -> None:
    harness.api.put(composite("root"))
    harness.api.put(composite("inner", "root"))
    harness.api.put(leaf("leaf", "inner"))
    harness.api.put(pod("p", "leaf"))
    for kind, name in (
        ("CompositePodGroup", "root"),
        ("CompositePodGroup", "inner"),
        ("PodGroup", "leaf"),
    ):
        harness.api.remove(kind, "default", name)
    await harness.settle()
    assert harness.api.writes == []

    harness.api.remove("Pod", "default", "p")
    await harness.settle()

    assert [name for _, _, name in harness.api.writes] == ["leaf", "inner", "root"]
    assert left(harness) == []


async def test_a_child_that_lives_holds_its_parent(harness: ControllerHarness) -> None:
    harness.api.put(composite("root"))
    harness.api.put(leaf("leaf", "root"))

    harness.api.remove("CompositePodGroup", "default", "root")
    await harness.settle()

    assert left(harness) == ["leaf", "root"]


async def test_a_child_whose_parent_vanished_goes_alone(harness: ControllerHarness) -> None:
    harness.api.put(leaf("leaf", "never-seen"))

    harness.api.remove("PodGroup", "default", "leaf")
    await harness.settle()

    assert left(harness) == []


async def test_composites_that_are_each_other_s_parents_are_released(
    harness: ControllerHarness,
) -> None:
    harness.api.put(composite("a", "b"))
    harness.api.put(composite("b", "a"))

    harness.api.remove("CompositePodGroup", "default", "a")
    await harness.settle()
    assert left(harness) == ["a", "b"]

    harness.api.remove("CompositePodGroup", "default", "b")
    await harness.settle()
    assert left(harness) == []


async def test_a_loop_of_which_one_lives_is_held(harness: ControllerHarness) -> None:
    harness.api.put(composite("a", "b"))
    harness.api.put(composite("b", "c"))
    harness.api.put(composite("c", "a"))

    harness.api.remove("CompositePodGroup", "default", "a")
    harness.api.remove("CompositePodGroup", "default", "b")
    await harness.settle()

    assert left(harness) == ["a", "b", "c"]


async def test_below_a_loop_the_others_go_first(harness: ControllerHarness) -> None:
    harness.api.put(composite("a", "b"))
    harness.api.put(composite("b", "a"))
    harness.api.put(leaf("leaf", "b"))
    harness.api.put(pod("p", "leaf"))
    for kind, name in (
        ("CompositePodGroup", "a"),
        ("CompositePodGroup", "b"),
        ("PodGroup", "leaf"),
    ):
        harness.api.remove(kind, "default", name)
    await harness.settle()
    assert "b" in left(harness)

    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    assert left(harness) == []


async def test_a_new_leader_finishes_what_the_last_one_left(harness: ControllerHarness) -> None:
    harness.api.put(leaf("g"))
    harness.fence.revoke()
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    assert left(harness) == ["g"]

    harness.fence.extend(float("inf"))
    await harness.protection.resync()
    await harness.settle()
    assert left(harness) == []


async def test_nothing_keeps_a_group_of_a_namespace_that_is_deleted(
    harness: ControllerHarness,
) -> None:
    harness.api.put({"kind": "Namespace", "metadata": {"name": "default", "finalizers": ["k"]}})
    harness.api.put(leaf("g"))
    harness.api.put(pod("p", "g"))
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    assert left(harness) == ["g"]

    harness.api.remove("Namespace", "", "default")
    await harness.settle()

    assert left(harness) == []


async def test_only_our_finalizer_is_taken(harness: ControllerHarness) -> None:
    harness.api.put(leaf("g", "", "theirs/hold"))

    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()

    assert harness.api.objects["PodGroup", "default", "g"]["metadata"]["finalizers"] == [
        "theirs/hold"
    ]


@pytest.mark.parametrize("others", [[], ["theirs/hold"]])
async def test_finalizers_that_moved_meanwhile_are_not_mixed_up(
    harness: ControllerHarness, others: list[str]
) -> None:
    harness.api.put(leaf("g", "", "theirs/hold"))
    harness.api.remove("PodGroup", "default", "g")
    harness.api.pause_events()
    obj = harness.api.objects["PodGroup", "default", "g"]
    moved = [finalizer_of("PodGroup"), *others]
    harness.api.put(obj | {"metadata": obj["metadata"] | {"finalizers": moved}})
    await harness.settle()
    assert finalizers(harness) == moved
    await harness.clock.advance(60)
    assert len(harness.protection.controller.queue) == 0, "the event that is late says enough"

    harness.api.resume_events()
    await harness.settle()

    assert left(harness) == (["g"] if others else [])
    if others:
        assert finalizers(harness) == others


def finalizers(harness: ControllerHarness) -> list[str]:
    found: list[str] = harness.api.objects["PodGroup", "default", "g"]["metadata"]["finalizers"]
    return found


async def test_a_new_group_of_the_name_keeps_its_finalizer(harness: ControllerHarness) -> None:
    harness.api.put(leaf("g"))
    harness.api.put(pod("p", "g"))
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    harness.api.put_unseen(leaf("g"))

    harness.api.remove("Pod", "default", "p")
    await harness.settle()

    assert finalizers(harness) == [finalizer_of("PodGroup")]


async def test_a_new_group_that_is_known_already_keeps_its_finalizer(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf("g"))
    harness.api.remove("PodGroup", "default", "g")
    harness.api.release("PodGroup", "default", "g")
    harness.api.put(leaf("g"))

    await harness.settle()

    assert finalizers(harness) == [finalizer_of("PodGroup")]


async def test_a_group_that_is_gone_already_is_no_failure(harness: ControllerHarness) -> None:
    harness.api.put(leaf("g"))
    harness.api.remove("PodGroup", "default", "g")
    del harness.api.objects["PodGroup", "default", "g"]
    await harness.settle()

    await harness.clock.advance(60)

    assert len(harness.protection.controller.queue) == 0


@pytest.mark.parametrize(
    "refusal", [ServerError(500, "InternalError", "no"), Invalid(422, "Invalid", "no")]
)
async def test_a_failed_release_is_tried_again(
    harness: ControllerHarness, refusal: KubeError
) -> None:
    harness.api.put(leaf("g"))
    harness.api.fail(refusal)
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    assert left(harness) == ["g"]

    await harness.settle(seconds=60)

    assert left(harness) == []


async def test_a_pod_that_is_seen_too_late_has_its_group_again(harness: ControllerHarness) -> None:
    """The pod cache lags when the group is deleted: its JobSet recreates it."""
    harness.submit_jobset(GANG.build())
    await harness.settle()
    before = uid_of_group(harness)
    harness.api.objects["Pod", "default", "p"] = pod("p", "pg-a")  # its event has not arrived yet

    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle()
    harness.api.put(pod("p", "pg-a"))
    await harness.settle()

    group = harness.api.objects["PodGroup", "default", "pg-a"]["metadata"]
    assert "deletionTimestamp" not in group
    assert group["uid"] != before


async def test_each_of_hundreds_of_pods_costs_one_check(harness: ControllerHarness) -> None:
    """Every pod that ends triggers a check of its group; no check visits all other pods."""
    harness.api.put(leaf("g"))
    for number in range(600):
        harness.api.put(pod(f"p{number}", "g"))
    harness.api.remove("PodGroup", "default", "g")
    listed = 0
    each = harness.caches.pods.each

    def counted(name: str, value: Hashable) -> Iterator[Any]:
        nonlocal listed
        for pod in each(name, value):
            listed += 1
            yield pod

    harness.caches.pods.each = counted  # type: ignore[method-assign]
    for number in range(600):
        assert ("PodGroup", "default", "g") in harness.api.objects
        harness.api.put(pod(f"p{number}", "g", "Succeeded"))
        await harness.settle()

    assert left(harness) == []
    assert listed <= 600, "one pod that holds it is enough"


async def test_a_pod_that_ends_queues_no_other_group(harness: ControllerHarness) -> None:
    for name in ("g", "h"):
        harness.api.put(leaf(name))
        harness.api.put(pod(f"of-{name}", name))
        harness.api.remove("PodGroup", "default", name)
    await harness.settle()

    harness.api.remove("Pod", "default", "of-g")

    assert len(harness.protection.controller.queue) == 1
    await harness.settle()
    assert left(harness) == ["h"]


async def test_an_irrelevant_change_queues_nothing(harness: ControllerHarness) -> None:
    """The changes: a running pod, an existing namespace, and a deleted one without the group."""
    harness.api.put(leaf("g"))
    harness.api.put(pod("p", "g", "Pending"))
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()

    harness.api.put(pod("p", "g", "Running"))
    harness.api.put({"kind": "Namespace", "metadata": {"name": "default"}})
    harness.api.put({"kind": "Namespace", "metadata": {"name": "other", "finalizers": ["k"]}})
    harness.api.remove("Namespace", "", "other")

    assert len(harness.protection.controller.queue) == 0


async def test_a_long_chain_is_not_walked_for_a_group_that_a_living_child_keeps(
    harness: ControllerHarness,
) -> None:
    async def steps(length: int) -> int:
        names = [f"c{length}-{number}" for number in range(length)]
        for above, name in zip(["", *names], names, strict=False):
            harness.api.put(composite(name, above))
        harness.api.put(leaf(f"living{length}", names[-1]))
        for name in names:
            harness.api.remove("CompositePodGroup", "default", name)
        await harness.settle()
        slot = ("CompositePodGroup", ("default", names[-1]))
        found = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal found
            found += event == "call"

        sys.setprofile(count)
        try:
            await harness.protection.reconcile(slot)
        finally:
            sys.setprofile(None)
        assert set(names) <= set(left(harness))
        return found

    assert await steps(200) == await steps(5)
