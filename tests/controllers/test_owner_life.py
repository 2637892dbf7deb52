"""What happens to Jobs and JobSets, and what their groups make of it."""

from typing import Any

import pytest

from api.constants import JOBSET
from tests.controllers.conftest import House
from tests.controllers.test_owners import (
    EVERYTHING,
    FOREIGN,
    GROUPS,
    gang,
    is_going,
    pod,
    renewed,
)
from tests.support.owners import job_template, made_for, make_job, make_jobset

Json = dict[str, Any]


async def test_groups_go_when_a_suspended_jobset_has_no_pod_left(house: House) -> None:
    house.submit_jobset(gang().build())
    house.api.put(pod("p0", "pg-a"))
    house.api.put(pod("p1", "pg-a"))
    await house.settle()

    house.change("JobSet", "a", suspend=True)
    await house.settle()
    assert not is_going(house, "PodGroup", "pg-a")
    house.api.remove("Pod", "default", "p0")
    await house.settle()
    assert house.api.names(*GROUPS) == ["pg-a"]
    house.api.remove("Pod", "default", "p1")
    await house.settle()
    assert house.api.names(*EVERYTHING) == ["w-a"]

    house.change("JobSet", "a", suspend=False)
    await house.settle()
    assert house.api.names(*EVERYTHING) == ["pg-a", "w-a"]


async def test_a_finished_jobset_gets_nothing_new(house: House) -> None:
    jobset = house.submit_jobset(gang().build())
    await house.settle()
    conditions = [{"type": "Completed", "status": "True"}]
    house.api.put(jobset | {"status": {"conditions": conditions}})

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle(seconds=5)

    assert house.api.names(*EVERYTHING) == ["w-a"]


async def test_deleting_the_jobset_leaves_nothing(house: House) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    house.submit_jobset(jobset.build())
    await house.settle()

    house.api.remove("JobSet", "default", "a")
    await house.settle()

    assert house.api.objects == {}


async def test_groups_of_a_jobset_that_goes_are_not_made_again(house: House) -> None:
    """Deleted in the foreground it is there until they are gone."""
    jobset = house.submit_jobset(gang().build())
    await house.settle()
    held = {"finalizers": ["foregroundDeletion"]}
    house.api.put(jobset | {"metadata": jobset["metadata"] | held})
    house.api.remove("JobSet", "default", "a")

    house.api.remove("PodGroup", "default", "pg-a")
    await house.settle(seconds=10)

    assert house.api.names(*GROUPS) == []


async def test_a_namesake_that_asks_for_nothing_gets_nothing(house: House) -> None:
    house.submit_jobset(gang().build())
    house.api.put(pod("p0", "pg-a"))
    await house.settle()
    house.api.remove("JobSet", "default", "a")
    await house.settle()
    plain = make_jobset("a").replicated_job("b").build()
    house.submit_jobset(plain | {"metadata": renewed(plain)})
    assert len(house.jobset.controller.queue) == 0

    house.api.remove("Pod", "default", "p0")
    await house.settle()
    assert house.api.names(*EVERYTHING) == []
    await house.clock.advance(60)
    assert len(house.jobset.controller.queue) == 0


async def test_a_workload_for_another_kind_is_no_news(house: House) -> None:
    house.submit_jobset(gang().build())
    await house.settle()
    reference = {"apiGroup": "batch", "kind": "Job", "name": "a"}
    metadata = {"name": "theirs", "namespace": "default"}

    house.api.put({"kind": "Workload", "metadata": metadata, "spec": {"controllerRef": reference}})

    assert len(house.jobset.controller.queue) == 0

    house.api.forget("Workload", "default", "theirs")
    job = make_job("a").asks(gang_mode="Gang").build()
    house.submit_job(job | {"metadata": job["metadata"] | {"uid": "uid-of-the-job"}})
    await house.settle()
    house.api.forget("PodGroup", "default", "pg-job-a")
    assert len(house.jobset.controller.queue) == 0


