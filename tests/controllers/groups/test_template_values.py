"""PodGroups without a policy take it from their template when that appears (KEP-5832)."""

from typing import Any

from tests.controllers.conftest import ControllerHarness
from tests.controllers.groups.test_implicit_groups import spec, template, waiting, workload

Json = dict[str, Any]


async def test_a_policy_comes_from_a_template_that_appears_later(
    harness: ControllerHarness,
) -> None:
    harness.api.put(waiting(disruptionMode={"all": {}}))
    await harness.settle()
    assert harness.api.writes == []

    said: Json = {"disruptionMode": {"single": {}}, "priorityClassName": "high"}
    harness.api.put(workload(template(count=3, **said)))
    await harness.settle()

    assert spec(harness, "g") == {
        "workloadRef": {"workloadName": "jobset", "templateName": "job-1"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "high",
        "disruptionMode": {"all": {}},
    }
    assert harness.api.writes == [("patch", "PodGroup", "g")]


async def test_a_group_that_comes_after_its_template_is_filled_too(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload(template(count=3)))
    harness.api.put(waiting())

    await harness.settle()

    assert spec(harness, "g")["schedulingPolicy"] == {"gang": {"minCount": 3}}


async def test_a_policy_of_the_user_s_is_kept(harness: ControllerHarness) -> None:
    harness.api.put(workload(template(count=3)))
    harness.api.put(waiting(schedulingPolicy={"basic": {}}))

    await harness.settle()

    assert harness.api.writes == []


async def test_a_group_of_another_s_is_not_filled(harness: ControllerHarness) -> None:
    """It took the name, and its event has not arrived yet."""
    harness.api.put(waiting())
    await harness.settle()
    foreign = harness.api.put_unseen(waiting())

    harness.api.put(workload(template(count=3)))
    await harness.settle()

    assert harness.api.objects["PodGroup", "default", "g"] == foreign
