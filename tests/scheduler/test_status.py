"""The statuses of groups and pods, and the events of groups and owners."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from api.models import v1alpha3 as models
from scheduler.core.model import Requirements
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import requests


async def test_a_gang_is_incomplete_then_unschedulable_then_scheduled() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    key = harness.builder.gang("g", 2)
    harness.observe(key)
    said = []

    async with harness.leading():
        harness.builder.pod("g")
        await harness.settle(2)
        said.append(harness.condition(key))
        harness.builder.pod("g")
        await harness.settle(2)
        said.append(harness.condition(key))
        harness.builder.nodes(2, cpu=1)
        await harness.settle(6)
        said.append(harness.condition(key))

    assert said == [
        (
            "False",
            "Incomplete",
            "has 1 of 2 pods: if no more come, the events of their Job say why",
        ),
        (
            "False",
            "Unschedulable",
            (
                "needs room for 2 more pods, there is room for 1: cpu short on 1 of 1 node; "
                "impossible even if the cluster were empty; "
                "at most 1 pod of this kind fit: lower minCount or add nodes"
            ),
        ),
        ("True", "Scheduled", "has its minCount placed"),
    ]
    status = harness.observed[key].status or {}
    assert "blocker" not in status
    assert (status["members"], status["scheduledPods"]) == (2, 2)
    assert [told[:2] for told in harness.events.told] == [
        ("PodGroup/g", "Unschedulable"),
        ("PodGroup/g", "Scheduled"),
    ]


async def test_the_blocker_has_numbers() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.pod(node="n0")
    key = harness.builder.gang("g", 2)
    harness.builder.pods("g", 2)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(2)

    blocker = (harness.observed[key].status or {})["blocker"]
    assert (blocker["kind"], blocker["needed"], blocker["free"]) == ("capacity", 2, 1)
    assert blocker["counts"] == [{"reason": "Insufficient cpu", "nodes": 2}]
    assert blocker["impossible"] is False
    models.Blocker.model_validate_json(msgspec.json.encode(blocker), strict=True)


async def test_scheduled_stays_true_when_members_leave() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    key = harness.builder.gang("g", 2)
    pod, _ = harness.builder.pods("g", 2)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(6)
        harness.builder.state.remove_pod(pod.uid)
        await harness.settle(6)

    assert harness.condition(key)[0] == "True"


@pytest.mark.parametrize("levels", [1, 2])
async def test_a_scheduled_group_says_what_was_reached_of_its_preference(levels: int) -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=1, rack_of=2)
    if levels > 1:
        key = harness.builder.gang("g", 1, prefer_rack=True, composite=True)
        harness.builder.gang("leaf", 2, parent="g")
    else:
        key = harness.builder.gang("g", 2, prefer_rack=True)
    leaf = "leaf" if levels > 1 else "g"
    harness.builder.pods(leaf, 2)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(6)
        before = harness.condition(key)
        harness.builder.pods(leaf, 2)
        await harness.settle(6)

    placed = f"has its {'minGroupCount' if levels > 1 else 'minCount'} placed, in"
    assert before == ("True", "Scheduled", f"{placed} one rack as preferred: r000")
    message = f"{placed} 2 values of rack where one was preferred: r000, r001"
    assert harness.condition(key) == ("True", "Scheduled", message)


@pytest.mark.parametrize("leaving", [False, True])
async def test_disruption_target_is_false_when_an_evicted_group_runs_again(leaving: bool) -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    key = harness.builder.gang("g", 1)
    pod = harness.builder.pod("g", node="n0")
    if leaving:
        harness.builder.state.units.mark_evicting([harness.builder.state.pods[pod.uid]])
    harness.observe(key)
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    harness.observed[key].status = {"conditions": [mark]}

    async with harness.leading():
        harness.builder.state.reconsider_all()
        await harness.settle(2)

    conditions = (harness.observed[key].status or {})["conditions"]
    (mark,) = [each for each in conditions if each["type"] == "DisruptionTarget"]
    assert mark["status"] == ("True" if leaving else "False")


async def test_the_best_domain_has_the_types_of_the_api() -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=2, rack_of=2)
    key = harness.builder.gang("g", 5, rack=True)
    harness.builder.pods("g", 5)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(2)

    status = harness.observed[key].status or {}
    assert status["blocker"]["bestDomain"] == {"key": "rack", "value": "r000", "missing": 1}
    models.PodGroupStatus.model_validate_json(msgspec.json.encode(status), strict=True)


async def test_every_level_of_a_tree_points_at_the_group_at_fault() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=2)
    root = harness.builder.composite("root", 2)
    fits = harness.builder.gang("fits", 1, parent="root")
    large = harness.builder.gang("large", 5, parent="root")
    harness.builder.pods("fits", 1)
    harness.builder.pods("large", 5)
    harness.observe(root, fits, large)

    async with harness.leading():
        await harness.settle(2)

    assert harness.condition(large)[2].startswith("needs room for 5 more pods")
    for key in (root, fits):
        status, reason, message = harness.condition(key)
        assert (status, reason) == ("False", "Unschedulable")
        assert message.startswith('waits for pod group "large": needs room for 5')


async def test_pod_conditions_say_whether_the_pod_or_its_group_does_not_fit() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=2)
    harness.builder.gang("many", 3)
    harness.builder.pods("many", 3)
    huge = harness.builder.pod(cpu=9)
    flawed = harness.builder.gang("flawed", 1, priority=7)
    harness.builder.pod("flawed", name="misfit")
    harness.observe(flawed)
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(3)

    reasons = {
        name: ops[-1]["value"][0]["reason"] for kind, name, ops in harness.api.patches
        if kind == "Pod"
    }  # fmt: skip
    assert reasons == {
        "p00001": "CoschedulingNotMeetMinMember",
        "p00002": "CoschedulingNotMeetMinMember",
        "p00003": "CoschedulingNotMeetMinMember",
        huge.name: "Unschedulable",
        "misfit": "SchedulerError",
    }
    assert harness.condition(flawed)[1] == "Invalid"


async def test_an_unchanged_status_is_not_written_twice() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    key = harness.builder.gang("g", 2)
    harness.builder.pods("g", 2)
    harness.observe(key)
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(3)
        writes = len(harness.api.patches)
        for _ in range(5):
            harness.builder.state.reconsider_all()
            await harness.settle(3)

    assert writes == 3
    assert len(harness.api.patches) == writes
    assert len(harness.events.told) == 1


async def test_an_unsupported_feature_is_named_on_the_group() -> None:
    harness = Harness()
    harness.builder.nodes(1)
    key = harness.builder.gang("g", 1)
    harness.builder.pod("g", requirements=Requirements(requests(1), unsupported=("hostPort",)))
    harness.observe(key)

    async with harness.leading():
        await harness.settle(2)

    assert "hostPort" in harness.condition(key)[2]


async def test_nothing_is_written_once_the_lease_may_be_lost() -> None:
    harness = Harness()
    key = harness.builder.gang("g", 2)
    harness.builder.pod("g")
    harness.observe(key)
    harness.fence.revoke()

    async with harness.leading():
        await harness.settle(5)

    assert harness.api.patches == []


async def test_the_numbers_follow_the_cluster_even_if_the_root_still_does_not_fit() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    key = harness.builder.gang("g", 9)
    harness.builder.pods("g", 9)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(2)
        harness.builder.node("more", cpu=2)
        await harness.settle(8)

    assert harness.condition(key)[2] == (
        "needs room for 9 more pods, there is room for 3: cpu short on 2 of 2 nodes; "
        "impossible even if the cluster were empty; "
        "at most 3 pods of this kind fit: lower minCount or add nodes"
    )


async def test_a_gang_is_not_reported_while_it_is_being_bound() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    slow, quick = builder.gang("slow", 2), builder.gang("quick", 2)
    builder.pods("quick", 2)
    last = builder.pods("slow", 2)[-1]
    harness.observe(slow, quick)
    answered = harness.api.delayed[last.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle(6)
        patched = {name for _, name, _ in harness.api.patches}
        assert patched == {"quick"}, "others are not kept waiting by it"

        answered.set()
        await harness.settle(6)
        assert harness.condition(slow)[0] == "True"
    writes = [name for _, name, _ in harness.api.patches]
    assert writes.count("slow") == 1


@pytest.mark.parametrize(
    ("waits", "told"),
    [
        pytest.param(6, [], id="soon"),
        pytest.param(70, ["g"], id="for a minute at most"),
    ],
)
async def test_a_gang_is_reported_once_the_watch_confirms_its_bindings(
    waits: int, told: list[str]
) -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    group = builder.gang("g", 2)
    pods = builder.pods("g", 2)
    harness.observe(group)
    harness.api.deliver = False

    async with harness.leading():
        await harness.settle(waits)
        early = [name for _, name, _ in harness.api.patches]
        for pod in pods:
            harness.api.deliver_binding(pod.name)
        await harness.settle(2)
        assert harness.condition(group)[0] == "True"

    assert early == told


async def test_gangs_that_lack_members_are_reported_later_while_others_are_bound() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    few = builder.gang("few", 3)
    builder.pods("few", 2)
    last = builder.pod()
    harness.observe(few)
    answered = harness.api.delayed[last.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle(15)
        early = [name for _, name, _ in harness.api.patches]
        await harness.settle(10)
        late = [name for _, name, _ in harness.api.patches]
        answered.set()
        await harness.settle(1)

    assert (early, late) == ([], ["few"])


async def test_many_gangs_are_reported_in_rounds_without_a_pause_the_oldest_first() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    for number in range(250):
        group = builder.gang(f"g{number:03}", 2)
        builder.pod(f"g{number:03}")
        harness.observe(group)

    async with harness.leading():
        await harness.settle(0.75)

    names = [name for _, name, _ in harness.api.patches]
    assert names == sorted(names)
    assert len(names) == 250


async def test_waiting_pods_are_reported_later_while_others_are_bound() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(2)
    last = builder.pod()
    huge = builder.pod(cpu=9)
    harness.observe_pods()
    answered = harness.api.delayed[last.name] = asyncio.Event()

    def told() -> list[str]:
        return [name for kind, name, _ in harness.api.patches if kind == "Pod"]

    async with harness.leading():
        await harness.settle(15)
        early = told()
        await harness.settle(10)
        late = told()
        answered.set()
        await harness.settle(1)

    assert (early, late) == ([], [huge.name])


async def test_groups_that_change_do_not_wait_for_thousands_of_pods() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=2)
    for _ in range(1_600):
        builder.pod(cpu=9)
    harness.observe_pods()
    group = builder.gang("late", 1)
    harness.observe(group)

    async with harness.leading():
        await harness.settle(0.5)
        builder.pod("late", cpu=1)
        await harness.settle(2)

    names = [name for _, name, _ in harness.api.patches]
    waits, runs = (at for at, name in enumerate(names) if name == "late")
    assert (waits, len(names)) == (0, 1_602)
    assert runs < 1_600, "between two rounds of pods"
