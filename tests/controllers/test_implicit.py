"""Groups that pods name by Workload and template (KEP-4671)."""

from copy import deepcopy
from typing import Any

import pytest

from api.constants import LABEL_REPLICA_KEY, LABEL_TEMPLATE, LABEL_WORKLOAD, finalizer_of
from controllers.implicit import IDLE_SECONDS
from tests.controllers.conftest import House
from tests.support.builders import make_pod

Json = dict[str, Any]


def workload(*templates: Json, name: str = "jobset") -> Json:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    return {"kind": "Workload", "metadata": metadata, "spec": {"podGroupTemplates": [*templates]}}


def template(name: str = "job-1", count: int = 100, **more: Any) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}, **more}


def pod(name: str, key: str = "", *, phase: str = "", by: str = "jobset") -> Json:
    builder = make_pod(name).label(LABEL_WORKLOAD, by).label(LABEL_TEMPLATE, "job-1")
    if key:
        builder = builder.label(LABEL_REPLICA_KEY, key)
    made = builder.build() | {"kind": "Pod"}
    return made | ({"status": {"phase": phase}} if phase else {})


def spec(house: House, name: str) -> Json:
    found: Json = house.api.objects["PodGroup", "default", name]["spec"]
    return found


@pytest.mark.parametrize(("key", "group"), [("", "jobset-job-1"), ("key-2", "jobset-job-1-key-2")])
async def test_the_first_pod_makes_the_group(house: House, key: str, group: str) -> None:
    constraint = {"topology": [{"key": "rack"}]}
    house.api.put(workload(template(schedulingConstraints=constraint)))
    house.api.put(pod("p", key))
    house.api.put(pod("q", key))

    await house.settle()

    assert house.api.writes == [("create", "PodGroup", group)]
    assert spec(house, group) == {
        "workloadRef": {"workloadName": "jobset", "templateName": "job-1"},
        "schedulingPolicy": {"gang": {"minCount": 100}},
        "schedulingConstraints": constraint,
        "disruptionMode": {"single": {}},
    }
    metadata = house.api.objects["PodGroup", "default", group]["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Workload", "uid-of-jobset")
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
    assert metadata["finalizers"] == [finalizer_of("PodGroup")]


async def test_pods_wait_for_a_workload_that_comes_later(house: House) -> None:
    house.api.put(pod("p", "k"))
    await house.settle()
    assert house.api.writes == []

    house.api.put(workload(template()))
    await house.settle()

    assert house.api.names("PodGroup") == ["jobset-job-1-k"]


