"""Changes of Jobs and JobSets, and their effects on the groups."""

from typing import Any

import pytest

from api.constants import JOBSET
from api.names import hashed
from tests.controllers.conftest import ControllerHarness
from tests.controllers.owners.test_owners import (
    EVERYTHING,
    GROUPS,
    gang,
    is_going,
    pod,
    renewed,
    waiting_for,
)
from tests.support.owners import job_template, made_for, make_job, make_jobset

Json = dict[str, Any]


async def test_groups_go_when_a_suspended_jobset_has_no_pod_left(
    harness: ControllerHarness,
) -> None:
    harness.submit_jobset(gang().build())
    harness.api.put(pod("p0", "pg-a"))
    harness.api.put(pod("p1", "pg-a"))
    await harness.settle()

    harness.change("JobSet", "a", suspend=True)
    await harness.settle()
    assert not is_going(harness, "PodGroup", "pg-a")
    harness.api.remove("Pod", "default", "p0")
    await harness.settle()
    assert harness.api.names(*GROUPS) == ["pg-a"]
    harness.api.remove("Pod", "default", "p1")
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == ["w-a"]

    harness.change("JobSet", "a", suspend=False)
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_a_finished_jobset_gets_nothing_new(harness: ControllerHarness) -> None:
    jobset = harness.submit_jobset(gang().build())
    await harness.settle()
    conditions = [{"type": "Completed", "status": "True"}]
    harness.api.put(jobset | {"status": {"conditions": conditions}})

    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle(seconds=5)

    assert harness.api.names(*EVERYTHING) == ["w-a"]


async def test_deleting_the_jobset_leaves_nothing(harness: ControllerHarness) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())
    await harness.settle()

    harness.api.remove("JobSet", "default", "a")
    await harness.settle()

    assert harness.api.objects == {}


async def test_groups_of_a_jobset_that_goes_are_not_made_again(harness: ControllerHarness) -> None:
    """A JobSet deleted in the foreground exists until they are deleted."""
    jobset = harness.submit_jobset(gang().build())
    await harness.settle()
    held = {"finalizers": ["foregroundDeletion"]}
    harness.api.put(jobset | {"metadata": jobset["metadata"] | held})
    harness.api.remove("JobSet", "default", "a")

    harness.api.remove("PodGroup", "default", "pg-a")
    await harness.settle(seconds=10)

    assert harness.api.names(*GROUPS) == []


