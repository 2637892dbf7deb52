"""Jobs and JobSets get exactly their objects, in order, once, and lose them when suspended."""

import re
from typing import Any

import msgspec
import pytest

from api.constants import ANNOTATION_FLOOR_BASIS, ANNOTATION_WAITING_FOR
from api.names import hashed
from controllers.objects import JOBSETS, decode_jobset
from kube.errors import Forbidden, ServerError
from tests.controllers.conftest import House
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]
GROUPS = ("PodGroup", "CompositePodGroup")
EVERYTHING = ("Workload", *GROUPS)


def gang(name: str = "a") -> Any:
    return make_jobset(name).asks(gang_mode="Gang").replicated_job("b", 2, job_template().pods(4))


def pod(name: str, group: str) -> Json:
    return make_pod(name).in_group(group).build() | {"kind": "Pod"}


def floor(house: House, name: str) -> Any:
    return house.api.objects["PodGroup", "default", name]["spec"]["schedulingPolicy"]


def template_floor(house: House, name: str) -> int:
    spec = house.api.objects["Workload", "default", name]["spec"]
    count: int = spec["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"]
    return count


def is_going(house: House, kind: str, name: str) -> bool:
    return "deletionTimestamp" in house.api.objects[kind, "default", name]["metadata"]


def renewed(jobset: Json) -> Json:
    return {**jobset["metadata"], "uid": "uid-of-the-second"}


def waiting_for(house: House, kind: str = "JobSet", name: str = "a") -> str:
    notes = house.api.objects[kind, "default", name]["metadata"].get("annotations", {})
    return str(notes.get(ANNOTATION_WAITING_FOR, ""))


async def test_a_gang_costs_two_writes(house: House) -> None:
    house.submit_jobset(gang().build())

    await house.settle()

    assert house.api.writes == [("create", "Workload", "w-a"), ("create", "PodGroup", "pg-a")]


async def test_a_tree_is_made_from_the_root_to_the_leaves(house: House) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    house.submit_jobset(jobset.build())

    await house.settle()

    assert [name for _, _, name in house.api.writes] == [
        "w-a",
        "cpg-a",
        "cpg-a-b",
        "pg-a-b-0",
        "pg-a-b-1",
    ]


async def test_groups_are_owned_by_the_jobset_and_the_workload(house: House) -> None:
    jobset = house.submit_jobset(gang().build())

    await house.settle()

    workload = house.api.objects["Workload", "default", "w-a"]
    owners = house.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
    assert [(it["kind"], it["uid"], it.get("controller", False)) for it in owners] == [
        ("JobSet", jobset["metadata"]["uid"], True),
        ("Workload", workload["metadata"]["uid"], False),
    ]


@pytest.mark.parametrize(
    "jobset",
    [
        pytest.param(make_jobset("a").replicated_job("b"), id="nothing asked for"),
        pytest.param(make_jobset("a").asks(gang_mode="Off").replicated_job("b"), id="Off"),
        pytest.param(gang().suspended(), id="created suspended"),
    ],
)
async def test_nothing_is_made(house: House, jobset: Any) -> None:
    house.submit_jobset(jobset.build())

    await house.settle()

    assert house.api.writes == []


async def test_a_repeated_or_unchanged_event_writes_nothing(house: House) -> None:
    house.submit_jobset(gang().build())
    await house.settle()
    house.api.writes.clear()

    house.change("JobSet", "a")
    house.jobset.resync()
    await house.settle()

    assert house.api.writes == []


async def test_a_slow_watch_does_not_lead_to_a_second_creation(house: House) -> None:
    house.submit_jobset(gang().build())
    house.api.hold()
    await house.settle()

    house.jobset.resync()
    await house.settle()
    house.api.flush()
    await house.settle()

    assert house.api.writes == [("create", "Workload", "w-a"), ("create", "PodGroup", "pg-a")]


async def test_another_leader_s_objects_are_found_though_the_cache_is_late(house: House) -> None:
    before = House()
    house.submit_jobset(gang().build())
    before.api.put(house.api.objects["JobSet", "default", "a"])
    await before.settle()
    before.close()
    house.api.objects |= before.api.objects

    await house.settle()

    assert house.told.events == []
    assert len(house.api.names(*EVERYTHING)) == 2


async def test_a_failed_creation_is_tried_again(house: House) -> None:
    house.api.fail_next = [ServerError(500, "InternalError", "no")]
    house.submit_jobset(gang().build())
    await house.settle()

    await house.settle(seconds=60)

    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]

    house.api.fail_next = [ServerError(500, "InternalError", "no")]
    house.api.forget("PodGroup", "default", "pg-a")
    await house.settle()
    assert house.api.names(*EVERYTHING) == ["w-a"]
    await house.settle(seconds=60)
    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]


