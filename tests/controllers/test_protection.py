"""Finalizers come off from the leaves up, as soon as nothing holds a group, and never by hand."""

from collections.abc import Hashable, Iterator
from typing import Any

import pytest

from api.constants import JOBSET, finalizer_of
from kube.errors import Invalid, KubeError, ServerError
from tests.controllers.conftest import House
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


def left(house: House) -> list[str]:
    return house.api.names("PodGroup", "CompositePodGroup")


async def test_a_group_is_held_by_its_pods(house: House) -> None:
    house.api.put(leaf("g"))
    house.api.put(pod("p", "g"))

    house.api.remove("PodGroup", "default", "g")
    await house.settle()
    assert left(house) == ["g"]

    house.api.remove("Pod", "default", "p")
    await house.settle()
    assert left(house) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pods_hold_nothing(house: House, phase: str) -> None:
    house.api.put(leaf("g"))
    house.api.put(pod("p", "g"))
    house.api.remove("PodGroup", "default", "g")
    await house.settle()

    house.api.put(pod("p", "g", phase))
    await house.settle()

    assert left(house) == []


async def test_a_living_group_keeps_its_finalizer(house: House) -> None:
    house.api.put(leaf("g"))

    await house.settle()

    assert house.api.writes == []


def start_job(house: House, jobset: str, pods: str) -> None:
    """What the JobSet and Job controllers make for a JobSet of this UID."""
    job = make_job("a-b-0").managed("pg-a").of_jobset("a", "b", 0, "JobSet").build()
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "a"}
    job["metadata"] |= {"uid": f"job-of-{jobset}"}
    job["metadata"]["ownerReferences"] = [owner | {"uid": jobset, "controller": True}]
    house.api.put(job | {"kind": "Job"})
    start_pods(house, jobset, pods)


def start_pods(house: House, jobset: str, pods: str) -> None:
    for number in range(2):
        made = make_pod(f"{pods}-{number}").in_group("pg-a")
        house.api.put(made.owned_by("Job", "a-b-0", f"job-of-{jobset}").build() | {"kind": "Pod"})


GANG = make_jobset("a").asks(gang_mode="Gang").replicated_job("b", 1, job_template().pods(2))


async def test_the_pods_of_a_namesake_do_not_hold_a_group(house: House) -> None:
    """They were there before the garbage collector came to the group, so nothing refused them."""
    house.submit_jobset(GANG.build())
    start_job(house, "uid-of-a", "old")
    await house.settle()
    for kind, name in (("JobSet", "a"), ("Job", "a-b-0"), ("Workload", "w-a")):
        house.api.forget(kind, "default", name)
    again = GANG.build()
    again["metadata"]["uid"] = "uid-of-the-second"
    house.submit_jobset(again)
    start_job(house, "uid-of-the-second", "new")

    house.api.remove("PodGroup", "default", "pg-a")  # only now
    await house.settle()
    assert made_by(house) == "uid-of-a", "its own pods still hold it"
    for number in range(2):
        house.api.remove("Pod", "default", f"old-{number}")
    await house.settle()

    assert made_by(house) == "uid-of-the-second"
    assert house.told.events == []


async def test_a_pod_that_waits_does_not_hold_a_group_that_is_made_again(house: House) -> None:
    """The others are not let in while the group goes, so that they all would wait for ever."""
    house.submit_jobset(GANG.build())
    await house.settle()
    before = uid_of_group(house)
    house.api.put(pod("first", "pg-a", "Pending"))

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()

    assert uid_of_group(house) != before
    assert left(house) == ["pg-a"]


async def test_a_pod_with_a_node_holds_a_group_that_would_be_made_again(house: House) -> None:
    house.submit_jobset(GANG.build())
    await house.settle()
    before = uid_of_group(house)
    waits, starts = (make_pod(name).in_group("pg-a").phase("Pending") for name in ("w", "s"))
    house.api.put(waits.build() | {"kind": "Pod"})
    house.api.put(starts.bound_to("n").build() | {"kind": "Pod"})

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()

    assert uid_of_group(house) == before


@pytest.mark.parametrize("owner", ["going", "gone"])
async def test_a_pod_that_waits_holds_a_group_that_nobody_makes_again(
    house: House, owner: str
) -> None:
    house.submit_jobset(GANG.build())
    await house.settle()
    before = uid_of_group(house)
    house.api.put(pod("first", "pg-a", "Pending"))

    if owner == "going":
        house.api.objects["JobSet", "default", "a"]["metadata"]["finalizers"] = ["somebody/s"]
        house.api.remove("JobSet", "default", "a")
    else:
        house.api.forget("JobSet", "default", "a")
    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()

    assert uid_of_group(house) == before


