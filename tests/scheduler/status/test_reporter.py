"""The statuses of groups and pods, and the events of groups and owners."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from api.models import v1alpha3 as models
from kube.client.meta import Json
from kube.client.patch import Operation
from kube.client.resources import PODS
from scheduler.core.values.model import Requirements
from scheduler.decoding.objects import decode_group
from scheduler.status import group_status, reporter
from scheduler.status.conditions import held_views
from scheduler.support.kinds import GROUPS
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import requests
from tests.support.counting import calls


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
            "The group has 1 of 2 pods. Create 1 more pod that names the group, or lower minCount.",
        ),
        (
            "False",
            "Unschedulable",
            (
                "0/1 nodes are available: 1 Insufficient cpu. The group needs capacity for 2"
                " more pods; 1 fits. Waiting does not help: at most 1 such pod fits"
                " on empty nodes. Lower"
                " minCount to 1, or add nodes."
            ),
        ),
        ("True", "Scheduled", "minCount pods are scheduled."),
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


def written(ops: list[Operation]) -> Json:
    """Return the condition of a patch: the only one of a list, or a replaced one."""
    value = ops[-1]["value"]
    condition: Json = value[0] if isinstance(value, list) else value
    return condition


def told_to_pods(harness: Harness) -> list[tuple[str, str, str]]:
    """Return (pod, reason, message) of each condition, in the order of the writes."""
    conditions = ((name, written(ops)) for kind, name, ops in harness.api.patches if kind == "Pod")
    return [(name, said["reason"], said["message"]) for name, said in conditions]


def pod_reasons(harness: Harness) -> dict[str, str]:
    return {name: reason for name, reason, _ in told_to_pods(harness)}


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

    what = "minGroupCount child groups" if levels > 1 else "minCount pods"
    placed = f"{what} are scheduled in"
    assert before == ("True", "Scheduled", f"{placed} one rack, as preferred: r000.")
    message = f"{placed} 2 values of rack, one is preferred: r000, r001."
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

    assert "The group needs capacity for 5 more pods" in harness.condition(large)[2]
    for key in (root, fits):
        status, reason, message = harness.condition(key)
        assert (status, reason) == ("False", "Unschedulable")
        assert message.startswith('Waiting for PodGroup "large": 0/')


async def test_all_pods_of_a_root_that_waits_for_room_are_unschedulable() -> None:
    """Autoscalers only act on this reason: otherwise a partly fitting gang would wait forever."""
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

    assert pod_reasons(harness) == {
        "p00001": "Unschedulable",
        "p00002": "Unschedulable",
        "p00003": "Unschedulable",
        huge.name: "Unschedulable",
        "misfit": "Invalid",
    }
    assert harness.condition(flawed)[1] == "Invalid"


async def test_all_pods_of_a_tree_that_waits_for_room_are_unschedulable() -> None:
    """The exception is a group that lacks members itself: no node would help them."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=2)
    builder.composite("root", 2)
    builder.composite("inner", 1, parent="root")
    builder.composite("short", 2, parent="root")
    for name, size, parent in (("large", 5, "inner"), ("fits", 1, "root"), ("half", 1, "short")):
        builder.gang(name, size, parent=parent)
        builder.pod(name, name=f"of-{name}")
    builder.pods("large", 4)
    builder.gang("few", 2, parent="root")
    builder.pod("few", name="of-few")
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(3)

    said = {name: message for name, _, message in told_to_pods(harness)}
    reasons = pod_reasons(harness)
    assert {name: reasons.pop(name) for name in ("of-few", "of-half")} == {
        "of-few": "CoschedulingNotMeetMinMember",
        "of-half": "CoschedulingNotMeetMinMember",
    }
    assert said["of-few"].startswith('Waiting for PodGroup "few": The group has 1 of 2 pods')
    assert said["of-half"].startswith('Waiting for CompositePodGroup "short": The group has 1')
    assert len(reasons) == 6
    assert set(reasons.values()) == {"Unschedulable"}


