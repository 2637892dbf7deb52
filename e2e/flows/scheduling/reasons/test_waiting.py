"""Every state of a pending group: the messages on its pod, the group and its Job or JobSet.

`docs/troubleshooting.md` has a block of messages for each, recorded from a run on a real control
plane (`--record`), and every other run must match.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_WAITING_FOR,
    COSCHEDULING,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from e2e.flows.scheduling.reasons.recorded import TROUBLESHOOTING
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, remove_finalizers
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
    resource,
)
from e2e.harness.priorities import class_is_known
from kube.base.errors import AlreadyExists, NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, NODES, PODS, PRIORITY_CLASSES, Resource
from tools.testing.effort import selected

COSCHEDULINGS = resource(COSCHEDULING)
PRIORITY = "muster-e2e-urgent"
HOLD = "test.muster.dev/hold"
KINDS = {it.kind: it for it in (POD_GROUPS, COMPOSITE_POD_GROUPS, JOBS, JOBSETS)}


@dataclass(frozen=True, slots=True)
class State:
    """A state that `make` creates.

    `says` maps each inspected object to a part of its message.

    The objects are in order, as `Kind/name`: `Pod/g` is the first pending pod of group `g`.
    """

    title: str
    make: Callable[[Environment], Awaitable[None]]
    says: dict[str, str]


async def members(env: Environment, count: int, **more: Json) -> None:
    """Create pods of group g."""
    for index in range(count):
        made = pod(f"member-{index}", env.name, group="g")
        made["spec"] |= more.get("spec", {})
        made["metadata"]["labels"] = more.get("labels", made["metadata"]["labels"])
        await env.create(PODS, made)


async def lacks_a_pod(env: Environment) -> None:
    await env.create(POD_GROUPS, pod_group("g", 2))
    await members(env, 1)


async def basic(env: Environment) -> None:
    made = pod_group("g", 1)
    made["spec"]["schedulingPolicy"] = {"basic": {}}
    await env.create(POD_GROUPS, made)


async def gate(env: Environment) -> None:
    await env.create(POD_GROUPS, pod_group("g", 2))
    await members(env, 1)
    made = pod("member-gated", env.name, group="g")
    made["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
    await env.create(PODS, made)


async def lacks_a_child(env: Environment) -> None:
    made = pod_group("tree", 1) | {"kind": COMPOSITE_POD_GROUPS.kind}
    reference = {"workloadName": "by-hand", "templateName": "tree"}
    policy = {"gang": {"minGroupCount": 2}}
    made["spec"] = {"schedulingPolicy": policy, "workloadRef": reference}
    await env.create(COMPOSITE_POD_GROUPS, made)
    child = pod_group("g", 2)
    child["spec"]["workloadRef"] = reference | {"templateName": "g"}
    child["spec"]["parentCompositePodGroupName"] = "tree"
    await env.create(POD_GROUPS, child)
    await members(env, 2)


async def coscheduling(env: Environment) -> None:
    made = {
        "apiVersion": COSCHEDULINGS.api_version,
        "kind": COSCHEDULINGS.kind,
        "metadata": {"name": "g"},
        "spec": {"subsets": [{"name": "all", "minMember": 2}]},
    }
    await env.create(COSCHEDULINGS, made)
    await members(env, 1, labels={LABEL_COSCHEDULING: "g"})


async def no_workload(env: Environment) -> None:
    await members(env, 1, labels={LABEL_WORKLOAD: "train", LABEL_TEMPLATE: "workers"})


async def delegated(env: Environment) -> None:
    made = job("t", env.name, pods=2, mode=None)
    made["metadata"]["annotations"] = {ANNOTATION_GROUP_TEMPLATE: "workers"}
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    await env.create(JOBS, made)


async def order(env: Environment) -> None:
    """Run the first replicatedJob, which never completes."""
    await env.add_node(cpu=4)
    jobs = [
        replicated_job(name, env.name, replicas=1, pods=2, mode="Gang")
        for name in ("first", "second")
    ]
    jobs[1]["dependsOn"] = [{"name": "first", "status": "Complete"}]
    await env.create(JOBSETS, jobset("a", *jobs, mode=None))
    await env.runs(of_jobset("a"), 2)
    # Another JobSet reports in the meantime that it waits.
    other = replicated_job("w", env.name, replicas=1, pods=8)
    await env.create(JOBSETS, jobset("other", other))
    await told(env, JOBSETS, "other")


async def busy(env: Environment) -> None:
    await env.add_node(cpu=3)
    await env.create(JOBS, job("before", env.name, pods=2))
    await env.runs(of_job("before"), 2)
    await env.create(JOBS, job("t", env.name, pods=2))


async def sisters(env: Environment) -> None:
    await env.add_node(cpu=5)
    workers = replicated_job("w", env.name, replicas=2, pods=3)
    await env.create(JOBSETS, jobset("a", workers, mode="Composite"))


async def beyond(env: Environment) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "g", 2)
    await env.scheduled("g")
    await env.create(PODS, pod("third", env.name, group="g"))


async def restarted(env: Environment) -> None:
    """Restart the JobSet after its node was cordoned."""
    node = await env.add_node(cpu=2)
    made = jobset("a", replicated_job("w", env.name, replicas=1, pods=2))
    made["spec"]["failurePolicy"] = {"maxRestarts": 1}
    await env.create(JOBSETS, made)
    await env.scheduled("pg-a")
    await env.runs(of_jobset("a"), 2)
    await env.client.patch(NODES, node, PatchBuilder().add("/spec/unschedulable", True))
    await env.cluster.finish_pods(env.name, of_jobset("a"), "Failed")


async def restarted_in_order(env: Environment) -> None:
    """Run the pods of both; then fail those of the first, so that everything restarts."""
    node = await env.add_node(cpu=4)
    jobs = [
        replicated_job(name, env.name, replicas=1, pods=2, mode="Gang")
        for name in ("first", "second")
    ]
    made = jobset("a", *jobs, mode=None)
    made["spec"] |= {
        "failurePolicy": {"maxRestarts": 1},
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
    }
    await env.create(JOBSETS, made)
    await env.scheduled("pg-a-second-65c7891a79")
    await env.runs(of_jobset("a"), 4)
    await env.client.patch(NODES, node, PatchBuilder().add("/spec/unschedulable", True))
    first = f"{of_jobset('a')},jobset.sigs.k8s.io/replicatedjob-name=first"
    await env.cluster.finish_pods(env.name, first, "Failed")


async def gone(env: Environment) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "g", 2)
    await env.scheduled("g")
    await env.delete_pods()


async def leaving(env: Environment) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "g", 2, finalizers=(HOLD,))
    await env.scheduled("g")
    await env.delete(PODS, "g-0")


async def failed(env: Environment) -> None:
    """Fail a pod that its Job does not replace: its backoffLimit is 0."""
    await env.add_node(cpu=2)
    await env.create(JOBS, job("t", env.name, pods=2))
    await env.scheduled("pg-job-t")
    await env.runs(of_job("t"), 2)
    await env.cluster.finish_pods(env.name, of_job("t"), "Failed")


async def important(env: Environment) -> None:
    """Create a priority class, and wait until the webhook knows it."""
    with suppress(AlreadyExists):
        await env.client.create(PRIORITY_CLASSES, {"metadata": {"name": PRIORITY}, "value": 1000})
    await class_is_known(env, PRIORITY)


async def evicted(env: Environment) -> None:
    await env.add_node(cpu=2)
    made = job("t", env.name, pods=2)
    made["spec"]["backoffLimit"] = 6
    await env.create(JOBS, made)
    await env.scheduled("pg-job-t")
    await env.runs(of_job("t"), 2)
    await important(env)
    urgent = job("urgent", env.name, pods=2)
    urgent["spec"]["template"]["spec"]["priorityClassName"] = PRIORITY
    await env.create(JOBS, urgent)
    await env.runs(of_job("urgent"), 2)


STATES = (
    State(
        "A group of your own lacks a pod",
        lacks_a_pod,
        {
            "Pod/g": "Create 1 more pod that names the group",
            "PodGroup/g": "Create 1 more pod that names the group",
        },
    ),
    State("A group of the basic policy has no pods", basic, {"PodGroup/g": "has no pods"}),
    State(
        "A pod has a scheduling gate",
        gate,
        {
            "Pod/g": "when their schedulingGates are removed",
            "PodGroup/g": "when their schedulingGates are removed",
        },
    ),
    State(
        "A composite lacks a child group",
        lacks_a_child,
        {
            "Pod/g": "Create the others",
            "PodGroup/g": 'Waiting for CompositePodGroup "tree"',
            "CompositePodGroup/tree": "The group has 1 of 2 child groups. Create the others",
        },
    ),
    State(
        "A coscheduling group lacks a pod",
        coscheduling,
        {"PodGroup/g": "lower minMember"},
    ),
    State(
        "Pods name a Workload that does not exist",
        no_workload,
        {"Pod/": "create it, or correct the labels"},
    ),
    State(
        "A Job is delegated to a template that does not exist",
        delegated,
        {"Pod/pg-job-t": "Muster creates it for Job", "Job/t": "TemplateNotFound"},
    ),
    State(
        "It is not yet the turn of a replicatedJob",
        order,
        {"PodGroup/pg-a-second-65c7891a79": "in its startup order", "JobSet/a": "nothing"},
    ),
    State(
        "Other workloads use the capacity",
        busy,
        {
            "Pod/pg-job-t": "0/1 nodes are available: 1 Insufficient cpu.",
            "PodGroup/pg-job-t": "It starts when this capacity is free.",
            "Job/t": "It starts when this capacity is free.",
        },
    ),
    State(
        "The groups of a tree do not fit together",
        sisters,
        {
            "PodGroup/pg-a-w-0": "Unschedulable",
            "PodGroup/pg-a-w-1": "Unschedulable",
            "CompositePodGroup/cpg-a": "Unschedulable",
            "JobSet/a": 'With the 3 pods of PodGroup "pg-a-w-0" placed, the group needs',
        },
    ),
    State(
        "A pod beyond minCount does not fit",
        beyond,
        {
            "Pod/g": "0/1 nodes are available: 1 Insufficient cpu.",
            "PodGroup/g": "True Scheduled: minCount pods are scheduled.",
        },
    ),
    State(
        "A JobSet was restarted, and its nodes are cordoned",
        restarted,
        {
            "Pod/pg-a": "1 node(s) were unschedulable",
            "PodGroup/pg-a": "True Scheduled: minCount pods were scheduled. 0/1",
            "JobSet/a": "uncordon a node",
        },
    ),
    State(
        "A JobSet was restarted, and begins with its first replicatedJob",
        restarted_in_order,
        {
            "PodGroup/pg-a-first-bbaa90823f": "minCount pods were scheduled. 0/1",
            "PodGroup/pg-a-second-65c7891a79": "its earlier pods are deleted. JobSet",
            "JobSet/a": "PodGroup pg-a-first-bbaa90823f: 0/1",
        },
    ),
    State(
        "The pods that ran are gone",
        gone,
        {"PodGroup/g": "its earlier pods are deleted. Create 2 more"},
    ),
    State(
        "A pod that ran is being deleted",
        leaving,
        {"PodGroup/g": "not counting 1 being deleted"},
    ),
    State(
        "Its Job has failed",
        failed,
        {"PodGroup/pg-job-t": "not counting 2 failed", "Job/t": "nothing"},
    ),
    State(
        "It was evicted for a more important gang",
        evicted,
        {
            "Pod/pg-job-t": "0/1 nodes are available: 1 Insufficient cpu.",
            "PodGroup/pg-job-t": "The group needs capacity for 2 more pods; 0 fit.",
            "Job/t": "It starts when this capacity is free.",
        },
    ),
)


SHORT = (
    "Other workloads use the capacity",
    "The groups of a tree do not fit together",
)
"""The states of the short run.