async def test_pods_that_go_are_news_for_the_suspended_when_they_are_the_last(
    house: House,
) -> None:
    house.submit_jobset(gang().build())
    for name in ("p0", "p1", "p2"):
        house.api.put(pod(name, "pg-a"))
    await house.settle()
    house.api.remove("Pod", "default", "p0")
    assert len(house.jobset.controller.queue) == 0

    house.change("JobSet", "a", suspend=True)
    await house.settle()
    house.api.remove("Pod", "default", "p1")
    assert len(house.jobset.controller.queue) == 0
    house.api.remove("Pod", "default", "p2")
    assert len(house.jobset.controller.queue) == 1


async def test_a_fault_that_comes_back_is_told_again(house: House) -> None:
    house.api.put(FOREIGN | {"kind": "PodGroup"})
    house.submit_jobset(gang().build())
    await house.settle()
    house.api.forget("PodGroup", "default", "pg-a")
    await house.settle()
    house.api.forget("PodGroup", "default", "pg-a")
    house.api.put(FOREIGN | {"kind": "PodGroup"})
    await house.settle()

    assert house.told.events == [("JobSet", "a", "NameTaken")] * 2


@pytest.mark.parametrize("replaced", [True, False])
async def test_who_is_gone_is_forgotten(house: House, replaced: bool) -> None:
    house.api.put(FOREIGN | {"kind": "PodGroup"})
    jobset = house.submit_jobset(gang().build())
    await house.settle()
    if replaced:
        plain = make_jobset("a").replicated_job("b").build()
        house.submit_jobset(plain | {"metadata": renewed(plain)})
    else:
        house.api.forget("JobSet", "default", "a")

    house.api.put(jobset)
    await house.settle()

    assert house.told.events == [("JobSet", "a", "NameTaken")] * 2


async def test_a_namesake_waits_for_what_its_predecessor_left(house: House) -> None:
    house.submit_jobset(gang().build())
    house.api.put(pod("p0", "pg-a"))
    await house.settle()
    house.api.remove("JobSet", "default", "a")
    await house.settle()

    house.submit_jobset(gang().build() | {"metadata": renewed(gang().build())})
    await house.settle()
    assert house.told.events == []
    house.api.remove("Pod", "default", "p0")
    await house.settle()

    group = house.api.objects["PodGroup", "default", "pg-a"]
    assert group["metadata"]["ownerReferences"][0]["uid"] == "uid-of-the-second"


@pytest.mark.parametrize(
    ("mode", "leaves"),
    [("ReplicatedGang", ["pg-a-b-0", "pg-a-b-1"]), ("Composite", ["pg-a-b-0", "pg-a-b-1"])],
)
async def test_a_jobset_that_scales_has_as_many_groups(
    house: House, mode: str, leaves: list[str]
) -> None:
    """JobSet v0.11.0 refuses it. A group goes after its last pod."""
    template = job_template().pods(4)
    made = make_jobset("a")
    made = made.asks(gang_mode=mode) if mode == "Composite" else made
    own = template if mode == "Composite" else template.asks(gang_mode=mode)
    house.submit_jobset(made.replicated_job("b", 1, own).build())
    await house.settle()
    (job,) = house.api.objects["JobSet", "default", "a"]["spec"]["replicatedJobs"]

    house.change("JobSet", "a", replicatedJobs=[job | {"replicas": 2}])
    await house.settle()
    assert house.api.names("PodGroup") == leaves

    house.api.put(pod("p", leaves[1]))
    house.change("JobSet", "a", replicatedJobs=[job])
    await house.settle()
    assert not is_going(house, "PodGroup", leaves[1]), "it may grow again"
    house.api.remove("Pod", "default", "p")
    await house.settle()
    house.jobset.resync()
    await house.settle()
    assert house.api.writes.count(("delete", "PodGroup", leaves[1])) == 1
    assert house.api.names("PodGroup") == leaves[:1]
    if mode == "Composite":
        spec = house.api.objects["CompositePodGroup", "default", "cpg-a-b"]["spec"]
        assert spec["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}


async def test_a_group_whose_owner_was_taken_off_by_the_collector_is_waited_for(
    house: House,
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
    house.api.put(left)

    house.submit_jobset(gang().build())
    await house.settle()
    assert house.told.events == []
    house.api.forget("PodGroup", "default", "pg-a")
    await house.settle(seconds=10)

    group = house.api.objects["PodGroup", "default", "pg-a"]
    assert group["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