async def test_the_reason_of_pods_stays_while_nodes_join_one_after_another() -> None:
    harness = Harness()
    builder = harness.builder
    builder.composite("root", 2)
    for name in ("a", "b"):
        builder.gang(name, 3, parent="root")
        builder.pods(name, 3)
    harness.observe_pods()

    async with harness.leading():
        for index in range(3):
            await harness.settle(3)
            assert set(pod_reasons(harness).values()) == {"Unschedulable"}
            builder.node(f"more{index}", cpu=2)
        await harness.settle(3)

    assert len(harness.api.bound) == 6
    assert {reason for _, reason, _ in told_to_pods(harness)} == {"Unschedulable"}


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
    assert len(harness.events.told) == 3, "one on the group, one on each pod"


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
    """Within five seconds, and not with a write for each change."""
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    key = harness.builder.gang("g", 9)
    harness.builder.pods("g", 9)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(2)
        for number in range(8):
            harness.builder.node(f"less{number}", cpu=1)
            await harness.settle(0.25)
            harness.builder.state.remove_node(f"less{number}")
        harness.builder.node("more", cpu=2)
        await harness.settle(5)

    assert 2 <= len(harness.api.patches) <= 4
    assert harness.condition(key)[2] == (
        "0/2 nodes are available: 2 Insufficient cpu. The group needs capacity for 9 more"
        " pods; 3 fit. Waiting does not help: at most 3 such pods fit"
        " on empty nodes. Lower minCount to 3,"
        " or add nodes."
    )


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param({"free": 3}, True, id="room"),
        pytest.param({"summary": "room for 3: on 3 of 9 nodes"}, True, id="numbers"),
        pytest.param({"summary": "others took the place"}, False, id="other words"),
        pytest.param({"counts": [{"reason": "r", "nodes": 9}]}, True, id="nodes"),
        pytest.param({"counts": [{"reason": "other", "nodes": 9}]}, False, id="another reason"),
        pytest.param({"needed": 4}, False, id="another need"),
        pytest.param({"kind": "quorum"}, False, id="another kind"),
        pytest.param({"counts": "forged"}, False, id="forged"),
    ],
)
def test_numbers_are_told_from_causes(after: dict[str, Any], *, want: bool) -> None:
    before = {
        "summary": "room for 1: on 1 of 1 node",
        "kind": "capacity",
        "needed": 2,
        "free": 1,
        "counts": [{"reason": "r", "nodes": 1}],
    }

    found = group_status.only_numbers_differ({"blocker": before | after}, {"blocker": before})

    assert found == want


@pytest.mark.parametrize("place", ["group_view", "pod_views"])
async def test_a_root_whose_report_raises_does_not_keep_others_from_being_reported(
    place: str,
) -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    for name in ("a", "poison", "z"):
        harness.observe(harness.builder.gang(name, 3))
        harness.builder.pods(name, 3)
    harness.observe_pods()
    original = getattr(reporter, place)
    tried: list[str] = []

    def faulty(*args: Any) -> Any:
        key = args[2].at if place == "pod_views" else args[1].key
        tried.append(key[2])
        if key[2] == "poison":
            raise KeyError("report")
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporter, place, faulty)
        async with harness.leading(unsettled="one root is never reported"):
            await harness.settle(120)
            details = list(harness.reporter.details())

    for name in ("a", "z"):
        assert harness.condition(("PodGroup", "ns", name))[1] == "Unschedulable"
    assert details == ["report: failing: PodGroup/ns/poison (KeyError: 'report')"]
    assert 2 <= tried.count("poison") <= 20


