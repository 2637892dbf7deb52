"""PodGroups without a policy take it from their template when that appears (KEP-5832)."""

from typing import Any

from tests.controllers.conftest import House
from tests.controllers.test_implicit import spec, template, waiting, workload

Json = dict[str, Any]


async def test_a_policy_comes_from_a_template_that_appears_later(house: House) -> None:
    house.api.put(waiting(disruptionMode={"all": {}}))
    await house.settle()
    assert house.api.writes == []

    said: Json = {"disruptionMode": {"single": {}}, "priorityClassName": "high"}
    house.api.put(workload(template(count=3, **said)))
    await house.settle()

    assert spec(house, "g") == {
        "workloadRef": {"workloadName": "jobset", "templateName": "job-1"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "high",
        "disruptionMode": {"all": {}},
    }
    assert house.api.writes == [("patch", "PodGroup", "g")]


async def test_a_group_that_comes_after_its_template_is_filled_too(house: House) -> None:
    house.api.put(workload(template(count=3)))
    house.api.put(waiting())

    await house.settle()

    assert spec(house, "g")["schedulingPolicy"] == {"gang": {"minCount": 3}}


async def test_a_policy_of_the_user_s_is_kept(house: House) -> None:
    house.api.put(workload(template(count=3)))
    house.api.put(waiting(schedulingPolicy={"basic": {}}))

    await house.settle()

    assert house.api.writes == []


async def test_a_group_of_another_s_is_not_filled(house: House) -> None:
    """It took the name, and its event is still under way."""
    house.api.put(waiting())
    await house.settle()
    foreign = house.api.unseen(waiting())

    house.api.put(workload(template(count=3)))
    await house.settle()

    assert house.api.objects["PodGroup", "default", "g"] == foreign