test_quorum_messages.py and test_advice.py have the messages of all states.
"""


@pytest.mark.parametrize("state", selected({it.title: it for it in STATES}, SHORT))
async def test_what_a_waiting_group_says_is_true_of_it(
    env: Environment, state: State, server_kind: str, record: bool
) -> None:
    await state.make(env)
    said = await _said(env, state)
    await remove_finalizers(env, "")
    for found in (await env.client.list(COSCHEDULINGS, env.name))["items"]:
        await env.delete(COSCHEDULINGS, found["metadata"]["name"])

    TROUBLESHOOTING.check(state.title, said, record=record, server_kind=server_kind)


async def told(env: Environment, kind: Resource, name: str) -> None:
    """Wait until the Job or JobSet reports what it waits for."""

    async def probe() -> bool:
        return await _of_owner(env, kind, name) != "nothing"

    await env.until(f"{name} to be told", probe)


async def _said(env: Environment, state: State) -> str:
    """Return the messages of all inspected objects, once they match."""
    lines: dict[str, str] = {}

    async def probe() -> bool:
        for at in state.says:
            lines[at] = await _of(env, *at.split("/"))
        return all(part in lines[at] for at, part in state.says.items())

    try:
        await env.until("the sentences", probe)
    except TimeoutError as error:
        raise AssertionError("\n".join(map(": ".join, lines.items()))) from error
    text = "\n".join(_line(at, said) for at, said in lines.items())
    return text.replace(env.name, "NAMESPACE")


def _line(at: str, said: str) -> str:
    kind, name = at.split("/")
    if kind == "Pod":
        return f"Pod: {said}"
    verb = " waits for" if kind in (JOBS.kind, JOBSETS.kind) else ""
    return f"{kind} {name}{verb}: {said}"


async def _of(env: Environment, kind: str, name: str) -> str:
    if kind == "Pod":
        return await _of_pod(env, name)
    if kind in (JOBS.kind, JOBSETS.kind):
        return await _of_owner(env, KINDS[kind], name)
    return await _of_group(env, KINDS[kind], name)


async def _of_pod(env: Environment, group: str) -> str:
    pods = await env.pods(f"{LABEL_POD_GROUP}={group}" if group else "")
    for found in sorted(pods, key=lambda it: str(it["metadata"]["name"])):
        for it in found.get("status", {}).get("conditions") or ():
            if it["type"] == "PodScheduled" and it["status"] == "False":
                return f"{it['reason']}: {it.get('message', '')}"
    return ""


async def _of_group(env: Environment, kind: Resource, name: str) -> str:
    try:
        found = await env.client.get(kind, name, env.name)
    except NotFound:
        return ""
    for it in found.get("status", {}).get("conditions") or ():
        if it["type"] != "DisruptionTarget":
            return f"{it['status']} {it['reason']}: {it['message']}"
    return ""


async def _of_owner(env: Environment, kind: Resource, name: str) -> str:
    notes = (await env.client.get(kind, name, env.name))["metadata"].get("annotations") or {}
    said: str = notes.get(ANNOTATION_WAITING_FOR, "nothing")
    return said