async def test_reports_of_many_groups_without_changes_leave_pods_their_writes() -> None:
    harness = Harness()
    builder, reported = harness.builder, harness.reporter
    flood = [builder.gang(f"g{number:03}", 1) for number in range(200)]
    waiting = replace(builder.pod(name="waiting"), unclaimed="its claim is missing")
    builder.state.set_pod(waiting)
    harness.observe_pod(waiting)
    reported.touched([builder.state.pods[waiting.uid].key])
    await harness.clock.advance(10)
    for _ in range(5):
        # Without objects, there is nothing to write for them.
        reported.touched(flood)
        await harness.clock.advance(1)
        assert await reported.flush(harness.fence)

    assert [(kind, name) for kind, name, _ in harness.api.patches] == [("Pod", "waiting")]


def test_pods_with_scheduling_gates_cost_reports_nothing() -> None:
    def cost(gated: int) -> int:
        harness = Harness()
        key = harness.builder.gang("g", 1)
        for _ in range(gated):
            harness.builder.pod("g", gated=True)
        return calls(lambda: list(harness.reporter._pod_views(key)))

    assert cost(500) == cost(5)


async def test_the_report_of_a_held_pod_that_raises_backs_off() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    poison = replace(harness.builder.pod(name="poison"), unclaimed="its claim is missing")
    harness.builder.state.set_pod(poison)
    harness.observe_pods()
    tried = 0

    def faulty(_pods: Any) -> Any:
        nonlocal tried
        tried += 1
        raise KeyError("report")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporter, "held_views", faulty)
        async with harness.leading(unsettled="one pod is never reported"):
            await harness.settle(300)
            details = list(harness.reporter.details())

    assert details == ["report: failing: Pod/ns/poison (KeyError: 'report')"]
    assert 2 <= tried <= 8


@pytest.mark.parametrize("child", [False, True])
async def test_pods_that_wait_for_their_group_to_grow_say_so_after_a_while(child: bool) -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    parent = harness.builder.composite("top", 1)[2] if child else None
    key = harness.builder.gang("g", 1, parent=parent)
    harness.builder.pod("g")
    state = harness.builder.state
    new = replace(harness.builder.pod("g", name="new"), exceeds=True)
    state.set_pod(new)
    harness.observe(key)
    harness.observe_pod(new)

    async with harness.leading():
        await harness.settle(1)
        assert not [name for kind, name, _ in harness.api.patches if kind == "Pod"]
        await harness.settle(10)

    said = [written(ops) for kind, name, ops in harness.api.patches if name == "new"]
    assert [it["reason"] for it in said] == ["CoschedulingNotMeetMinMember"]
    assert said[0]["message"].startswith('PodGroup "g" grows with its owner. The pod waits')


def test_pods_that_wait_for_their_group_to_grow_name_the_gate_that_is_off() -> None:
    builder = Harness().builder
    key = builder.gang("g", 1)
    builder.state.set_pod(replace(builder.pod("g"), exceeds=True))
    group = builder.state.forest.groups[key]
    assert group.spec is not None
    builder.state.set_group(replace(group.spec, maker_off="WorkloadWithJob"))

    (view,) = held_views(group.held_by("growth").values())

    assert view.message == (
        'PodGroup "g" does not grow with its owner because feature gate WorkloadWithJob is off.'
        " The pod waits until it is on."
    )


@pytest.mark.parametrize("how", ["fails", "goes", "minCount is raised"])
async def test_a_gang_that_ran_whole_was_scheduled_whatever_comes_before_the_report(
    how: str,
) -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(2, cpu=1)
    key = builder.gang("g", 2)
    pod, _ = builder.pods("g", 2)
    harness.observe(key)

    async with harness.leading():
        await harness.settle()
        assert len(harness.api.bound) == 2
        assert harness.condition(key)[0] == "", "nothing is written yet"
        if how == "fails":
            builder.state.set_pod(replace(builder.state.pods[pod.uid].info, phase="Failed"))
        elif how == "goes":
            builder.state.remove_pod(pod.uid)
        else:
            builder.gang("g", 3)
        await harness.settle(6)

    status, reason, message = harness.condition(key)
    assert (status, reason) == ("True", "Scheduled")
    assert message.startswith("minCount pods were scheduled. The group has ")
    assert [told[:2] for told in harness.events.told] == [("PodGroup/g", "Scheduled")]