@pytest.mark.parametrize(("kind", "name"), [("PodGroup", "pg-a"), ("Workload", "w-a")])
async def test_an_object_that_vanished_before_it_was_seen_is_made_again(
    house: House, kind: str, name: str
) -> None:
    house.submit_jobset(gang().build())
    await house.settle()
    house.api.forget(kind, "default", name)
    house.api.hold()
    await house.settle()
    del house.api.objects[kind, "default", name]
    await house.settle(seconds=10)

    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_what_is_seen_at_last_is_not_looked_at_for_ever(house: House) -> None:
    house.submit_jobset(gang().build())
    house.api.hold()
    await house.settle()
    house.api.flush()
    await house.settle(seconds=10)

    await house.clock.advance(60)

    assert len(house.jobset.controller.queue) == 0


async def test_what_was_made_for_a_namesake_a_moment_ago_is_made_anew(house: House) -> None:
    house.submit_jobset(gang().build())
    house.api.hold()
    await house.settle()
    house.api.objects.clear()
    again = house.submit_jobset(gang().build() | {"metadata": renewed(gang().build())})
    house.world.jobsets.upsert(decode_jobset(msgspec.json.encode(again)))

    await house.settle()

    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_groups_deleted_by_hand_are_made_again(house: House) -> None:
    house.submit_jobset(gang().build())
    await house.settle()

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()

    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_a_floor_changed_by_hand_is_put_right(house: House) -> None:
    house.submit_jobset(gang().build())
    await house.settle()

    house.change("PodGroup", "pg-a", schedulingPolicy={"gang": {"minCount": 1}})
    await house.settle()

    assert floor(house, "pg-a") == {"gang": {"minCount": 8}}


FOREIGN: Json = {"metadata": {"name": "pg-a", "namespace": "default"}, "spec": {}}


async def test_a_foreign_group_is_left_alone_and_told_of_once(house: House) -> None:
    house.api.put(FOREIGN | {"kind": "PodGroup"})
    house.submit_jobset(gang().build())
    await house.settle()
    house.jobset.resync()
    await house.settle()

    assert house.told.events == [("JobSet", "a", "NameTaken")]
    assert house.api.names(*GROUPS) == ["pg-a"]
    assert waiting_for(house).startswith("NameTaken: PodGroup pg-a exists")

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()
    assert ("create", "PodGroup", "pg-a") in house.api.writes[-2:]
    assert waiting_for(house) == ""
    assert house.maker.gone(("PodGroup", ("default", "pg-a")), JOBSETS) == [], "nobody waits now"


async def test_a_foreign_workload_s_name_is_avoided(house: House) -> None:
    house.api.put({"kind": "Workload", "metadata": {"name": "w-a", "namespace": "default"}})
    house.submit_jobset(gang().build())

    await house.settle()

    mine = [name for name in house.api.names("Workload") if name != "w-a"]
    assert len(mine) == 1
    assert re.fullmatch(r"w-a-[0-9a-f]{10}", mine[0])
    group = house.api.objects["PodGroup", "default", "pg-a"]
    assert group["spec"]["workloadRef"]["workloadName"] == mine[0]
    assert house.told.events == []


async def test_without_a_free_name_for_the_workload_nothing_is_made(house: House) -> None:
    names = ["w-a", hashed("w-a", "Workload", "default")]
    for name in names:
        house.api.put({"kind": "Workload", "metadata": {"name": name, "namespace": "default"}})
    house.submit_jobset(gang().build())
    await house.settle()
    house.api.writes.clear()
    house.jobset.resync()
    await house.settle()

    assert house.told.events == [("JobSet", "a", "NameTaken")]
    assert house.api.names(*GROUPS) == []

    house.api.remove("Workload", "default", names[1])
    await house.settle()
    assert house.api.names(*GROUPS) == ["pg-a"]


async def test_a_group_of_another_jobset_is_not_touched(house: House) -> None:
    """JobSet `a` with replicatedJob `b`, and JobSet `a-b`, come to one name."""
    house.submit_jobset(gang("a-b").build())
    await house.settle()
    jobset = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang")
    house.submit_jobset(jobset.build())
    await house.settle()

    assert house.told.events == [("JobSet", "a", "NameTaken")]
    assert floor(house, "pg-a-b") == {"gang": {"minCount": 8}}


