"""What a Job or JobSet waits for is told on itself: late enough, seldom enough, and taken back."""

from typing import Any

from api.constants import ANNOTATION_WAITING_FOR
from tests.controllers.conftest import House
from tests.controllers.test_owners import gang, waiting_for
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


async def test_a_finished_jobset_waits_for_nothing(house: House) -> None:
    await settled(house)
    blocked(house, "pg-a", "5 fit")
    await house.settle(seconds=1)
    await house.settle(seconds=30)

    obj = house.api.objects["JobSet", "default", "a"]
    status = {"conditions": [{"type": "Completed", "status": "True"}]}
    house.api.put(obj | {"status": status})
    await house.settle()

    assert waiting_for(house) == ""
