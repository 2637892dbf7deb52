"""Attempts of one tenant against another that the API server admits, and the protections."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MADE_FOR,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
)
from e2e.faults.hostile.attacks import pod_step
from e2e.faults.hostile.stage import Stage, on
from e2e.faults.hostile.steps import GROUPS, WORKLOADS, Step, create
from e2e.faults.hostile.tenants import OtherTenant, Tenant
from e2e.harness.muster import SCHEDULER
from e2e.harness.objects import Json
from e2e.harness.support.waiting import eventually
from kube.client.resources import EVENTS, JOBS, PODS, Resource

POLICY: Final[Json] = {"schedulingPolicy": {"gang": {"minCount": 1}}}
_WITHIN: Final = 60.0

Scenario = Callable[[Stage], Awaitable[None]]


async def a_pod_cannot_join_anothers_group(stage: Stage) -> None:
    """Pods of the same group name in another namespace do not count as members."""
    calm, size = stage.calm, stage.calm.size
    short = replace(calm, size=size - 1)
    gang = {"gang": {"minCount": size}}
    await short.ask("short", schedulingPolicy=gang)
    labels = {LABEL_POD_GROUP: "short"}
    await stage.mallory.insist(
        [
            create(GROUPS, "short", {"spec": POLICY}),
            pod_step("short-3", of=on("calm"), labels=labels),
        ]
    )
    await bound(stage.mallory, 1)

    await says(calm.tenant, "short", "Incomplete")

    assert await calm.bound("short") == 0


async def namesakes_do_not_meet(stage: Stage) -> None:
    """Another tenant may use the names that Muster will need, but only in its own namespace."""
    groups = ("pg-job-work", "pg-work", "w-t", "job-work")
    steps = [create(GROUPS, name, {"spec": POLICY}) for name in groups]
    steps += [create(WORKLOADS, name, {"spec": _templates()}) for name in ("job-work", "work")]
    await stage.mallory.insist(steps)

    await stage.calm.tenant.insist([_job("work")])

    await bound(stage.calm.tenant, 2)


async def an_owner_in_another_namespace_is_none(stage: Stage) -> None:
    """Annotations with the UID of another's Job do not keep Muster from creating its objects."""
    calm = stage.calm.tenant
    await calm.insist([_job("held", suspend=True)])
    (found,) = await calm.objects(JOBS)
    uid = found["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "held", "uid": uid}
    marks = {ANNOTATION_MADE_FOR: f"batch/Job/held/{uid}"}
    meta = {"annotations": marks, "finalizers": ["hostile.example/stay"]}
    spec = {**_templates(), "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "held"}}
    squatters = [
        create(WORKLOADS, "job-held", {"metadata": meta, "spec": spec}),
        create(GROUPS, "pg-job-held", {"metadata": meta, "spec": POLICY}),
    ]
    referring = {"metadata": {"ownerReferences": [owner]}, "spec": spec}
    await stage.mallory.insist([*squatters, create(WORKLOADS, "by-owner", referring)])
    going = [Step("delete", step.resource, step.name) for step in squatters]
    await stage.mallory.insist(going)

    await calm.insist([Step("patch", JOBS, "held", {"spec": {"suspend": False}})])

    await bound(calm, 2)


async def a_pod_of_another_scheduler_stays_there(stage: Stage) -> None:
    """Muster ignores another scheduler's ways to name a group unless the namespace opts in."""
    of = {"schedulerName": "default-scheduler"}
    steps = [
        pod_step("label", of=of, labels={LABEL_COSCHEDULING: "none"}),
        pod_step("field", of={**of, "schedulingGroup": {"podGroupName": "none"}}),
        pod_step("workload", of={**of, "workloadRef": {"name": "none", "podGroup": "t"}}),
    ]
    await stage.mallory.insist(steps)

    pods = await stage.mallory.objects(PODS)

    kept = {pod["metadata"]["name"]: pod["spec"]["schedulerName"] for pod in pods}
    assert kept == {step.name: "default-scheduler" for step in steps}


async def nobody_reads_anothers_names(stage: Stage) -> None:
    """Statuses and events explain in kinds and numbers, without names of another tenant."""
    async with arena(stage, cpu=4) as (_, calm):
        own = {LABEL_POD_GROUP: "secret"}
        members = [pod_step(f"secret-{at}", of=_one_cpu(), labels=own) for at in range(4)]
        await stage.mallory.insist([create(GROUPS, "secret", {"spec": POLICY}), *members])
        await bound(stage.mallory, 4)

        await calm.ask("waits")
        await says(calm.tenant, "waits", "Unschedulable")
        await _says_nothing_of(calm.tenant, "secret", stage.mallory.name)
        await calm.forget("waits")

        await calm.ask("confidential", priorityClassName="calm-high")
        await bound(calm.tenant, 4)
        await _says_nothing_of(stage.mallory, "confidential", calm.tenant.name)
        await _says_nothing_of(calm.tenant, "secret", stage.mallory.name)


async def a_group_does_not_protect_lower_pods(stage: Stage) -> None:
    """A group of high priority does not protect its bound pods of low priority."""
    async with arena(stage, cpu=4) as (node, calm):
        shield = {**POLICY, "priorityClassName": "hostile-high"}
        of = {**_one_cpu(), "nodeName": node, "schedulerName": "other"}
        labels = {LABEL_POD_GROUP: "shield"}
        members = [pod_step(f"low-{at}", of=of, labels=labels) for at in range(4)]
        await stage.mallory.insist([create(GROUPS, "shield", {"spec": shield}), *members])

        await calm.ask("important", priorityClassName="calm-mid")

        await bound(calm.tenant, 4)


async def a_group_made_anew_does_not_protect(stage: Stage) -> None:
    """A group created after its pods does not protect them either."""
    async with arena(stage, cpu=4) as (_, calm):
        labels = {LABEL_POD_GROUP: "grows"}
        members = [pod_step(f"grown-{at}", of=_one_cpu(), labels=labels) for at in range(4)]
        await stage.mallory.insist([create(GROUPS, "grows", {"spec": POLICY}), *members])
        await bound(stage.mallory, 4)
        # The tenant may remove its protection finalizer: `edit` allows that.
        gone = {"metadata": {"finalizers": None}}
        steps = [Step("delete", GROUPS, "grows"), Step("patch", GROUPS, "grows", gone)]
        await stage.mallory.carry_out(steps)
        await _gone(stage.mallory, GROUPS)
        higher = {**POLICY, "priorityClassName": "hostile-high"}
        await stage.mallory.insist([create(GROUPS, "grows", {"spec": higher})])

        await calm.ask("important", priorityClassName="calm-mid")

        await bound(calm.tenant, 4)


async def pods_that_stay_for_years_do_not_block(stage: Stage) -> None:
    """The scheduler does not wait for capacity of slowly terminating pods; it evicts faster ones.

    The simulated kubelet ends a pod at once, so only its finalizer keeps it: the scheduler waits
    for that up to its limit of a minute.
    """
    async with arena(stage, cpu=8) as (node, calm):
        slow = {"terminationGracePeriodSeconds": 10**9}
        stay = [
            pod_step(
                f"years-{at}",
                of={**_one_cpu(), "nodeName": node, **slow},
                finalizers=["hostile.example/stay"],
            )
            for at in range(4)
        ]
        go = [pod_step(f"goes-{at}", of={**_one_cpu(), "nodeName": node}) for at in range(4)]
        await stage.mallory.insist([*stay, *go])
        await _running(stage.mallory, 8)
        await stage.mallory.insist([Step("delete", PODS, step.name) for step in stay])

        await calm.ask("urgent", priorityClassName="calm-high")

        # Its patience of a minute starts again with each leader, and a slow machine has several.
        await bound(calm.tenant, 4, within=5 * _WITHIN)


async def a_foreign_nomination_keeps_its_place(stage: Stage) -> None:
    """Muster respects a node that another scheduler nominated for a pod of higher priority."""
    async with arena(stage, cpu=4) as (node, calm):
        of = {**_one_cpu("4"), "schedulerName": "other", "priorityClassName": "hostile-high"}
        await stage.mallory.insist([pod_step("nominated", of=of)])
        path = f"{stage.mallory.path(PODS, 'nominated')}/status"
        chosen = {"status": {"nominatedNodeName": node}}
        (await stage.admin.patch(path, chosen)).ok()

        await calm.ask("lower")

        await says(calm.tenant, "lower", "Unschedulable")
        assert await calm.bound("lower") == 0
        await stage.mallory.insist([Step("delete", PODS, "nominated")])
        await bound(calm.tenant, 4)


async def an_odd_group_does_not_hide_the_state(stage: Stage) -> None:
    """The debug page and the others work whatever objects exist."""
    huge = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "9e18"}}}]}
    await stage.mallory.insist([pod_step("huge", of=huge)])

    assert "pods" in await stage.snapshot()
    for path in ("/readyz", "/metrics"):
        answer = await stage.page(SCHEDULER, path)
        assert answer


