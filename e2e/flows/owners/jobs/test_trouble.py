"""Name collisions, conflicting Workloads, changes of leader: errors are reported.

All objects converge in the end.
"""

import asyncio
from pathlib import Path

import pytest

from api.constants import ANNOTATION_WAITING_FOR
from api.names import substitute_name
from e2e.flows.owners.jobs.queries import (
    change,
    event_reasons,
    items,
    names,
    uids,
    wait_for_objects,
)
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, NAMESPACE
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod_group,
    replicated_job,
)
from e2e.harness.support.intercepting_proxy import InterceptingProxy
from kube.base.errors import Invalid
from kube.client.resources import EVENTS, JOBS, JOBSETS, LEASES, PODS, Resource

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
FIRST, SECOND = "first-controller", "second-controller"


def gang(env: Environment, name: str = "a", mode: str = "Gang") -> Json:
    return jobset(name, replicated_job("w", env.name, replicas=2, pods=2), mode=mode)


async def wait_for_event(env: Environment, reason: str) -> None:
    """Wait until the JobSet has an event of this reason."""

    async def probe() -> bool:
        return reason in await event_reasons(env, "JobSet", "a")

    await env.until(f"event {reason}", probe)


async def wait_for_annotation(env: Environment, text: str) -> None:
    """Wait until the JobSet's annotation names what it waits for; it is written after the event."""

    async def probe() -> bool:
        notes = (await env.client.get(JOBSETS, "a", env.name))["metadata"]["annotations"]
        return str(notes.get(ANNOTATION_WAITING_FOR, "")).startswith(text)

    await env.until(f"the annotation {text}", probe)


async def test_a_name_taken_after_admission_is_avoided(env: Environment) -> None:
    """Admission chose the group's name while it was free; then another object took it."""
    await env.add_node(cpu=4)
    made = gang(env)
    made["spec"]["suspend"] = True
    await env.create(JOBSETS, made)
    foreign = await env.create(POD_GROUPS, pod_group("pg-a", 1000))

    await change(env, JOBSETS, "a", suspend=False)
    await env.runs(of_jobset("a"), 4)
    assert (await env.group("pg-a"))["metadata"]["uid"] == foreign["metadata"]["uid"]
    own = substitute_name("pg-a", (await env.client.get(JOBSETS, "a", env.name))["metadata"]["uid"])
    assert await names(env, POD_GROUPS) == ["pg-a", own]
    assert "NameTaken" not in await event_reasons(env, "JobSet", "a")


async def test_two_owners_whose_groups_would_have_one_name_both_start(env: Environment) -> None:
    await env.add_node(cpu=8)
    await asyncio.gather(
        env.create(JOBS, job("sweep", env.name, pods=2)),
        env.create(JOBSETS, gang(env, "job-sweep")),
    )

    await env.runs(of_jobset("job-sweep"), 4)
    await env.runs(of_job("sweep"), 2)
    assert len(await names(env, POD_GROUPS)) == 2


async def test_a_group_deleted_by_hand_comes_back_while_its_pods_run(env: Environment) -> None:
    await env.add_node(cpu=4)
    made = job("j", env.name, pods=4)
    made["spec"]["backoffLimit"] = 6
    await env.create(JOBS, made)
    await env.runs(of_job("j"), 4)
    before = (await env.group("pg-job-j"))["metadata"]["uid"]
    await env.delete(POD_GROUPS, "pg-job-j")

    async def is_back() -> bool:
        found = {it["metadata"]["name"]: it["metadata"] for it in await items(env, POD_GROUPS)}
        return bool(found.get("pg-job-j", {}).get("uid", before) != before)

    await env.until("the group to come back", is_back)
    lost = (await env.pods(of_job("j")))[0]["metadata"]["name"]
    await env.delete(PODS, lost)

    async def is_replaced() -> bool:
        running = {it["metadata"]["name"] for it in await env.pods(of_job("j"))}
        return lost not in running and await env.running(of_job("j")) == 4

    await env.until("another pod to run in its place", is_replaced)