async def test_pods_hold_a_group_until_it_is_known_whose_they_are(house: House) -> None:
    house.api.put(leaf("pg-a") | {"metadata": group_of("uid-of-a")})
    start_pods(house, "uid-of-the-second", "new")
    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()
    assert left(house) == ["pg-a"]

    start_job(house, "uid-of-the-second", "new")
    await house.settle()

    assert left(house) == []


def group_of(jobset: str) -> Json:
    metadata: Json = leaf("pg-a")["metadata"]
    return metadata | made_for(JOBSET, "a", jobset)


def uid_of_group(house: House) -> str:
    return str(house.api.objects["PodGroup", "default", "pg-a"]["metadata"]["uid"])


def made_by(house: House) -> str:
    owners = house.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
    uid: str = owners[0]["uid"]
    return uid


async def test_a_tree_unwinds_from_the_leaves(house: House) -> None:
    house.api.put(composite("root"))
    house.api.put(composite("inner", "root"))
    house.api.put(leaf("leaf", "inner"))
    house.api.put(pod("p", "leaf"))
    for kind, name in (
        ("CompositePodGroup", "root"),
        ("CompositePodGroup", "inner"),
        ("PodGroup", "leaf"),
    ):
        house.api.remove(kind, "default", name)
    await house.settle()
    assert house.api.writes == []

    house.api.remove("Pod", "default", "p")
    await house.settle()

    assert [name for _, _, name in house.api.writes] == ["leaf", "inner", "root"]
    assert left(house) == []


async def test_a_child_that_lives_holds_its_parent(house: House) -> None:
    house.api.put(composite("root"))
    house.api.put(leaf("leaf", "root"))

    house.api.remove("CompositePodGroup", "default", "root")
    await house.settle()

    assert left(house) == ["leaf", "root"]


async def test_a_child_whose_parent_vanished_goes_alone(house: House) -> None:
    house.api.put(leaf("leaf", "never-seen"))

    house.api.remove("PodGroup", "default", "leaf")
    await house.settle()

    assert left(house) == []


async def test_composites_that_are_each_other_s_parents_let_go(house: House) -> None:
    house.api.put(composite("a", "b"))
    house.api.put(composite("b", "a"))

    house.api.remove("CompositePodGroup", "default", "a")
    await house.settle()
    assert left(house) == ["a", "b"]

    house.api.remove("CompositePodGroup", "default", "b")
    await house.settle()
    assert left(house) == []


async def test_a_loop_of_which_one_lives_is_held(house: House) -> None:
    house.api.put(composite("a", "b"))
    house.api.put(composite("b", "c"))
    house.api.put(composite("c", "a"))

    house.api.remove("CompositePodGroup", "default", "a")
    house.api.remove("CompositePodGroup", "default", "b")
    await house.settle()

    assert left(house) == ["a", "b", "c"]


async def test_below_a_loop_the_others_go_first(house: House) -> None:
    house.api.put(composite("a", "b"))
    house.api.put(composite("b", "a"))
    house.api.put(leaf("leaf", "b"))
    house.api.put(pod("p", "leaf"))
    for kind, name in (
        ("CompositePodGroup", "a"),
        ("CompositePodGroup", "b"),
        ("PodGroup", "leaf"),
    ):
        house.api.remove(kind, "default", name)
    await house.settle()
    assert "b" in left(house)

    house.api.remove("Pod", "default", "p")
    await house.settle()
    assert left(house) == []


async def test_a_new_leader_finishes_what_the_last_one_left(house: House) -> None:
    house.api.put(leaf("g"))
    house.fence.revoke()
    house.api.remove("PodGroup", "default", "g")
    await house.settle()
    assert left(house) == ["g"]

    house.fence.extend(float("inf"))
    house.protection.resync()
    await house.settle()
    assert left(house) == []


async def test_a_namespace_that_goes_is_held_up_by_nothing(house: House) -> None:
    house.api.put({"kind": "Namespace", "metadata": {"name": "default", "finalizers": ["k"]}})
    house.api.put(leaf("g"))
    house.api.put(pod("p", "g"))
    house.api.remove("PodGroup", "default", "g")
    await house.settle()
    assert left(house) == ["g"]

    house.api.remove("Namespace", "", "default")
    await house.settle()

    assert left(house) == []


async def test_only_our_finalizer_is_taken(house: House) -> None:
    house.api.put(leaf("g", "", "theirs/hold"))

    house.api.remove("PodGroup", "default", "g")
    await house.settle()

    assert house.api.objects["PodGroup", "default", "g"]["metadata"]["finalizers"] == [
        "theirs/hold"
    ]


