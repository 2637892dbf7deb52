"""Groups of higher priority evict complete units of lower priority, and no more than needed."""

import asyncio
from datetime import UTC, datetime, timedelta

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_MIN_RUN_TIME,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_TOPOLOGY,
)
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, remove_finalizers
from e2e.harness.objects import Json, jobset, of_jobset, pod, replicated_job
from kube.client.resources import EVENTS, JOBSETS, PODS

RACK = "test.muster.dev/rack"
HOLD = "test.muster.dev/hold"


async def racks(env: Environment, count: int = 2, *, nodes: int = 2) -> None:
    for rack in range(count):
        for _ in range(nodes):
            await env.add_node(cpu=2, labels={RACK: f"r{rack}"})


def in_one_rack(name: str, room: str, *, important: str | None = None) -> Json:
    """Return a JobSet of four pods that are one unit in one rack."""
    made = jobset(name, replicated_job("w", room, replicas=2, pods=2))
    annotations = made["metadata"]["annotations"]
    annotations |= {ANNOTATION_TOPOLOGY: RACK, ANNOTATION_DISRUPTION_MODE: "All"}
    if important:
        template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        template["priorityClassName"] = important
    return made


async def terminating(env: Environment, selector: str) -> int:
    return sum("deletionTimestamp" in pod["metadata"] for pod in await env.pods(selector))


async def all_terminate(env: Environment, selector: str, count: int) -> None:
    async def probe() -> bool:
        return await terminating(env, selector) == count

    await env.until(f"{count} pods of {selector} to terminate", probe)


async def test_a_jobset_takes_exactly_one_rack_of_lower_ones(
    env: Environment, important: str
) -> None:
    await racks(env, 3)
    for name in ("low0", "low1", "low2"):
        await env.create(JOBSETS, in_one_rack(name, env.name))
        await env.runs(of_jobset(name), 4)
    before = {name: await env.uids(of_jobset(name)) for name in ("low0", "low1", "low2")}

    await env.create(JOBSETS, in_one_rack("high", env.name, important=important))
    await env.runs(of_jobset("high"), 4)

    kept = [name for name, pods in before.items() if pods == await env.uids(of_jobset(name))]
    assert len(kept) == 2
    (lost,) = set(before) - set(kept)
    assert not before[lost] & await env.uids(of_jobset(lost))
    events = (await env.client.list(EVENTS, env.name))["items"]
    said = {(e["reason"], e["regarding"]["name"]): e["note"] for e in map(_told, events)}
    assert f"pg-{lost}" in said["Preempting", "pg-high"]
    assert "pg-high" in said["Preempted", f"pg-{lost}"]
    group = await env.group(f"pg-{lost}")
    marks = {c["type"]: c["reason"] for c in group["status"]["conditions"]}
    assert marks["DisruptionTarget"] == "PreemptionByScheduler"


def _told(event: Json) -> Json:
    """Return an event, with the names of either API that serves it."""
    return {
        "reason": event["reason"],
        "regarding": event.get("regarding") or event["involvedObject"],
        "note": event.get("note") or event.get("message", ""),
    }


async def test_victims_that_take_long_are_waited_for(env: Environment, important: str) -> None:
    await racks(env)
    for index in range(2):
        await leaf(
            env,
            f"low{index}",
            4,
            key=RACK,
            mode="all",
            of_pod={"terminationGracePeriodSeconds": 30},
            finalizers=(HOLD,),
        )
        await env.runs(members(f"low{index}"), 4)

    await leaf(env, "high", 4, key=RACK, priority_class=important,
               of_pod={"priorityClassName": important})  # fmt: skip
    await env.waits("high", needed=4)

    async def one_goes() -> bool:
        return sorted([await terminating(env, members(f"low{i}")) for i in range(2)]) == [0, 4]

    await env.until("one unit to terminate", one_goes)
    await asyncio.sleep(2)  # no further change may happen
    assert await one_goes()
    assert await env.bound(members("high")) == 0
    nominated = {pod["status"].get("nominatedNodeName") for pod in await env.pods(members("high"))}
    assert None not in nominated

    for index in range(2):
        await remove_finalizers(env, members(f"low{index}"))
    await env.runs(members("high"), 4)


async def test_victims_have_their_whole_grace_period(
    env: Environment, important: str, long: bool
) -> None:
    grace = 30 if long else 2
    await racks(env)
    for index in range(2):
        of_pod = {"terminationGracePeriodSeconds": grace}
        await leaf(env, f"low{index}", 4, key=RACK, mode="all", of_pod=of_pod, finalizers=(HOLD,))
        await env.runs(members(f"low{index}"), 4)

    async with env.followed() as pods:
        given: dict[str, int] = {}
        overlap: set[str] = set()

        def look(_old: object, _new: object) -> None:
            leaving = [p.raw for p in pods.values() if "deletionTimestamp" in p.raw["metadata"]]
            for pod in leaving:
                meta = pod["metadata"]
                seconds = meta.get("deletionGracePeriodSeconds") or 0
                given[meta["name"]] = max(given.get(meta["name"], 0), seconds)
            taken = {pod["spec"]["nodeName"] for pod in leaving}
            overlap.update(
                p.raw["metadata"]["name"]
                for p in pods.values()
                if p.raw["metadata"]["name"].startswith("high")
                and p.raw["spec"].get("nodeName") in taken
            )

        pods.subscribe(look)
        await leaf(env, "high", 4, key=RACK, priority_class=important,
                   of_pod={"priorityClassName": important})  # fmt: skip
        await env.until("victims to terminate", lambda: _some(given, 4))
        await asyncio.sleep(grace)  # the time that the victims take to stop
        for index in range(2):
            await remove_finalizers(env, members(f"low{index}"))
        await env.runs(members("high"), 4)

    assert set(given.values()) == {grace}
    assert len(given) == 4
    assert len({name.partition("-")[0] for name in given}) == 1
    assert not overlap