async def test_without_pods_there_is_no_group(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k", phase="Succeeded"))

    await house.settle()

    assert house.api.writes == []


async def test_a_missing_template_is_told_of_once_on_the_workload(house: House) -> None:
    house.api.put(workload(template("other")))
    house.api.put(pod("p", "k"))
    await house.settle()
    house.implicit.resync()
    await house.settle()

    assert house.told.events == [("Workload", "jobset", "TemplateNotFound")]
    assert house.api.writes == []

    house.api.put(workload(template()))
    await house.settle()
    house.api.put(workload(template("other")))
    house.api.forget("PodGroup", "default", "jobset-job-1-k")
    await house.settle()
    assert house.told.events == [("Workload", "jobset", "TemplateNotFound")] * 2


@pytest.mark.parametrize(
    "templates",
    [
        {"compositePodGroupTemplates": [template("top", podGroupTemplates=[template()])]},
        {"compositePodGroupTemplates": [template(podGroupTemplates=[template("inner")])]},
    ],
    ids=["a template inside a tree", "a composite's template"],
)
async def test_only_templates_of_groups_without_a_parent_count(
    house: House, templates: Json
) -> None:
    house.api.put(workload() | {"spec": templates})
    house.api.put(pod("p", "k"))

    await house.settle()

    assert house.told.events == [("Workload", "jobset", "TemplateNotFound")]
    assert house.api.writes == []


async def test_a_workload_that_goes_gets_no_more_groups(house: House) -> None:
    going = workload(template())
    going["metadata"]["finalizers"] = ["theirs/hold"]
    house.api.put(going)
    house.api.remove("Workload", "default", "jobset")

    house.api.put(pod("p", "k"))
    await house.settle()

    assert house.api.writes == []


async def test_a_group_of_a_key_goes_when_no_pod_has_named_it_for_a_while(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()

    house.api.remove("Pod", "default", "p")
    await house.settle()
    await house.settle(seconds=IDLE_SECONDS - 5)
    assert house.api.names("PodGroup") == ["jobset-job-1-k"]
    await house.settle(seconds=10)

    assert house.api.names("PodGroup") == []


async def test_a_pod_that_comes_back_in_time_keeps_the_group(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()
    house.api.remove("Pod", "default", "p")
    await house.settle(seconds=IDLE_SECONDS - 5)

    house.api.put(pod("p2", "k"))
    await house.settle(seconds=IDLE_SECONDS * 3)
    house.api.remove("Pod", "default", "p2")
    await house.settle(seconds=IDLE_SECONDS - 5)

    assert house.api.names("PodGroup") == ["jobset-job-1-k"]


async def test_a_group_without_a_key_stays_as_long_as_its_workload(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p"))
    await house.settle()

    house.api.remove("Pod", "default", "p")
    for _ in range(3):
        await house.settle(seconds=IDLE_SECONDS)
    assert house.api.names("PodGroup") == ["jobset-job-1"]

    house.api.remove("Workload", "default", "jobset")
    await house.settle()
    assert house.api.objects == {}


async def test_the_group_outlives_its_workload_while_pods_run(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()

    house.api.remove("Workload", "default", "jobset")
    await house.settle()
    assert house.api.names("PodGroup") == ["jobset-job-1-k"]

    house.api.remove("Pod", "default", "p")
    await house.settle()
    assert house.api.objects == {}


async def test_a_floor_follows_its_template(house: House) -> None:
    theirs = house.api.put(workload(template(count=4)))
    house.api.put(pod("p", "k"))
    await house.settle()

    house.api.put(theirs | {"spec": {"podGroupTemplates": [template(count=3)]}})
    await house.settle()

    assert spec(house, "jobset-job-1-k")["schedulingPolicy"] == {"gang": {"minCount": 3}}


async def test_a_foreign_group_of_the_name_is_left_alone(house: House) -> None:
    metadata = {"name": "jobset-job-1-k", "namespace": "default"}
    house.api.put({"kind": "PodGroup", "metadata": metadata, "spec": {}})
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()
    assert house.told.events == [("Workload", "jobset", "NameTaken")]
    assert house.api.writes == []

    house.api.remove("PodGroup", "default", "jobset-job-1-k")
    await house.settle()

    assert house.api.writes == [("create", "PodGroup", "jobset-job-1-k")]


async def test_two_wordings_of_one_name_do_not_share_a_group(house: House) -> None:
    """Workload `a`, template `job-1`, key `x`, and Workload `a-job-1`, template `x`."""
    house.api.put(workload(template("job-1"), name="a"))
    house.api.put(workload(template("x"), name="a-job-1"))
    house.api.put(pod("p", "x", by="a"))
    await house.settle()
    second = make_pod("q").label(LABEL_WORKLOAD, "a-job-1").label(LABEL_TEMPLATE, "x")
    house.api.put(second.build() | {"kind": "Pod"})

    await house.settle()

    assert house.api.names("PodGroup") == ["a-job-1-x"]
    assert house.told.events == [("Workload", "a-job-1", "NameTaken")]


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": "t", "controller": True}


@pytest.mark.parametrize("owners", [[], [JOB]])
async def test_an_idle_group_of_somebody_else_stays(house: House, owners: list[Json]) -> None:
    """It has the name and the template's reference, and was not made here."""
    foreign = waiting("jobset-job-1-k", schedulingPolicy={"basic": {}})
    foreign["metadata"]["ownerReferences"] = owners
    house.api.put(foreign)
    house.api.put(pod("p", "k"))
    await house.settle()
    house.api.remove("Pod", "default", "p")

    for _ in range(3):
        await house.settle(seconds=IDLE_SECONDS)

    assert house.api.names("PodGroup") == ["jobset-job-1-k"]


async def test_pods_that_ended_leave_the_group_of_their_key_idle(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()

    house.api.put(pod("p", "k", phase="Succeeded"))
    for _ in range(2):
        await house.settle(seconds=IDLE_SECONDS)

    assert house.api.names("PodGroup") == []


async def idle(house: House) -> Json:
    """A group of a key whose last pod has just gone."""
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()
    house.api.remove("Pod", "default", "p")
    await house.settle()
    return deepcopy(house.api.objects["PodGroup", "default", "jobset-job-1-k"])


async def test_an_idle_group_is_deleted_once(house: House) -> None:
    group = await idle(house)
    finalizers = [*group["metadata"]["finalizers"], "theirs/hold"]
    house.api.put(group | {"metadata": group["metadata"] | {"finalizers": finalizers}})
    for _ in range(3):
        await house.settle(seconds=IDLE_SECONDS)
        house.implicit.resync()

    assert house.api.writes.count(("delete", "PodGroup", "jobset-job-1-k")) == 1


async def test_a_group_that_comes_back_has_its_time_again(house: House) -> None:
    """Made by a leader that was late, after this one removed it."""
    group = await idle(house)
    await house.settle(seconds=IDLE_SECONDS)
    assert house.api.names("PodGroup") == []

    house.api.put(group)
    house.implicit.resync()
    await house.settle()
    assert house.api.names("PodGroup") == ["jobset-job-1-k"]
    await house.settle(seconds=IDLE_SECONDS)
    assert house.api.names("PodGroup") == []


@pytest.mark.parametrize("replaced", [True, False])
async def test_an_idle_group_that_went_meanwhile_is_not_missed(
    house: House, replaced: bool
) -> None:
    await idle(house)
    if replaced:
        house.api.unseen(waiting("jobset-job-1-k"))
    else:
        del house.api.objects["PodGroup", "default", "jobset-job-1-k"]

    await house.settle(seconds=IDLE_SECONDS)

    assert house.api.names("PodGroup") == (["jobset-job-1-k"] if replaced else [])
    if not replaced:
        await house.clock.advance(60)
        assert len(house.implicit.controller.queue) == 0


async def test_what_is_changed_by_hand_is_put_right(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()

    house.change("PodGroup", "jobset-job-1-k", schedulingPolicy={"gang": {"minCount": 1}})
    await house.settle()
    assert spec(house, "jobset-job-1-k")["schedulingPolicy"] == {"gang": {"minCount": 100}}

    house.api.forget("PodGroup", "default", "jobset-job-1-k")
    await house.settle()
    assert house.api.names("PodGroup") == ["jobset-job-1-k"]


async def test_what_changes_nothing_is_no_news(house: House) -> None:
    """A pod that goes on, a group's status, a group that has its policy."""
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()

    house.api.put(pod("p", "k", phase="Running"))
    group = house.api.objects["PodGroup", "default", "jobset-job-1-k"]
    house.api.put(group | {"status": {"members": 1}})

    assert len(house.implicit.controller.queue) == 0
    assert len(house.fill.controller.queue) == 0


async def test_who_wrote_the_name_in_other_words_has_it_next(house: House) -> None:
    house.api.put(workload(template("job-1"), name="a"))
    house.api.put(workload(template("x"), name="a-job-1"))
    house.api.put(pod("p", "x", by="a"))
    await house.settle()
    second = make_pod("q").label(LABEL_WORKLOAD, "a-job-1").label(LABEL_TEMPLATE, "x")
    house.api.put(second.build() | {"kind": "Pod"})
    await house.settle()
    house.api.remove("Pod", "default", "p")
    await house.settle()

    house.api.forget("PodGroup", "default", "a-job-1-x")
    await house.settle()

    reference = spec(house, "a-job-1-x")["workloadRef"]
    assert reference == {"workloadName": "a-job-1", "templateName": "x"}


async def test_workloads_are_no_news_for_those_who_have_what_they_need(house: House) -> None:
    house.api.put(pod("p", "k", phase="Succeeded"))
    house.api.put(waiting(schedulingPolicy={"basic": {}}))
    await house.settle()

    house.api.put(workload(template()))

    assert len(house.implicit.controller.queue) == 0
    assert len(house.fill.controller.queue) == 0


async def test_a_new_leader_removes_what_became_idle_before_it(house: House) -> None:
    house.api.put(workload(template()))
    house.api.put(pod("p", "k"))
    await house.settle()
    house.fence.revoke()
    house.api.remove("Pod", "default", "p")
    await house.settle(seconds=IDLE_SECONDS * 2)

    house.fence.extend(float("inf"))
    house.implicit.resync()
    await house.settle(seconds=IDLE_SECONDS * 2)
    await house.settle(seconds=IDLE_SECONDS * 2)

    assert house.api.names("PodGroup") == []


def waiting(name: str = "g", **more: Any) -> Json:
    reference = {"workloadName": "jobset", "templateName": "job-1"}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "PodGroup", "metadata": metadata, "spec": {"workloadRef": reference, **more}}