async def test_exclusive_placement_that_no_gang_can_start_under_is_refused(
    env: Environment,
) -> None:
    """JobSet creates the other pods of a Job only once its first pod has a node."""
    await env.add_node(cpu=4, labels={"example.com/pool": "a"})
    made = gang(env)
    notes = made["metadata"]["annotations"]
    notes |= {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/pool"}
    with pytest.raises(Invalid, match='node-selector: "true"'):
        await env.create(JOBSETS, made)
    notes |= {"scheduling.muster.dev/min-count": "2"}
    await env.create(JOBSETS, made)


async def test_a_job_says_that_a_quota_refuses_its_group(
    env: Environment, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip("the embedded cluster enforces no quotas")
    await env.add_node(cpu=2)
    hard = {"count/podgroups.scheduling.muster.dev": "0"}
    await env.create(QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": hard}})

    async def counted() -> bool:
        quota = await env.client.get(QUOTAS, "none", env.name)
        return bool(quota.get("status", {}).get("hard"))

    await env.until("the quota to be counted", counted)
    await env.create(JOBS, job("j", env.name, pods=2))

    async def is_said() -> bool:
        notes = (await env.client.get(JOBS, "j", env.name))["metadata"]["annotations"]
        events = await env.client.list(EVENTS, env.name)
        told = [it["message"] for it in events["items"] if it["involvedObject"]["kind"] == "Job"]
        waits = str(notes.get(ANNOTATION_WAITING_FOR))
        return "exceeded quota" in waits and any("exceeded quota" in it for it in told)

    await env.until("the Job to say what refuses its group", is_said)
    await env.delete(QUOTAS, "none")
    await env.runs(of_job("j"), 2)


async def test_a_workload_that_comes_too_late_is_reported(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBSETS, gang(env))
    await env.runs(of_jobset("a"), 4)
    templates = [{"name": "pg-a", "schedulingPolicy": {"gang": {"minCount": 1}}}]
    reference = {"apiGroup": JOBSETS.group, "kind": JOBSETS.kind, "name": "a"}
    late = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "metadata": {"name": "late"}}
    spec = {"controllerRef": reference, "podGroupTemplates": templates}
    before = await uids(env)

    await env.create(WORKLOADS, late | {"spec": spec})

    await wait_for_event(env, "WorkloadIgnored")
    assert await uids(env) == before
    assert await names(env, WORKLOADS) == ["late", "w-a"]


@pytest.mark.long
async def test_two_leaders_for_a_moment_create_nothing_twice(
    env: Environment, tmp_path: Path
) -> None:
    """The first leader is stopped past its lease with pending work, and resumes later."""
    await env.add_node(cpu=8)
    muster = env.muster
    muster.kill(CONTROLLER)
    try:
        for name in (FIRST, SECOND):
            muster.add(name, CONTROLLER, muster.kubeconfig(CONTROLLER))
        await muster.start(FIRST)
        await _leads(env, FIRST)
        await muster.start(SECOND)
        with muster.paused(FIRST):
            await env.create(JOBSETS, gang(env, mode="Composite"))
            await _leads(env, SECOND)
            await env.runs(of_jobset("a"), 4)
            before = await uids(env)

        await env.create(JOBSETS, gang(env, "b", mode="Composite"))
        await env.runs(of_jobset("b"), 4)
        await wait_for_objects(
            env, COMPOSITE_POD_GROUPS, "cpg-a", "cpg-a-w-28a83eb478", "cpg-b", "cpg-b-w-4621b9da56"
        )
        assert len(await items(env, WORKLOADS)) == 2
        assert before.items() <= (await uids(env)).items()

        for name in ("a", "b"):
            await env.delete(JOBSETS, name)
        await env.empty()
    finally:
        muster.kill(FIRST)
        muster.kill(SECOND)
        await muster.start(CONTROLLER)


@pytest.mark.long
async def test_what_the_controller_did_not_see_is_caught_up_with(
    env: Environment, tmp_path: Path
) -> None:
    """The disconnected controller receives no events; afterwards it lists everything again."""
    await env.add_node(cpu=8)
    muster = env.muster
    muster.kill(CONTROLLER)
    async with InterceptingProxy(muster.kubeconfig(CONTROLLER), tmp_path).running() as proxy:
        muster.add(FIRST, CONTROLLER, proxy.kubeconfig)
        try:
            await muster.start(FIRST)
            for name in ("a", "kept"):
                await env.create(JOBSETS, gang(env, name))
            await env.runs("", 8)
            before = await uids(env)

            proxy.cut()
            await env.delete(JOBSETS, "a")
            await wait_for_objects(env, JOBSETS, "kept")
            for name in ("a", "new"):
                await env.create(JOBSETS, gang(env, name))
            await env.has_pods(of_jobset("new"), 4)
            assert await env.bound(of_jobset("new")) == 0
            await env.delete(JOBSETS, "new")
            proxy.heal()

            await env.runs("", 8)
            await wait_for_objects(env, POD_GROUPS, "pg-a", "pg-kept")
            after = await uids(env)
            assert after["pg-kept"] == before["pg-kept"]
            assert after["pg-a"] != before["pg-a"]
        finally:
            muster.kill(FIRST)
            await muster.start(CONTROLLER)


async def _leads(env: Environment, name: str) -> None:
    async def probe() -> bool:
        lease = await env.client.get(LEASES, "muster-controller", NAMESPACE)
        return f"_{env.muster.pid(name)}_" in (lease["spec"].get("holderIdentity") or "")

    await env.until(f"{name} to lead", probe)