async def _some(given: Json, count: int) -> bool:
    return len(given) == count


async def test_an_evicted_group_that_runs_again_is_no_target_any_more(
    env: Environment, important: str
) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "low", 2, mode="all")
    await env.runs(members("low"), 2)
    await leaf(env, "high", 2, priority_class=important,
               of_pod={"priorityClassName": important})  # fmt: skip
    await env.runs(members("high"), 2)
    assert await _target(env, "low") == "True"

    for index in range(2):
        member = pod(f"low-again-{index}", env.name, group="low")
        await env.create(PODS, member)
    await env.add_node(cpu=2)
    await env.runs(members("low"), 2)

    async def cleared() -> bool:
        return await _target(env, "low") == "False"

    await env.until("the mark to be taken back", cleared)


async def _target(env: Environment, name: str) -> str | None:
    """Return the status of a group's DisruptionTarget."""
    conditions = (await env.group(name))["status"].get("conditions") or []
    found: dict[str, str] = {c["type"]: c["status"] for c in conditions}
    return found.get("DisruptionTarget")


async def test_a_node_that_vanishes_while_victims_terminate(
    env: Environment, important: str
) -> None:
    await racks(env)
    for index in range(2):
        await leaf(env, f"low{index}", 4, key=RACK, mode="all", finalizers=(HOLD,))
        await env.runs(members(f"low{index}"), 4)
    await leaf(env, "high", 4, key=RACK, priority_class=important,
               of_pod={"priorityClassName": important})  # fmt: skip

    async def one_goes() -> bool:
        return sum([await terminating(env, members(f"low{i}")) for i in range(2)]) == 4

    await env.until("one unit to terminate", one_goes)
    (gone, *_) = [p for p in await env.pods() if "deletionTimestamp" in p["metadata"]]
    await env.remove_node(gone["spec"]["nodeName"])

    # Half a rack is not enough: now the other unit must be evicted as well.
    for index in range(2):
        await all_terminate(env, members(f"low{index}"), 4)
        await remove_finalizers(env, members(f"low{index}"))
    await env.runs(members("high"), 4)


async def test_nothing_is_evicted_before_the_delay_is_over(
    env: Environment, important: str
) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "low", 2)
    await env.runs(members("low"), 2)
    delay = {ANNOTATION_PREEMPTION_DELAY: "1h"}
    await leaf(env, "high", 2, priority_class=important, annotations=delay,
               of_pod={"priorityClassName": important})  # fmt: skip

    blocker = await env.waits("high", needed=2)
    assert "unless it fits within" in blocker["summary"]
    await env.add_node(cpu=2)

    await env.runs(members("high"), 2)
    assert await env.running(members("low")) == 2


async def test_a_gang_is_not_evicted_before_its_min_run_time_is_over(
    env: Environment, important: str
) -> None:
    """A JobSet asks for its gang; the one that waits says so, and is decided again."""
    await env.add_node(cpu=4)
    low = jobset("low", replicated_job("w", env.name, replicas=2, pods=2))
    low["metadata"]["annotations"] |= {
        ANNOTATION_DISRUPTION_MODE: "All",
        ANNOTATION_MIN_RUN_TIME: "15s",
    }
    await env.create(JOBSETS, low)
    await env.runs(of_jobset("low"), 4)
    started = min(pod["status"]["startTime"] for pod in await env.pods(of_jobset("low")))
    over = (datetime.fromisoformat(started) + timedelta(seconds=15)).astimezone(UTC)

    await leaf(env, "high", 4, priority_class=important, of_pod={"priorityClassName": important})

    blocker = await env.waits("high", needed=4)
    assert "min-run-time" in blocker["summary"]
    # An event makes the scheduler decide before `retrySeconds` are over.
    await asyncio.sleep(max(0.0, (over - datetime.now(UTC)).total_seconds()) + 1)
    await env.add_node(cpu=1)
    await env.runs(members("high"), 4)
    first = min(
        condition["lastTransitionTime"]
        for pod in await env.pods(members("high"))
        for condition in pod["status"]["conditions"]
        if condition["type"] == "PodScheduled"
    )
    assert datetime.fromisoformat(first) >= over


async def test_an_elastic_gang_gives_back_extra_pods_before_another_is_broken(
    env: Environment, important: str
) -> None:
    await env.add_node(cpu=6)
    await leaf(env, "elastic", 2)
    for number in range(2, 4):
        await env.create(PODS, pod(f"elastic-{number}", env.name, group="elastic"))
    await env.runs(members("elastic"), 4)
    await leaf(env, "rigid", 2)
    await env.runs(members("rigid"), 2)

    await leaf(env, "high", 2, priority_class=important, of_pod={"priorityClassName": important})

    await env.runs(members("high"), 2)
    assert await env.running(members("rigid")) == 2
    assert await env.running(members("elastic")) == 2
