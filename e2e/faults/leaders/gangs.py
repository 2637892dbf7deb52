"""Flows in which the leader is lost: the steps of the failure, and the expected result.

A flow creates the initial objects, lets the fault happen, and waits until the result is as without
the fault. `test_leaders` checks what all flows have in common.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from api.constants import ANNOTATION_SCHEDULE_TIMEOUT
from e2e.faults.leaders import trouble
from e2e.faults.leaders.pair import Step, Takeover
from e2e.flows.devices import test_devices, test_extended_resources
from e2e.flows.scheduling.gangs import test_volumes as volumes
from e2e.flows.scheduling.gangs.test_once_scheduled import was_scheduled
from e2e.harness.clusters.nodes import FINISH_ANNOTATION
from e2e.harness.devices import CLAIMS, SINCE, Devices, devices_in
from e2e.harness.environment import Environment
from e2e.harness.groups import held, leaf, members, remove_finalizers, tree
from e2e.harness.objects import POD_GROUPS, job, of_job, pod, pod_group, pod_spec
from e2e.harness.priorities import known_class
from e2e.harness.settled import RESERVATIONS
from e2e.harness.support.intercepting_proxy import Rule
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, PODS

SIZE = 4
"""Number of pods of most gangs."""
HOLD = "test.muster.dev/hold"
_LET_GO = PatchBuilder().remove("/metadata/finalizers")
_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Stage:
    """The environment of a flow; `stack` unwinds after the verdict and the deletion."""

    env: Environment
    takeover: Takeover
    stack: AsyncExitStack
    folder: Path
    server_kind: str


Flow = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Gang:
    """A flow, and the steps at which its leader may be lost."""

    flow: Flow
    steps: Mapping[str, Step]
    since: tuple[str, str] | None = None
    """The arguments of the mark `since`, if the flow uses devices."""


def _of(method: str, *parts: str) -> Rule:
    """Return a rule for requests with these parts of a path, except the other tenant's.

    `trouble` creates the other tenant.
    """

    def rule(sent: str, path: str) -> bool:
        return sent == method and "-other/" not in path and all(part in path for part in parts)

    return rule


STORE, BIND = _of("POST", "/reservations"), _of("POST", "/binding")
ALLOCATE = _of("PATCH", "/resourceclaims/", "/status")

_RESERVED = {
    "before the Reservation is stored": Step(STORE),
    "when the Reservation is stored": Step(STORE, sent=True),
}


async def none_reserved(env: Environment) -> bool:
    """Return True if no decision in the flow's namespace is neither completed nor abandoned."""
    stored = (await env.client.list(RESERVATIONS))["items"]
    intents = [json.loads(intent) for each in stored for intent in each["spec"]["intents"]]
    return all(intent["root"]["namespace"] != env.name for intent in intents)