SCENARIOS: Final[tuple[Scenario, ...]] = (
    a_pod_cannot_join_anothers_group,
    namesakes_do_not_meet,
    an_owner_in_another_namespace_is_none,
    a_pod_of_another_scheduler_stays_there,
    nobody_reads_anothers_names,
    a_group_does_not_protect_lower_pods,
    a_group_made_anew_does_not_protect,
    a_foreign_nomination_keeps_its_place,
    an_odd_group_does_not_hide_the_state,
)
LONG_SCENARIOS: Final[tuple[Scenario, ...]] = (pods_that_stay_for_years_do_not_block,)


@asynccontextmanager
async def arena(stage: Stage, *, cpu: int) -> AsyncIterator[tuple[str, OtherTenant]]:
    """Create a node that both may use, and the other tenant with work for it."""
    (node,) = await stage.add_nodes("arena", 1, cpu=str(cpu))
    try:
        yield node, replace(stage.calm, of_pod=on("arena"))
    finally:
        await stage.mallory.leave()
        await stage.calm.tenant.leave()
        await stage.remove_nodes([node])


def _one_cpu(cpu: str = "1") -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {**on("arena"), "terminationGracePeriodSeconds": 1, "containers": [container]}


def _templates() -> Json:
    return {"podGroupTemplates": [{"name": "t", **POLICY}]}