async def test_a_suspended_tree_goes_and_comes_as_a_whole(house: House) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    house.submit_jobset(jobset.build())
    await house.settle()
    made = house.api.names(*EVERYTHING)

    house.change("JobSet", "a", suspend=True)
    await house.settle()
    assert house.api.names(*EVERYTHING) == ["w-a"]
    deleted = [name for verb, _, name in house.api.writes if verb == "delete"]
    assert sorted(deleted[:2]) == ["pg-a-b-0", "pg-a-b-1"], "leaves first"

    house.change("JobSet", "a", suspend=False)
    await house.settle()
    assert house.api.names(*EVERYTHING) == made


async def test_a_workload_deleted_by_hand_is_made_again(house: House) -> None:
    house.submit_jobset(gang().build())
    await house.settle()
    workload = house.api.objects["Workload", "default", "w-a"]
    house.api.put(workload | {"metadata": workload["metadata"] | {"finalizers": ["theirs/hold"]}})

    house.api.remove("Workload", "default", "w-a")
    house.jobset.resync()
    await house.settle()
    obj = house.api.objects["Workload", "default", "w-a"]
    house.api.put(obj | {"metadata": obj["metadata"] | {"finalizers": []}})
    await house.settle()

    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]
    assert not is_going(house, "Workload", "w-a")


async def test_no_group_is_made_under_a_workload_that_goes(house: House) -> None:
    """It would lose the reference to it, and never get one to the next."""
    house.submit_jobset(gang().build())
    await house.settle()
    workload = house.api.objects["Workload", "default", "w-a"]
    house.api.put(workload | {"metadata": workload["metadata"] | {"finalizers": ["theirs/hold"]}})
    house.api.remove("Workload", "default", "w-a")
    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle()
    assert house.api.names(*EVERYTHING) == ["w-a"]

    house.api.release("Workload", "default", "w-a")
    await house.settle()

    uid = house.api.objects["Workload", "default", "w-a"]["metadata"]["uid"]
    owners = house.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
    assert owners[1]["uid"] == uid


async def test_a_job_gets_its_workload_and_group(house: House) -> None:
    house.submit_job(make_job("t").asks(gang_mode="Gang").pods(4).build())

    await house.settle()

    assert house.api.writes == [
        ("create", "Workload", "w-job-t"),
        ("create", "PodGroup", "pg-job-t"),
    ]
    for name in ("w-job-t", "pg-job-t"):
        house.api.forget("Workload" if name == "w-job-t" else "PodGroup", "default", name)
        await house.settle()
        assert house.api.names(*EVERYTHING) == ["pg-job-t", "w-job-t"]


async def test_a_jobset_s_job_is_left_to_its_jobset(house: House) -> None:
    job = make_job("t").of_jobset("a", "b", 0, "JobSet").asks(gang_mode="Gang")
    house.submit_job(job.build())

    await house.settle()

    assert house.api.writes == []


async def test_scaling_a_job_moves_its_floor_and_success_does_not(house: House) -> None:
    job = house.submit_job(make_job("t").asks(gang_mode="Gang").pods(4, 8).build())
    await house.settle()
    house.api.writes.clear()

    house.api.put(job | {"status": {"succeeded": 6}})
    await house.settle()
    assert house.api.writes == []

    house.change("Job", "t", parallelism=6)
    await house.settle()
    assert floor(house, "pg-job-t") == {"gang": {"minCount": 2}}
    group = house.api.objects["PodGroup", "default", "pg-job-t"]
    assert group["metadata"]["annotations"][ANNOTATION_FLOOR_BASIS] == "parallelism=6"
    assert [verb for verb, _, _ in house.api.writes] == ["patch", "patch"]
    assert template_floor(house, "w-job-t") == 6


async def test_nothing_is_written_once_the_lease_may_be_lost(house: House) -> None:
    house.fence.revoke()
    house.submit_jobset(gang().build())

    await house.settle()

    assert house.api.writes == []
    house.fence.extend(float("inf"))
    await house.settle(seconds=60)
    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_a_bug_in_one_key_does_not_stop_the_others(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.api.put(gang("bad").build() | {"kind": "JobSet"})
    house.jobset.controller.queue.add(("default", "bad", "three parts"))  # type: ignore[arg-type]
    house.submit_jobset(gang("good").build())

    await house.settle()

    assert house.api.names("PodGroup") == ["pg-good"]


async def test_a_terminating_namespace_s_refusal_is_waited_out(house: House) -> None:
    house.api.fail_next = [Forbidden(403, "Forbidden", "namespace is being terminated")]
    house.submit_jobset(gang().build())
    await house.settle()

    house.api.remove("JobSet", "default", "a")
    await house.settle(seconds=60)

    assert house.api.names(*EVERYTHING) == []