async def test_a_pod_waits_since_it_began_to_wait_whatever_it_waits_for() -> None:
    """An alert on pods that are unschedulable for 15 minutes must fire for this one."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    harness.observe(builder.gang("g", 2))
    (one,) = builder.pods("g", 1)
    harness.observe_pods()
    async with harness.leading(unsettled="it goes on"):
        await harness.settle(60)
        builder.pods("g", 1)  # now it has its pods, but they do not fit
        await harness.settle(120)

    conditions = [written(ops) for kind, name, ops in harness.api.patches if name == one.name]
    assert len({said["reason"] for said in conditions}) > 1
    assert len({said["lastTransitionTime"] for said in conditions}) == 1


async def test_a_pod_that_was_scheduled_for_others_waits_since_now() -> None:
    """A condition with another status is no transition of this one."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    harness.observe(builder.gang("g", 2))
    (one, _) = builder.pods("g", 2)
    harness.observe_pods()
    stored = harness.api.stored(PODS, one.name, "ns")
    assert stored is not None
    said = {
        "type": "PodScheduled",
        "status": "Unknown",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    harness.api.put(PODS, stored | {"status": {"conditions": [said]}})
    async with harness.leading():
        await harness.settle(60)

    (now,) = [written(ops) for kind, name, ops in harness.api.patches if name == one.name]
    assert now["lastTransitionTime"] > "2020-01-01T00:00:00Z"


async def test_that_priorities_differ_by_now_is_told_once_for_each_change() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(3, cpu=1)
    key = builder.gang("g", 2, priority=0)
    harness.observe(key)
    first, _ = builder.pods("g", 2)

    async with harness.leading():
        await harness.settle(5)
        assert not [why for _, why, _ in harness.events.told if why == "PrioritiesDiffer"]
        builder.state.remove_pod(first.uid)
        builder.pod("g", priority=5)
        await harness.settle(60)

    assert len(harness.api.bound) == 3
    text = (
        "The group has priority 0 and has pods of priorities 0, 5 because a PriorityClass changed"
        " since the group was created. The scheduler uses 0."
    )
    told = [it for it in harness.events.told if it[1] == "PrioritiesDiffer"]
    assert told == [("PodGroup/g", "PrioritiesDiffer", text)]


async def test_what_others_wrote_to_a_status_is_not_overwritten() -> None:
    """The watch lags: the write is rejected, and repeated once the event has arrived."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    key = builder.gang("g", 2)
    harness.observe(key)
    builder.pods("g", 2)
    foreign = {"type": "Foreign", "status": "True"}
    groups = GROUPS["PodGroup"]
    harness.status_api.change(groups, "g", {"status": {"conditions": [foreign]}}, "ns")

    def stored() -> Json:
        found = harness.status_api.stored(groups, "g", "ns")
        assert found is not None
        return found

    async with harness.leading(unsettled="the watch is late"):
        await harness.settle(2)
        assert stored()["status"]["conditions"] == [foreign]
        harness.observed[key] = decode_group(json.dumps(stored()).encode())
        await harness.settle(5)  # a conflict is not a failure with a longer backoff
        types = {each["type"] for each in stored()["status"]["conditions"]}

    assert types == {"Foreign", "PodGroupInitiallyScheduled"}


async def test_nothing_is_written_from_the_middle_of_a_decision() -> None:
    """A decision begins between the collection of writes and their first request."""
    harness = Harness()
    key = harness.builder.gang("g", 1)
    frozen: list[bool] = []

    async def send() -> None:
        frozen.append(harness.freeze.is_active)

    async def decide() -> None:
        with harness.freeze:
            for _ in range(5):
                await asyncio.sleep(0)

    decision = asyncio.create_task(decide())
    write = reporter._Write(key, key, send)
    await harness.reporter._carry_out([write], harness.fence)
    await decision

    assert frozen == [False]