def _job(name: str, *, suspend: bool = False) -> Step:
    """Return a gang of two on the other tenant's nodes."""
    container = {"name": "c", "image": "registry.example/none:1"}
    pod = {"restartPolicy": "Never", "containers": [container], **on("calm")}
    spec = {"parallelism": 2, "completions": 2, "suspend": suspend, "template": {"spec": pod}}
    meta = {"annotations": {ANNOTATION_GANG_MODE: "Gang"}}
    return create(JOBS, name, {"metadata": meta, "spec": spec})


async def bound(tenant: Tenant, count: int, *, within: float = _WITHIN) -> None:
    """Wait until exactly that many of the tenant's pods have a node."""

    async def probe() -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in await tenant.objects(PODS)) == count

    await eventually(probe, f"{count} pods of {tenant.name} to be bound", within)


async def _running(tenant: Tenant, count: int) -> None:
    async def probe() -> bool:
        phases = [pod["status"].get("phase") for pod in await tenant.objects(PODS)]
        return phases.count("Running") == count

    await eventually(probe, f"{count} pods of {tenant.name} to run", _WITHIN)


async def _gone(tenant: Tenant, kind: Resource) -> None:
    async def probe() -> bool:
        return not await tenant.objects(kind)

    await eventually(probe, f"the {kind.plural} of {tenant.name} to be gone", _WITHIN)


async def says(tenant: Tenant, group: str, reason: str) -> None:
    """Wait until a condition of the group has this reason."""

    async def probe() -> bool:
        found = (await tenant.rest.get(tenant.path(GROUPS, group))).ok()
        conditions = (found.get("status") or {}).get("conditions") or []
        return any(condition["reason"] == reason for condition in conditions)

    await eventually(probe, f"{group} to say {reason}", _WITHIN)


async def _says_nothing_of(tenant: Tenant, *words: str) -> None:
    """Check that no status or event in the namespace contains one of the words."""
    kinds = (PODS, GROUPS, EVENTS)
    found = {kind.plural: await tenant.objects(kind) for kind in kinds}
    said = [json.dumps(obj.get("status")) for obj in (*found["pods"], *found["podgroups"])]
    said += [json.dumps(event) for event in found["events"]]
    assert not [text for text in said for word in words if word in text]
