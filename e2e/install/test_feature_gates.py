"""Feature gates on, off and on again with one etcd.

Off: no stored object is lost, no running pod is disturbed, nothing new starts, all can be deleted.
On again: pending pods start.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from api.constants import (
    COSCHEDULING,
    LABEL_COSCHEDULING,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
)
from api.features import Feature
from api.names import JOINED, implicit_pod_group, jobset_pod_group
from e2e.harness import groups
from e2e.harness import muster as processes
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    NODE_LABEL,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    replicated_job,
    resource,
)
from e2e.harness.settled import settled
from kube.base.errors import Invalid
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

COSCHEDULINGS = resource(COSCHEDULING)
SIZE = 2
"""Number of pods of each gang."""


class Use(NamedTuple):
    """A gang that uses one feature: its creation, its PodGroup, its pods, its owner."""

    feature: Feature
    make: Callable[[Environment, str], Awaitable[None]]
    group: Callable[[str], str]
    selector: Callable[[str], str]
    owner: Resource


async def _tree(env: Environment, name: str) -> None:
    await groups.tree(env, name, 1)
    await groups.leaf(env, f"{name}-leaf", SIZE, parent=name)


async def _gang(env: Environment, name: str) -> None:
    await groups.leaf(env, name, SIZE)


async def _topology(env: Environment, name: str) -> None:
    await groups.leaf(env, name, SIZE, key=NODE_LABEL)


async def _job(env: Environment, name: str) -> None:
    await env.create(JOBS, job(name, env.name, pods=SIZE))


async def _jobset(env: Environment, name: str) -> None:
    await env.create(JOBSETS, jobset(name, replicated_job("w", env.name, replicas=1, pods=SIZE)))


async def _coscheduling(env: Environment, name: str) -> None:
    spec = {"subsets": [{"name": "all", "minMember": SIZE}]}
    await env.create(COSCHEDULINGS, _object(COSCHEDULINGS, name, spec))
    await _labelled(env, name, {LABEL_COSCHEDULING: name})


async def _implicit(env: Environment, name: str) -> None:
    template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": SIZE}}}
    await env.create(WORKLOADS, _object(WORKLOADS, name, {"podGroupTemplates": [template]}))
    await _labelled(env, name, {LABEL_WORKLOAD: name, LABEL_TEMPLATE: "t"})


def _jobset_group(name: str) -> str:
    return jobset_pod_group("", name, form=JOINED)


def _implicit_group(name: str) -> str:
    return implicit_pod_group(name, "t")


def _object(kind: Resource, name: str, spec: Json) -> Json:
    about = {"apiVersion": kind.api_version, "kind": kind.kind}
    return about | {"metadata": {"name": name}, "spec": spec}


async def _labelled(env: Environment, name: str, labels: dict[str, str]) -> None:
    for at in range(SIZE):
        made = pod(f"{name}-{at}", env.name)
        made["metadata"]["labels"] = labels | {"app": name}
        await env.create(PODS, made)


def _app(name: str) -> str:
    return f"app={name}"


USES = (
    Use(
        Feature.COMPOSITE_POD_GROUP,
        _tree,
        "{}-leaf".format,
        lambda name: groups.members(f"{name}-leaf"),
        COMPOSITE_POD_GROUPS,
    ),
    Use(Feature.TOPOLOGY, _topology, str, groups.members, POD_GROUPS),
    Use(Feature.JOB, _job, "pg-job-{}".format, of_job, JOBS),
    Use(Feature.JOBSET, _jobset, _jobset_group, of_jobset, JOBSETS),
    Use(Feature.COSCHEDULING, _coscheduling, str, _app, COSCHEDULINGS),
    Use(Feature.IMPLICIT_POD_GROUPS, _implicit, _implicit_group, _app, WORKLOADS),
)


BASIC = {Feature.WORKLOAD, Feature.POD_GROUP, Feature.GANG}
"""Gates without which no gang can be created at all."""

REQUIRED_USES = (
    Use(Feature.GANG, _gang, str, groups.members, POD_GROUPS),
    Use(Feature.POD_GROUP, _gang, str, groups.members, POD_GROUPS),
    Use(Feature.WORKLOAD, _gang, str, groups.members, POD_GROUPS),
    Use(Feature.WORKLOAD, _job, "pg-job-{}".format, of_job, JOBS),
    Use(Feature.WORKLOAD, _jobset, _jobset_group, of_jobset, JOBSETS),
)
"""Uses of gates that other gates require: each is off by itself, as messages name the first."""


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_gates_are_switched_off_and_on_again(env: Environment, important: str) -> None:
    """All gates at once, and each by itself."""
    await _on_off_on(env, USES, important, "all")
    for at, use in enumerate(USES):
        await _on_off_on(env, [use], important, f"n{at}")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "use", [pytest.param(it, id=f"{it.feature}-{it.owner.kind}") for it in REQUIRED_USES]
)
async def test_gates_that_others_require_are_switched_off_and_on_again(
    env: Environment, important: str, use: Use
) -> None:
    """KEP-4671 and KEP-5832, feature enablement and rollback: 4671-091, 4671-092, 5832-46."""
    await _on_off_on(env, [use], important, "one")


async def _on_off_on(env: Environment, uses: Sequence[Use], important: str, prefix: str) -> None:
    full = await env.add_node(cpu=SIZE * len(uses))
    room = await env.add_node(cpu=SIZE * (len(uses) + 1), tainted=True)
    runs, waits = (
        {f"{prefix}-{word}-{at}": use for at, use in enumerate(uses)} for word in ("runs", "waits")
    )
    await _make(env, runs)
    await _all_run(env, runs)
    await _make(env, waits)
    for name, use in waits.items():
        await env.waits(use.group(name))
    later, of_jobs = f"{prefix}-later", [use for use in uses if use.owner is JOBS]
    await _suspended(env, later)

    async with _off(env, uses):
        for use in of_jobs:
            await _resume(env, later, use.feature)
        if BASIC.isdisjoint(use.feature for use in uses):
            await _nobody_is_evicted(env, important, f"{prefix}-high")
        await _nothing_starts(env, waits, room)
        for at, use in enumerate(uses):
            await _is_refused(env, use, f"{prefix}-new-{at}")
        for name, use in runs.items():
            await _delete(env, use, name)
        assert await _placed(env) == {}

    await _all_run(env, waits)
    if of_jobs:
        await env.runs(of_job(later), SIZE)
    await env.delete(JOBS, later)
    for name, use in waits.items():
        await _delete(env, use, name)
    for node in (full, room):
        await env.remove_node(node)


async def _make(env: Environment, gangs: Mapping[str, Use]) -> None:
    for name, use in gangs.items():
        await use.make(env, name)


async def _all_run(env: Environment, gangs: Mapping[str, Use]) -> None:
    for name, use in gangs.items():
        await env.runs(use.selector(name), SIZE)
        await env.scheduled(use.group(name))


async def _nothing_starts(env: Environment, waits: Mapping[str, Use], room: str) -> None:
    """Check that nothing starts despite free capacity, and that pods and objects are kept."""
    running, stored = await _placed(env), await _stored(env)
    assert len(running) == SIZE * len(waits)
    await env.untaint_node(room)
    for name, use in waits.items():
        await _says_gate(env, use, name)

    await settled(env)

    assert await _placed(env) == running
    assert await _stored(env) == stored


@asynccontextmanager
async def _off(env: Environment, uses: Sequence[Use]) -> AsyncIterator[None]:
    """Restart all processes with the gates off; turn them on again at the end, whatever happens."""
    gates = {str(use.feature): False for use in uses}
    env.muster.configure(featureGates=gates | {str(Feature.PREEMPTION): False})
    try:
        await _restart(env)
        yield
    finally:
        env.muster.configure()
        await _restart(env)


async def _restart(env: Environment) -> None:
    for name in processes.ALL:
        env.muster.kill(name)
    await env.muster.start(*processes.ALL)


async def _suspended(env: Environment, name: str) -> None:
    """Create a Job that has no group yet."""
    made = job(name, env.name, pods=SIZE)
    made["spec"]["suspend"] = True
    await env.create(JOBS, made)


async def _resume(env: Environment, name: str, off: Feature) -> None:
    """Resume the Job; its pods report that they wait for a group that no controller creates."""
    await env.client.patch(JOBS, name, PatchBuilder().add("/spec/suspend", False), env.name)

    async def probe() -> bool:
        said = [
            condition.get("message", "")
            for each in await env.pods(of_job(name))
            for condition in each.get("status", {}).get("conditions", [])
            if condition["type"] == "PodScheduled"
        ]
        return len(said) == SIZE and all(f"{off} is off" in text for text in said)

    await env.until("pods to name the gate", probe)


async def _nobody_is_evicted(env: Environment, important: str, name: str) -> None:
    await groups.leaf(env, name, SIZE, priority_class=important, of_pod=_of_class(important))
    blocker = await env.waits(name, needed=SIZE)
    assert f"feature gate {Feature.PREEMPTION} is off" in blocker["summary"]
    await env.delete(POD_GROUPS, name)
    for at in range(SIZE):
        await env.delete(PODS, f"{name}-{at}")
    await env.gone(POD_GROUPS, name)


def _of_class(name: str) -> Json:
    return {"priorityClassName": name}


async def _says_gate(env: Environment, use: Use, name: str) -> None:
    group = use.group(name)

    async def probe() -> bool:
        summary: str = (await env.blocker(group)).get("summary", "")
        return f"feature gate {use.feature} is off".lower() in summary.lower()

    await env.until(f"{group} to name its gate", probe)


async def _placed(env: Environment) -> dict[str, str]:
    """Return the nodes of bound pods by UID, and check that none is being evicted."""
    found = [each for each in await env.pods() if each["spec"].get("nodeName")]
    assert not [each for each in found if each["metadata"].get("deletionTimestamp")]
    return {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in found}


async def _stored(env: Environment) -> set[str]:
    """Return the UIDs of all objects of the gated kinds."""
    kinds = {use.owner for use in USES} | {POD_GROUPS}
    lists = await asyncio.gather(*(env.client.list(kind, env.name) for kind in kinds))
    return {item["metadata"]["uid"] for found in lists for item in found["items"]}


async def _is_refused(env: Environment, use: Use, name: str) -> None:
    """Check that a new object is rejected, if its kind belongs to the feature alone."""
    if use.feature is Feature.IMPLICIT_POD_GROUPS:
        return  # a Workload may be for a Job: pods that name it get a warning
    with pytest.raises(Invalid) as refused:
        await use.make(env, name)
    assert f"feature gate {use.feature} is off" in str(refused.value)


async def _delete(env: Environment, use: Use, name: str) -> None:
    """Delete as a user does: no finalizer may have to be removed by hand."""
    group = use.group(name)
    await env.delete(use.owner, name)
    if use.owner not in (JOBS, JOBSETS):
        await env.delete_pods(use.selector(name))
    if use.feature is Feature.COMPOSITE_POD_GROUP:
        await env.delete(POD_GROUPS, group)
    await env.gone(POD_GROUPS, group)
    await env.gone(use.owner, name)
