"""Jobs and JobSets get exactly their objects, in order, once, and lose them if suspended."""

import re
from typing import Any

import msgspec
import pytest

from api.constants import ANNOTATION_STANDS_FOR, ANNOTATION_WAITING_FOR, MAX_JOBS
from api.names import hashed, substitute_name
from controllers.cache.decoding import decode_jobset
from kube.base.errors import Forbidden, ServerError
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]
GROUPS = ("PodGroup", "CompositePodGroup")
EVERYTHING = ("Workload", *GROUPS)


def gang(name: str = "a") -> Any:
    return make_jobset(name).asks(gang_mode="Gang").replicated_job("b", 2, job_template().pods(4))


def pod(name: str, group: str) -> Json:
    return make_pod(name).in_group(group).build() | {"kind": "Pod"}


def minimum(harness: ControllerHarness, name: str) -> Any:
    return harness.api.objects["PodGroup", "default", name]["spec"]["schedulingPolicy"]


def is_going(harness: ControllerHarness, kind: str, name: str) -> bool:
    return "deletionTimestamp" in harness.api.objects[kind, "default", name]["metadata"]


def renewed(jobset: Json) -> Json:
    return {**jobset["metadata"], "uid": "uid-of-the-second"}


def waiting_for(harness: ControllerHarness, kind: str = "JobSet", name: str = "a") -> str:
    notes = harness.api.objects[kind, "default", name]["metadata"].get("annotations", {})
    return str(notes.get(ANNOTATION_WAITING_FOR, ""))


async def test_marks_in_another_namespace_claim_nothing(harness: ControllerHarness) -> None:
    """The objects are a protected Workload and a pending group, both with this JobSet's UID."""
    made = harness.submit_jobset(gang().build())
    await harness.settle()
    theirs: dict[str, Json] = {}
    for kind, name in (("Workload", "w-a"), ("PodGroup", "pg-a")):
        copy = msgspec.json.decode(msgspec.json.encode(harness.api.objects[kind, "default", name]))
        copy["metadata"] |= {"namespace": "other", "uid": f"forged-{name}", "finalizers": ["x/y"]}
        theirs[kind] = copy
    theirs["Workload"]["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    theirs["PodGroup"]["status"] = {"blocker": {"summary": "a text of theirs"}}
    forged = ControllerHarness()
    for copy in theirs.values():
        forged.api.put(copy)
    forged.api.put(made)

    await forged.settle()
    await forged.settle(seconds=10)

    assert forged.api.writes == [("create", "Workload", "w-a"), ("create", "PodGroup", "pg-a")]
    assert waiting_for(forged) == ""
    forged.close()


async def test_a_gang_costs_two_writes(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())

    await harness.settle()

    assert harness.api.writes == [("create", "Workload", "w-a"), ("create", "PodGroup", "pg-a")]


async def test_a_tree_is_made_from_the_root_to_the_leaves(harness: ControllerHarness) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())

    await harness.settle()

    assert [name for _, _, name in harness.api.writes] == [
        "w-a",
        "cpg-a",
        "cpg-a-b-d38fb85d90",
        "pg-a-b-0",
        "pg-a-b-1",
    ]


async def test_groups_are_owned_by_the_jobset_and_the_workload(harness: ControllerHarness) -> None:
    jobset = harness.submit_jobset(gang().build())

    await harness.settle()

    workload = harness.api.objects["Workload", "default", "w-a"]
    owners = harness.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
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
async def test_nothing_is_made(harness: ControllerHarness, jobset: Any) -> None:
    harness.submit_jobset(jobset.build())

    await harness.settle()

    assert harness.api.writes == []


@pytest.mark.parametrize("replicas", [MAX_JOBS + 1, 2**31 - 1])
@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_a_jobset_that_is_too_large_keeps_its_groups_and_gets_an_event(
    harness: ControllerHarness, mode: str, replicas: int
) -> None:
    """It may be older than the limit, or stored while the webhook was not installed."""
    stored = harness.submit_jobset(
        make_jobset("a").asks(gang_mode=mode).replicated_job("b", 2, job_template().pods(1)).build()
    )
    await harness.settle()
    groups = harness.api.names(*EVERYTHING)

    [job] = stored["spec"]["replicatedJobs"]
    harness.change("JobSet", "a", replicatedJobs=[job | {"replicas": replicas}])
    await harness.settle()

    assert harness.api.names(*EVERYTHING) == groups
    assert ("JobSet", "a", "TooManyReplicas") in harness.recorded.events
    noted = harness.api.objects["JobSet", "default", "a"]["metadata"]["annotations"]
    assert f"must have at most {MAX_JOBS}" in noted[ANNOTATION_WAITING_FOR]


