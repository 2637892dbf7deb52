"""Somebody is in the way, or nobody leads for a while: it is told, and it ends well."""

import signal
from pathlib import Path

import pytest

from api.constants import ANNOTATION_WAITING_FOR
from e2e.controllers.questions import change, event_reasons, have, items, names, uids
from e2e.muster import CONTROLLER, NAMESPACE
from e2e.suite.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    jobset,
    of_jobset,
    pod_group,
    replicated_job,
)
from e2e.suite.stage import Stage
from e2e.support.gate import Gate
from kube.resources import JOBSETS, LEASES

FIRST, SECOND = "first-controller", "second-controller"


def gang(stage: Stage, name: str = "a", mode: str = "Gang") -> Json:
    return jobset(name, replicated_job("w", stage.name, replicas=2, pods=2), mode=mode)


async def told(stage: Stage, reason: str) -> None:
    """Wait until the JobSet says so by event."""

    async def probe() -> bool:
        return reason in await event_reasons(stage, "JobSet", "a")

    await stage.until(f"event {reason}", probe)


async def noted(stage: Stage, text: str) -> None:
    """Wait until the JobSet's annotation says what it waits for; it is written after the event."""

    async def probe() -> bool:
        notes = (await stage.client.get(JOBSETS, "a", stage.name))["metadata"]["annotations"]
        return str(notes.get(ANNOTATION_WAITING_FOR, "")).startswith(text)

    await stage.until(f"the annotation {text}", probe)


async def test_a_name_taken_after_admission_is_told_and_waited_for(stage: Stage) -> None:
    """Admission named the group while the name was free; then somebody else took it."""
    await stage.add_node(cpu=4)
    made = gang(stage)
    made["spec"]["suspend"] = True
    await stage.create(JOBSETS, made)
    foreign = await stage.create(POD_GROUPS, pod_group("pg-a", 1000))

    await change(stage, JOBSETS, "a", suspend=False)
    await told(stage, "NameTaken")
    await stage.has_pods(of_jobset("a"), 4)
    await noted(stage, "NameTaken: PodGroup pg-a exists")
    assert await stage.bound() == 0
    assert (await stage.group("pg-a"))["metadata"]["uid"] == foreign["metadata"]["uid"]

    await stage.delete(POD_GROUPS, "pg-a")
    await stage.runs_whole(of_jobset("a"), 4)
    assert (await event_reasons(stage, "JobSet", "a")).count("NameTaken") == 1


async def test_a_workload_that_comes_too_late_is_told_of(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    await stage.create(JOBSETS, gang(stage))
    await stage.runs_whole(of_jobset("a"), 4)
    templates = [{"name": "pg-a", "schedulingPolicy": {"gang": {"minCount": 1}}}]
    reference = {"apiGroup": JOBSETS.group, "kind": JOBSETS.kind, "name": "a"}
    late = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "metadata": {"name": "late"}}
    spec = {"controllerRef": reference, "podGroupTemplates": templates}
    before = await uids(stage)

    await stage.create(WORKLOADS, late | {"spec": spec})

    await told(stage, "WorkloadIgnored")
    assert await uids(stage) == before
    assert await names(stage, WORKLOADS) == ["late", "w-a"]


@pytest.mark.long
async def test_two_leaders_for_a_moment_make_nothing_twice(stage: Stage, tmp_path: Path) -> None:
    """The first is stopped past its lease with work before it, and wakes when another leads."""
    await stage.add_node(cpu=8)
    muster = stage.muster
    muster.kill(CONTROLLER)
    try:
        for name in (FIRST, SECOND):
            muster.add(name, CONTROLLER, muster.kubeconfig(CONTROLLER))
        await muster.start(FIRST)
        await _leads(stage, FIRST)
        await muster.start(SECOND)
        muster.send(FIRST, signal.SIGSTOP)
        await stage.create(JOBSETS, gang(stage, mode="Composite"))
        await _leads(stage, SECOND)
        await stage.runs_whole(of_jobset("a"), 4)
        before = await uids(stage)

        muster.send(FIRST, signal.SIGCONT)
        await stage.create(JOBSETS, gang(stage, "b", mode="Composite"))
        await stage.runs_whole(of_jobset("b"), 4)
        await have(stage, COMPOSITE_POD_GROUPS, "cpg-a", "cpg-a-w", "cpg-b", "cpg-b-w")
        assert len(await items(stage, WORKLOADS)) == 2
        assert before.items() <= (await uids(stage)).items()

        for name in ("a", "b"):
            await stage.delete(JOBSETS, name)
        await stage.empty()
    finally:
        muster.kill(FIRST)
        muster.kill(SECOND)
        await muster.start(CONTROLLER)


@pytest.mark.long
async def test_what_the_controller_did_not_see_is_caught_up_with(
    stage: Stage, tmp_path: Path
) -> None:
    """Cut off, it hears of nothing; afterwards it lists all of it, what it knew once more."""
    await stage.add_node(cpu=8)
    muster = stage.muster
    muster.kill(CONTROLLER)
    async with Gate(muster.kubeconfig(CONTROLLER), tmp_path).running() as gate:
        muster.add(FIRST, CONTROLLER, gate.kubeconfig)
        try:
            await muster.start(FIRST)
            for name in ("a", "kept"):
                await stage.create(JOBSETS, gang(stage, name))
            await stage.runs_whole("", 8)
            before = await uids(stage)

            gate.cut()
            await stage.delete(JOBSETS, "a")
            await have(stage, JOBSETS, "kept")
            for name in ("a", "new"):
                await stage.create(JOBSETS, gang(stage, name))
            await stage.has_pods(of_jobset("new"), 4)
            assert await stage.bound(of_jobset("new")) == 0
            await stage.delete(JOBSETS, "new")
            gate.heal()

            await stage.runs_whole("", 8)
            await have(stage, POD_GROUPS, "pg-a", "pg-kept")
            after = await uids(stage)
            assert after["pg-kept"] == before["pg-kept"]
            assert after["pg-a"] != before["pg-a"]
        finally:
            muster.kill(FIRST)
            await muster.start(CONTROLLER)


async def _leads(stage: Stage, name: str) -> None:
    async def probe() -> bool:
        lease = await stage.client.get(LEASES, "muster-controller", NAMESPACE)
        return f"_{stage.muster.pid(name)}_" in (lease["spec"].get("holderIdentity") or "")

    await stage.until(f"{name} to lead", probe)
