"""What a Job or JobSet waits for is told on itself: late enough, seldom enough, and taken back."""

from typing import Any

import msgspec
import pytest

from api.constants import ANNOTATION_WAITING_FOR
from controllers.objects import decode_group
from tests.controllers.conftest import House
from tests.controllers.test_owners import gang, pod, renewed, waiting_for
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]


def blocked(house: House, name: str, summary: str, kind: str = "PodGroup") -> None:
    """The scheduler says that a group waits."""
    obj = house.api.objects[kind, "default", name]
    status = {"blocker": {"summary": summary}} if summary else {}
    house.api.put(obj | {"status": status})


async def settled(house: House) -> None:
    house.submit_jobset(gang().build())
    await house.settle()
    house.api.writes.clear()


async def test_what_blocks_is_named_with_the_scheduler_s_words(house: House) -> None:
    await settled(house)

    blocked(house, "pg-a", "needs 8 pods, 5 fit")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    assert waiting_for(house) == "PodGroup pg-a: needs 8 pods, 5 fit"
    assert house.api.writes == [("patch", "JobSet", "a")]


async def test_what_passes_quickly_costs_no_write(house: House) -> None:
    await settled(house)

    blocked(house, "pg-a", "needs 8 pods, 5 fit")
    await house.settle(seconds=1)
    blocked(house, "pg-a", "")
    await house.settle(seconds=60)

    assert house.api.writes == []


async def test_numbers_that_change_are_written_now_and_then(house: House) -> None:
    await settled(house)
    for free in range(1, 30):
        blocked(house, "pg-a", f"{free} fit")
        await house.settle(seconds=1)
    await house.settle(seconds=30)

    assert waiting_for(house) == "PodGroup pg-a: 29 fit"
    assert len(house.api.writes) <= 4


async def test_what_passed_quickly_and_comes_back_has_its_time_again(house: House) -> None:
    await settled(house)
    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    blocked(house, "pg-a", "")
    await house.settle(seconds=60)

    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)

    assert house.api.writes == []


async def test_a_note_that_the_cache_has_not_seen_yet_is_taken_back(house: House) -> None:
    await settled(house)
    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    house.api.hold()
    await house.settle(seconds=2)
    assert waiting_for(house)

    group = house.api.objects["PodGroup", "default", "pg-a"]
    group = group | {"metadata": group["metadata"] | {"resourceVersion": "1000"}, "status": {}}
    house.world.pod_groups.upsert(decode_group(msgspec.json.encode(group)))
    await house.settle(seconds=1)

    assert not waiting_for(house)


async def test_of_two_that_wait_the_one_that_does_not_run_yet_is_named(house: House) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    house.submit_jobset(jobset.build())
    await house.settle()
    runs = house.api.objects["PodGroup", "default", "pg-a-b-0"]
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
    status = {"blocker": {"summary": "1 more fits"}, "conditions": [condition]}
    house.api.put(runs | {"status": status})
    blocked(house, "pg-a-b-1", "none fits")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    assert waiting_for(house) == "PodGroup pg-a-b-1: none fits"


async def test_annotations_that_others_made_meanwhile_stay(house: House) -> None:
    jobset = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang")
    made = house.submit_jobset(jobset.build())
    await house.settle()
    metadata = made["metadata"] | {"annotations": {"theirs": "kept"}}
    house.api.unseen(made | {"metadata": metadata})

    blocked(house, "pg-a-b", "1 fits")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    notes = house.api.objects["JobSet", "default", "a"]["metadata"]["annotations"]
    assert notes == {"theirs": "kept"}


async def test_a_namesake_is_not_told_what_the_first_one_waited_for(house: House) -> None:
    await settled(house)
    plain = gang().build()
    namesake = house.api.unseen(plain | {"kind": "JobSet", "metadata": renewed(plain)})

    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    assert house.api.objects["JobSet", "default", "a"] == namesake


async def test_the_note_goes_when_nothing_waits_any_more(house: House) -> None:
    await settled(house)
    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    blocked(house, "pg-a", "")
    await house.settle(seconds=1)

    notes = house.api.objects["JobSet", "default", "a"]["metadata"]["annotations"]
    assert ANNOTATION_WAITING_FOR not in notes


async def test_the_group_at_fault_is_named_and_not_one_that_waits_for_it(house: House) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    house.submit_jobset(jobset.build())
    await house.settle()

    pointing = 'waits for pod group "pg-a-b-1": 1 fits'
    blocked(house, "cpg-a", pointing, "CompositePodGroup")
    blocked(house, "pg-a-b-0", pointing)
    blocked(house, "pg-a-b-1", "1 fits")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    assert waiting_for(house) == "PodGroup pg-a-b-1: 1 fits"


async def test_a_jobset_without_annotations_is_told_too(house: House) -> None:
    jobset = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang")
    house.submit_jobset(jobset.build())
    await house.settle()

    blocked(house, "pg-a-b", "1 fits")
    await house.settle(seconds=1)
    await house.settle(seconds=3)

    assert waiting_for(house) == "PodGroup pg-a-b: 1 fits"


async def test_a_note_that_was_dropped_by_a_replace_is_written_again(house: House) -> None:
    await settled(house)
    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    await house.settle(seconds=30)
    assert waiting_for(house)

    obj = house.api.objects["JobSet", "default", "a"]
    notes = dict(obj["metadata"]["annotations"])
    del notes[ANNOTATION_WAITING_FOR]
    house.api.put(obj | {"metadata": obj["metadata"] | {"annotations": notes}})
    await house.settle(seconds=30)

    assert waiting_for(house) == "PodGroup pg-a: 5 fit"


FINISHED = {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}


@pytest.mark.parametrize("suspended", [True, False])
async def test_who_is_finished_or_suspended_waits_for_nothing(
    house: House, suspended: bool
) -> None:
    await settled(house)
    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    await house.settle(seconds=30)

    obj = house.api.objects["JobSet", "default", "a"]
    house.api.put(pod("p", "pg-a"))  # it keeps the group while suspended
    suspend = {"spec": obj["spec"] | {"suspend": True}}
    house.api.put(obj | (suspend if suspended else FINISHED))
    await house.settle()

    assert waiting_for(house) == ""