async def test_a_repeated_or_unchanged_event_writes_nothing(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.sent.clear()

    harness.change("JobSet", "a")
    await harness.jobset.resync()
    await harness.settle()

    assert harness.api.writes == []


async def test_a_slow_watch_does_not_lead_to_a_second_creation(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    harness.api.pause_events()
    await harness.settle()

    await harness.jobset.resync()
    await harness.settle()
    harness.api.resume_events()
    await harness.settle()

    assert harness.api.writes == [("create", "Workload", "w-a"), ("create", "PodGroup", "pg-a")]


async def test_another_leader_s_objects_are_found_though_the_cache_is_late(
    harness: ControllerHarness,
) -> None:
    before = ControllerHarness()
    harness.submit_jobset(gang().build())
    before.api.put(harness.api.objects["JobSet", "default", "a"])
    await before.settle()
    before.close()
    harness.api.objects.update(before.api.objects)

    await harness.settle()

    assert harness.recorded.events == []
    assert len(harness.api.names(*EVERYTHING)) == 2


async def test_a_failed_creation_is_tried_again(harness: ControllerHarness) -> None:
    harness.api.fail(ServerError(500, "InternalError", "no"))
    harness.submit_jobset(gang().build())
    await harness.settle()

    await harness.settle(seconds=60)

    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]

    harness.api.fail(ServerError(500, "InternalError", "no"))
    harness.api.forget("PodGroup", "default", "pg-a")
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == ["w-a"]
    await harness.settle(seconds=60)
    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]


@pytest.mark.parametrize(("kind", "name"), [("PodGroup", "pg-a"), ("Workload", "w-a")])
async def test_an_object_that_vanished_before_it_was_seen_is_made_again(
    harness: ControllerHarness, kind: str, name: str
) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.forget(kind, "default", name)
    harness.api.pause_events()
    await harness.settle()
    del harness.api.objects[kind, "default", name]
    await harness.settle(seconds=10)

    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_what_is_seen_at_last_is_not_looked_at_for_ever(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    harness.api.pause_events()
    await harness.settle()
    harness.api.resume_events()
    await harness.settle(seconds=10)

    await harness.clock.advance(60)

    assert len(harness.jobset.controller.queue) == 0


async def test_what_was_made_for_a_namesake_a_moment_ago_is_made_anew(
    harness: ControllerHarness,
) -> None:
    harness.submit_jobset(gang().build())
    harness.api.pause_events()
    await harness.settle()
    harness.api.objects.clear()
    again = harness.submit_jobset(gang().build() | {"metadata": renewed(gang().build())})
    harness.caches.jobsets.upsert(decode_jobset(msgspec.json.encode(again)))

    await harness.settle()

    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_groups_deleted_by_hand_are_made_again(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()

    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle()

    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]


FOREIGN: Json = {"metadata": {"name": "pg-a", "namespace": "default"}, "spec": {}}


async def test_a_foreign_group_is_left_alone_and_another_stands_for_its_name(
    harness: ControllerHarness,
) -> None:
    foreign = harness.api.put(FOREIGN | {"kind": "PodGroup"})
    harness.submit_jobset(gang().build())
    await harness.settle()

    own = substitute_name("pg-a", "uid-of-a")
    assert harness.recorded.events == []
    assert waiting_for(harness) == ""
    assert harness.api.names(*GROUPS) == ["pg-a", own]
    assert harness.api.objects["PodGroup", "default", "pg-a"] == foreign
    notes = harness.api.objects["PodGroup", "default", own]["metadata"]["annotations"]
    assert notes[ANNOTATION_STANDS_FOR] == "pg-a"

    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.new_term()
    await harness.settle()
    assert harness.api.names(*GROUPS) == [own], "its pods stay where they are"


async def test_a_foreign_workload_s_name_is_avoided(harness: ControllerHarness) -> None:
    harness.api.put({"kind": "Workload", "metadata": {"name": "w-a", "namespace": "default"}})
    harness.submit_jobset(gang().build())

    await harness.settle()

    mine = [name for name in harness.api.names("Workload") if name != "w-a"]
    assert len(mine) == 1
    assert re.fullmatch(r"w-a-[0-9a-f]{10}", mine[0])
    group = harness.api.objects["PodGroup", "default", "pg-a"]
    assert group["spec"]["workloadRef"]["workloadName"] == mine[0]
    assert harness.recorded.events == []


async def test_without_a_free_name_for_the_workload_nothing_is_made(
    harness: ControllerHarness,
) -> None:
    names = ["w-a", hashed("w-a", "Workload", "default")]
    for name in names:
        harness.api.put({"kind": "Workload", "metadata": {"name": name, "namespace": "default"}})
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.sent.clear()
    await harness.jobset.resync()
    await harness.settle()

    assert harness.recorded.events == [("JobSet", "a", "NameTaken")]
    assert harness.api.names(*GROUPS) == []

    harness.api.remove("Workload", "default", names[1])
    await harness.settle()
    assert harness.api.names(*GROUPS) == ["pg-a"]


async def test_a_group_of_another_jobset_is_not_touched(harness: ControllerHarness) -> None:
    """JobSet `a` with replicatedJob `b`, and JobSet `a-b`, had the same group name."""
    harness.submit_jobset(gang("a-b").build())
    await harness.settle()
    jobset = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang")
    harness.submit_jobset(jobset.build())
    await harness.settle()

    assert harness.recorded.events == []
    assert minimum(harness, "pg-a-b") == {"gang": {"minCount": 8}}
    assert minimum(harness, "pg-a-b-ced6d47e7f") == {"gang": {"minCount": 2}}


async def test_a_suspended_tree_goes_and_comes_as_a_whole(harness: ControllerHarness) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())
    await harness.settle()
    made = harness.api.names(*EVERYTHING)

    harness.change("JobSet", "a", suspend=True)
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == ["w-a"]
    deleted = [name for verb, _, name in harness.api.writes if verb == "delete"]
    assert sorted(deleted[:2]) == ["pg-a-b-0", "pg-a-b-1"], "leaves first"

    harness.change("JobSet", "a", suspend=False)
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == made