@pytest.mark.parametrize("others", [[], ["theirs/hold"]])
async def test_finalizers_that_moved_meanwhile_are_not_mixed_up(
    house: House, others: list[str]
) -> None:
    house.api.put(leaf("g", "", "theirs/hold"))
    house.api.remove("PodGroup", "default", "g")
    house.api.hold()
    obj = house.api.objects["PodGroup", "default", "g"]
    moved = [finalizer_of("PodGroup"), *others]
    house.api.put(obj | {"metadata": obj["metadata"] | {"finalizers": moved}})
    await house.settle()
    assert finalizers(house) == moved
    await house.clock.advance(60)
    assert len(house.protection.controller.queue) == 0, "the event that is late says enough"

    house.api.flush()
    await house.settle()

    assert left(house) == (["g"] if others else [])
    if others:
        assert finalizers(house) == others


def finalizers(house: House) -> list[str]:
    found: list[str] = house.api.objects["PodGroup", "default", "g"]["metadata"]["finalizers"]
    return found


async def test_a_new_group_of_the_name_keeps_its_finalizer(house: House) -> None:
    house.api.put(leaf("g"))
    house.api.put(pod("p", "g"))
    house.api.remove("PodGroup", "default", "g")
    await house.settle()
    house.api.unseen(leaf("g"))

    house.api.remove("Pod", "default", "p")
    await house.settle()

    assert finalizers(house) == [finalizer_of("PodGroup")]


async def test_a_new_group_that_is_known_already_keeps_its_finalizer(house: House) -> None:
    house.api.put(leaf("g"))
    house.api.remove("PodGroup", "default", "g")
    house.api.release("PodGroup", "default", "g")
    house.api.put(leaf("g"))

    await house.settle()

    assert finalizers(house) == [finalizer_of("PodGroup")]


async def test_a_group_that_is_gone_already_is_no_failure(house: House) -> None:
    house.api.put(leaf("g"))
    house.api.remove("PodGroup", "default", "g")
    del house.api.objects["PodGroup", "default", "g"]
    await house.settle()

    await house.clock.advance(60)

    assert len(house.protection.controller.queue) == 0


@pytest.mark.parametrize(
    "refusal", [ServerError(500, "InternalError", "no"), Invalid(422, "Invalid", "no")]
)
async def test_a_failed_release_is_tried_again(house: House, refusal: KubeError) -> None:
    house.api.put(leaf("g"))
    house.api.fail_next = [refusal]
    house.api.remove("PodGroup", "default", "g")
    await house.settle()
    assert left(house) == ["g"]

    await house.settle(seconds=60)

    assert left(house) == []


async def test_a_pod_that_is_seen_too_late_has_its_group_again(house: House) -> None:
    """The pod cache is behind when the group goes: its JobSet makes it anew."""
    house.submit_jobset(GANG.build())
    await house.settle()
    before = uid_of_group(house)
    house.api.objects["Pod", "default", "p"] = pod("p", "pg-a")  # its event is still under way

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()
    house.api.put(pod("p", "pg-a"))
    await house.settle()

    group = house.api.objects["PodGroup", "default", "pg-a"]["metadata"]
    assert "deletionTimestamp" not in group
    assert group["uid"] != before


async def test_thousands_of_pods_cost_a_look_each(house: House) -> None:
    """Every pod that ends has its group looked at; no look goes through all the others."""
    house.api.put(leaf("g"))
    for number in range(2000):
        house.api.put(pod(f"p{number}", "g"))
    house.api.remove("PodGroup", "default", "g")
    listed = 0
    each = house.world.pods.each

    def counted(name: str, value: Hashable) -> Iterator[Any]:
        nonlocal listed
        for pod in each(name, value):
            listed += 1
            yield pod

    house.world.pods.each = counted  # type: ignore[method-assign]
    for number in range(2000):
        assert ("PodGroup", "default", "g") in house.api.objects
        house.api.put(pod(f"p{number}", "g", "Succeeded"))
        await house.settle()

    assert left(house) == []
    assert listed <= 2000, "one pod that holds it is enough"


async def test_a_pod_that_ends_is_no_news_for_other_groups(house: House) -> None:
    for name in ("g", "h"):
        house.api.put(leaf(name))
        house.api.put(pod(f"of-{name}", name))
        house.api.remove("PodGroup", "default", name)
    await house.settle()

    house.api.remove("Pod", "default", "of-g")

    assert len(house.protection.controller.queue) == 1
    await house.settle()
    assert left(house) == ["h"]


async def test_what_changes_nothing_is_no_news(house: House) -> None:
    """A pod that goes on, a namespace that stays, and one that goes without the group."""
    house.api.put(leaf("g"))
    house.api.put(pod("p", "g", "Pending"))
    house.api.remove("PodGroup", "default", "g")
    await house.settle()

    house.api.put(pod("p", "g", "Running"))
    house.api.put({"kind": "Namespace", "metadata": {"name": "default"}})
    house.api.put({"kind": "Namespace", "metadata": {"name": "other", "finalizers": ["k"]}})
    house.api.remove("Namespace", "", "other")

    assert len(house.protection.controller.queue) == 0