async def _of_a_job(stage: Stage, *, pods: int, nodes: int) -> None:
    """The new leader knows the used capacity: another gang fits only on the rest."""
    env = stage.env
    for _ in range(nodes):
        await env.add_node(cpu=2 * pods // nodes)
    async with stage.takeover.during():
        await env.create(JOBS, job("gang", env.name, pods=pods))
        if stage.takeover.step.rule is None:
            await env.scheduled("pg-job-gang")
            await env.until("its Reservation to be gone", lambda: none_reserved(env))
    await env.runs(of_job("gang"), pods)
    await env.scheduled("pg-job-gang")
    await env.create(JOBS, job("next", env.name, pods=pods))
    await env.runs(of_job("next"), pods)


async def no_claims(env: Environment) -> bool:
    """Return True if no claim of a gang with devices remains."""
    return not (await env.client.list(CLAIMS, env.name))["items"]


async def _devices(stage: Stage) -> Devices:
    made = devices_in(stage.env.client, stage.env.name)
    return await stage.stack.enter_async_context(made)


async def _with_claims(stage: Stage) -> None:
    env = stage.env
    devices = await _devices(stage)
    await test_devices.gpus(env, devices, *[2 * SIZE] * 2)
    async with stage.takeover.during():
        await env.create(JOBS, test_devices.job_with_claims("gang", env.name, 2 * SIZE))
    await env.runs(of_job("gang"), 2 * SIZE)
    await test_devices.checked(env, devices, claims=2 * SIZE)


async def _with_extended_resources(stage: Stage) -> None:
    env = stage.env
    devices = await _devices(stage)
    resource = test_extended_resources.resource_of(env)
    await devices.add_class(resource=resource)
    for _ in range(2):
        await devices.publish(await env.add_node(cpu=2 * SIZE), 2 * SIZE)
    made = test_extended_resources.requesting(job("gang", env.name, pods=2 * SIZE), resource)
    async with stage.takeover.during():
        await env.create(JOBS, made)
    await env.runs(of_job("gang"), 2 * SIZE)
    await test_extended_resources.check(env, devices, claims=2 * SIZE)
    assert len(await devices.claims()) == 2 * SIZE


async def _with_volumes(stage: Stage) -> None:
    env = stage.env
    making = volumes.waiting_class(env, stage.server_kind, "kubernetes.io/no-provisioner")
    name = await stage.stack.enter_async_context(making)
    nodes = [await env.add_node(cpu=8) for _ in range(3)]
    for index, node in enumerate(nodes):
        await volumes.local_volume(env, f"disk-{index}", name, node)
        await volumes.claim(env, f"data-{index}", name)
    async with stage.takeover.during():
        await volumes.gang_with_claims(env, 3)
    await env.runs(members("gang"), 3)
    assert await volumes.volumes_are_where_their_pods_are(env) == set(nodes)


async def _evicts(stage: Stage, *, slowly: bool = False) -> None:
    """It evicts only the gang of the lowest priority, whose pods may terminate slowly."""
    env = stage.env
    for _ in range(2):
        await env.add_node(cpu=SIZE)
    middle = await stage.stack.enter_async_context(known_class(env, "middle", 500))
    highest = await stage.stack.enter_async_context(known_class(env, "high", 1000))
    await leaf(env, "low", SIZE, mode="all", finalizers=(HOLD,) if slowly else ())
    stage.stack.push_async_callback(remove_finalizers, env, members("low"))
    await _of_priority(env, "middle", middle)
    await env.runs("", 2 * SIZE)
    kept = await _uids(env, "middle")

    async with stage.takeover.during():
        await _of_priority(env, "high", highest)
        if stage.takeover.step.rule is None:
            await env.until("all to be nominated", lambda: _nominated(env, "high"))
            for index in range(SIZE // 2):
                await env.client.patch(PODS, f"low-{index}", _LET_GO, env.name)
            await env.has_pods(members("low"), SIZE - SIZE // 2)
    if slowly:
        await env.until("the victims to terminate", lambda: _all_terminate(env, "low"))
        assert await env.bound(members("high")) == 0
        await remove_finalizers(env, members("low"))

    await env.runs(members("high"), SIZE)
    await env.scheduled("high")
    await env.has_pods(members("low"), 0)
    assert await _uids(env, "middle") == kept


async def _of_priority(env: Environment, name: str, priority: str) -> None:
    of_pod = {"priorityClassName": priority}
    await leaf(env, name, SIZE, mode="all", priority_class=priority, of_pod=of_pod)


async def _uids(env: Environment, group: str) -> set[str]:
    return await env.uids(members(group))


async def _nominated(env: Environment, group: str) -> bool:
    return all(found["status"].get("nominatedNodeName") for found in await env.pods(members(group)))


async def _all_terminate(env: Environment, group: str) -> bool:
    return all("deletionTimestamp" in found["metadata"] for found in await env.pods(members(group)))


async def _taken_back(stage: Stage) -> None:
    """One pod cannot be bound: the others are deleted; with new pods the gang runs completely."""
    env = stage.env
    await env.add_node(cpu=SIZE)
    async with trouble.refused_bindings(env, stage.folder) as refused:
        refused.add(f"high-{SIZE - 1}")
        soon = {ANNOTATION_SCHEDULE_TIMEOUT: trouble.TIMEOUT}
        async with stage.takeover.during():
            await leaf(env, "high", SIZE, annotations=soon)
        await env.has_pods(members("high"), 1)
        assert await env.bound(members("high")) == 0
        await env.until("it to be given up", lambda: none_reserved(env))
        refused.clear()
    for index in range(SIZE - 1):
        made = pod(f"high-again-{index}", env.name, group="high")
        # Members with other requests end the backoff of an abandoned gang.
        made["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Mi"
        await env.create(PODS, made)
    await env.runs(members("high"), SIZE)


async def _holds_places(stage: Stage) -> None:
    """A tree that starts in order: a driver, then workers, whose held places no other pod gets."""
    env = stage.env
    await env.add_node(cpu=_WORKERS + 1)
    async with stage.takeover.during():
        await tree(env, "train", 2)
        for name, count in (("driver", 1), ("workers", _WORKERS)):
            expected = {"name": name, "count": count, "template": {"spec": pod_spec(env.name)}}
            policy = {"gang": {"minCount": count}}
            spec = {"expectedPods": [expected], "schedulingPolicy": policy}
            await leaf(env, name, 0, spec=spec, parent="train")
        await env.create(PODS, pod("driver", env.name, group="driver"))
        if stage.takeover.step.rule is None:
            await held(env, "workers", _WORKERS)
    await env.runs(members("driver"), 1)
    await held(env, "workers", _WORKERS)
    await env.create(JOBS, job("other", env.name, pods=_WORKERS))
    await env.waits("pg-job-other", needed=_WORKERS)
    assert await env.bound(of_job("other")) == 0

    for index in range(_WORKERS):
        await env.create(PODS, pod(f"worker-{index}", env.name, group="workers"))
    await env.runs(members("workers"), _WORKERS)
    await held(env, "workers", 0)
    assert await env.bound(of_job("other")) == 0


async def _pods_fail(stage: Stage) -> None:
    """The gang is scheduled, but its pods fail before the status says so.

    The next leader sees that.
    """
    env = stage.env
    await env.add_node(cpu=2)
    async with stage.takeover.during():
        await env.create(POD_GROUPS, pod_group("gang", 2))
        for index in range(2):
            made = pod(f"gang-{index}", env.name, group="gang")
            made["metadata"]["annotations"] = {FINISH_ANNOTATION: "Failed"}
            await env.create(PODS, made)
        await env.until("its pods to fail", lambda: _failed(env))
    await was_scheduled(env, POD_GROUPS, "gang")


async def _failed(env: Environment) -> bool:
    return all(found["status"].get("phase") == "Failed" for found in await env.pods())


_EVICTION = {
    "in the middle of the marks": Step(_of("PATCH", "/pods/low-", "/status"), nth=SIZE // 2),
    "in the middle of the evictions": Step(_of("DELETE", "/pods/low-"), nth=SIZE // 2),
}
GIVE = _of("PATCH", "/persistentvolumes/")

GANGS: Mapping[str, Gang] = {
    "a gang": Gang(
        partial(_of_a_job, pods=2 * SIZE, nodes=2),
        _RESERVED
        | {
            "before the first Binding": Step(BIND),
            "in the middle of the Bindings": Step(BIND, nth=SIZE),
            "before the last Binding": Step(BIND, nth=2 * SIZE),
            "when the last Binding is stored": Step(BIND, nth=2 * SIZE, sent=True),
            "before the Reservation is deleted": Step(_of("DELETE", "/reservations/")),
            "when it runs": Step(None),
        },
    ),
    "a gang of 100": Gang(
        partial(_of_a_job, pods=100, nodes=2),
        {"in the middle of the Bindings": Step(BIND, nth=50, sent=True)},
    ),
    "a gang with claims": Gang(
        _with_claims,
        {
            "in the middle of the allocations": Step(ALLOCATE, nth=SIZE, sent=True),
            "before the last allocation": Step(ALLOCATE, nth=2 * SIZE),
            "before the first Binding": Step(BIND),
            "in the middle of the Bindings": Step(BIND, nth=SIZE),
        },
        SINCE,
    ),
    "a gang with extended resources": Gang(
        _with_extended_resources,
        {
            "in the middle of making claims": Step(
                _of("POST", "/resourceclaims"), nth=SIZE, sent=True
            ),
            "in the middle of the allocations": Step(ALLOCATE, nth=SIZE),
            "in the middle of telling pods": Step(_of("PATCH", "/pods/", "/status"), nth=SIZE),
            "in the middle of the Bindings": Step(BIND, nth=SIZE),
        },
        ("1.36", "devices stand for extended resources from 1.36 on"),
    ),
    "a gang with volumes": Gang(
        _with_volumes,
        {
            "when the second volume is given": Step(GIVE, nth=2, sent=True),
            "before the first Binding": Step(BIND),
        },
    ),
    "a gang that evicts": Gang(
        _evicts,
        _EVICTION
        | {
            "when the Reservation is stored": Step(STORE, sent=True),
            "in the middle of the Bindings": Step(BIND, nth=SIZE // 2),
        },
    ),
    "a gang whose victims take long": Gang(
        partial(_evicts, slowly=True), _EVICTION | {"when half of them are gone": Step(None)}
    ),
    "a gang that is taken back": Gang(
        _taken_back,
        {
            "before the first deletion": Step(_of("DELETE", "/pods/high-")),
            "in the middle of the deletions": Step(_of("DELETE", "/pods/high-"), nth=2, sent=True),
        },
    ),
    "a tree that holds places": Gang(
        _holds_places,
        _RESERVED | {"before its driver is bound": Step(BIND), "while it holds places": Step(None)},
    ),
    "a gang whose pods fail at once": Gang(
        _pods_fail, {"before that is told": Step(_of("PATCH", "/podgroups/gang/status"))}
    ),
}