async def test_a_workload_deleted_by_hand_is_made_again(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    workload = harness.api.objects["Workload", "default", "w-a"]
    harness.api.put(workload | {"metadata": workload["metadata"] | {"finalizers": ["theirs/hold"]}})

    harness.api.remove("Workload", "default", "w-a")
    await harness.jobset.resync()
    await harness.settle()
    obj = harness.api.objects["Workload", "default", "w-a"]
    harness.api.put(obj | {"metadata": obj["metadata"] | {"finalizers": []}})
    await harness.settle()

    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]
    assert not is_going(harness, "Workload", "w-a")


async def test_no_group_is_made_under_a_workload_that_goes(harness: ControllerHarness) -> None:
    """It would lose the reference to it, and never get one to the next."""
    harness.submit_jobset(gang().build())
    await harness.settle()
    workload = harness.api.objects["Workload", "default", "w-a"]
    harness.api.put(workload | {"metadata": workload["metadata"] | {"finalizers": ["theirs/hold"]}})
    harness.api.remove("Workload", "default", "w-a")
    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == ["w-a"]

    harness.api.release("Workload", "default", "w-a")
    await harness.settle()

    uid = harness.api.objects["Workload", "default", "w-a"]["metadata"]["uid"]
    owners = harness.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
    assert owners[1]["uid"] == uid


async def test_a_job_gets_its_workload_and_group(harness: ControllerHarness) -> None:
    harness.submit_job(make_job("t").asks(gang_mode="Gang").pods(4).build())

    await harness.settle()

    assert harness.api.writes == [
        ("create", "Workload", "w-job-t"),
        ("create", "PodGroup", "pg-job-t"),
    ]
    for name in ("w-job-t", "pg-job-t"):
        harness.api.forget("Workload" if name == "w-job-t" else "PodGroup", "default", name)
        await harness.settle()
        assert harness.api.names(*EVERYTHING) == ["pg-job-t", "w-job-t"]


async def test_a_jobset_s_job_is_left_to_its_jobset(harness: ControllerHarness) -> None:
    job = make_job("t").of_jobset("a", "b", 0, "JobSet").asks(gang_mode="Gang")
    harness.submit_job(job.build())

    await harness.settle()

    assert harness.api.writes == []


async def test_nothing_is_written_once_the_lease_may_be_lost(harness: ControllerHarness) -> None:
    harness.fence.revoke()
    harness.submit_jobset(gang().build())

    await harness.settle()

    assert harness.api.writes == []
    harness.fence.extend(float("inf"))
    await harness.settle(seconds=60)
    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_a_bug_in_one_key_does_not_stop_the_others(
    harness: ControllerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.api.put(gang("bad").build() | {"kind": "JobSet"})
    harness.jobset.controller.queue.add(("default", "bad", "three parts"))  # type: ignore[arg-type]
    harness.submit_jobset(gang("good").build())

    await harness.settle()

    assert harness.api.names("PodGroup") == ["pg-good"]


async def test_a_terminating_namespace_s_refusal_is_waited_out(harness: ControllerHarness) -> None:
    harness.api.fail(Forbidden(403, "Forbidden", "namespace is being terminated"))
    harness.submit_jobset(gang().build())
    await harness.settle()

    harness.api.remove("JobSet", "default", "a")
    await harness.settle(seconds=60)

    assert harness.api.names(*EVERYTHING) == []