async def test_a_namesake_that_asks_for_nothing_gets_nothing(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    harness.api.put(pod("p0", "pg-a"))
    await harness.settle()
    harness.api.remove("JobSet", "default", "a")
    await harness.settle()
    plain = make_jobset("a").replicated_job("b").build()
    harness.submit_jobset(plain | {"metadata": renewed(plain)})
    assert len(harness.jobset.controller.queue) == 0

    harness.api.remove("Pod", "default", "p0")
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == []
    await harness.clock.advance(60)
    assert len(harness.jobset.controller.queue) == 0


async def test_a_workload_for_another_kind_queues_nothing(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    reference = {"apiGroup": "batch", "kind": "Job", "name": "a"}
    metadata = {"name": "theirs", "namespace": "default"}

    harness.api.put(
        {"kind": "Workload", "metadata": metadata, "spec": {"controllerRef": reference}}
    )

    assert len(harness.jobset.controller.queue) == 0

    harness.api.forget("Workload", "default", "theirs")
    job = make_job("a").asks(gang_mode="Gang").build()
    harness.submit_job(job | {"metadata": job["metadata"] | {"uid": "uid-of-the-job"}})
    await harness.settle()
    harness.api.forget("PodGroup", "default", "pg-job-a")
    assert len(harness.jobset.controller.queue) == 0


async def test_only_the_last_pod_queues_a_suspended_owner(
    harness: ControllerHarness,
) -> None:
    harness.submit_jobset(gang().build())
    for name in ("p0", "p1", "p2"):
        harness.api.put(pod(name, "pg-a"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p0")
    assert len(harness.jobset.controller.queue) == 0

    harness.change("JobSet", "a", suspend=True)
    await harness.settle()
    harness.api.remove("Pod", "default", "p1")
    assert len(harness.jobset.controller.queue) == 0
    harness.api.remove("Pod", "default", "p2")
    assert len(harness.jobset.controller.queue) == 1


NAMES = ("w-a", hashed("w-a", "Workload", "default"))
"""The names of the Workload of JobSet `a`."""


def take_names(harness: ControllerHarness) -> None:
    for name in NAMES:
        harness.api.put({"kind": "Workload", "metadata": {"name": name, "namespace": "default"}})


async def test_an_error_that_comes_back_is_reported_again(harness: ControllerHarness) -> None:
    take_names(harness)
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.forget("Workload", "default", NAMES[1])
    await harness.settle()
    harness.api.forget("Workload", "default", NAMES[1])
    take_names(harness)
    await harness.settle()

    assert harness.recorded.events == [("JobSet", "a", "NameTaken")] * 2


@pytest.mark.parametrize("replaced", [True, False])
async def test_a_deleted_owner_is_forgotten(harness: ControllerHarness, replaced: bool) -> None:
    take_names(harness)
    jobset = harness.submit_jobset(gang().build())
    await harness.settle()
    if replaced:
        plain = make_jobset("a").replicated_job("b").build()
        harness.submit_jobset(plain | {"metadata": renewed(plain)})
    else:
        harness.api.forget("JobSet", "default", "a")

    harness.api.put(jobset)
    await harness.settle()

    assert harness.recorded.events == [("JobSet", "a", "NameTaken")] * 2


async def test_an_owner_says_which_pods_of_an_earlier_one_it_waits_for(
    harness: ControllerHarness,
) -> None:
    harness.submit_jobset(gang().build())
    for name in ("p0", "p1"):
        harness.api.put(pod(name, "pg-a"))
    await harness.settle()
    harness.api.orphan("JobSet", "default", "a")
    harness.submit_jobset(gang().build() | {"metadata": renewed(gang().build())})
    await harness.settle()
    assert waiting_for(harness) == "", "most are gone in a moment"

    await harness.settle(seconds=2)
    assert waiting_for(harness) == (
        "2 pods of an earlier JobSet a must end before Muster can recreate Workload w-a"
    )
    harness.api.remove("Pod", "default", "p0")
    await harness.settle(seconds=20)
    assert waiting_for(harness).startswith("1 pod of an earlier JobSet a must end before ")
    harness.api.remove("Pod", "default", "p1")
    await harness.settle()

    assert waiting_for(harness) == ""
    assert harness.recorded.events == []


async def test_a_namesake_waits_for_what_its_predecessor_left(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    harness.api.put(pod("p0", "pg-a"))
    await harness.settle()
    harness.api.remove("JobSet", "default", "a")
    await harness.settle()

    harness.submit_jobset(gang().build() | {"metadata": renewed(gang().build())})
    await harness.settle()
    assert harness.recorded.events == []
    harness.api.remove("Pod", "default", "p0")
    await harness.settle()

    group = harness.api.objects["PodGroup", "default", "pg-a"]
    assert group["metadata"]["ownerReferences"][0]["uid"] == "uid-of-the-second"


@pytest.mark.parametrize(
    ("mode", "leaves"),
    [("ReplicatedGang", ["pg-a-b-0", "pg-a-b-1"]), ("Composite", ["pg-a-b-0", "pg-a-b-1"])],
)
async def test_a_jobset_that_scales_has_as_many_groups(
    harness: ControllerHarness, mode: str, leaves: list[str]
) -> None:
    """JobSet v0.11.0 rejects it. A group is deleted after its last pod."""
    template = job_template().pods(4)
    made = make_jobset("a")
    made = made.asks(gang_mode=mode) if mode == "Composite" else made
    own = template if mode == "Composite" else template.asks(gang_mode=mode)
    harness.submit_jobset(made.replicated_job("b", 1, own).build())
    await harness.settle()
    (job,) = harness.api.objects["JobSet", "default", "a"]["spec"]["replicatedJobs"]

    harness.change("JobSet", "a", replicatedJobs=[job | {"replicas": 2}])
    await harness.settle()
    assert harness.api.names("PodGroup") == leaves

    harness.api.put(pod("p", leaves[1]))
    harness.change("JobSet", "a", replicatedJobs=[job])
    await harness.settle()
    assert not is_going(harness, "PodGroup", leaves[1]), "it may grow again"
    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    await harness.jobset.resync()
    await harness.settle()
    assert harness.api.writes.count(("delete", "PodGroup", leaves[1])) == 1
    assert harness.api.names("PodGroup") == leaves[:1]
    if mode == "Composite":
        spec = harness.api.objects["CompositePodGroup", "default", "cpg-a-b-d38fb85d90"]["spec"]
        assert spec["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}


async def test_a_group_whose_owner_was_taken_off_by_the_collector_is_waited_for(
    harness: ControllerHarness,
) -> None:
    left = {
        "kind": "PodGroup",
        "metadata": {
            "name": "pg-a",
            "namespace": "default",
            **made_for(JOBSET, "a", "uid-of-the-first"),
            "ownerReferences": [{"kind": "Workload", "name": "w-a", "uid": "gone"}],
        },
        "spec": {},
    }
    harness.api.put(left)

    harness.submit_jobset(gang().build())
    await harness.settle()
    assert harness.recorded.events == []
    harness.api.forget("PodGroup", "default", "pg-a")
    await harness.settle(seconds=10)

    group = harness.api.objects["PodGroup", "default", "pg-a"]
    assert group["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
