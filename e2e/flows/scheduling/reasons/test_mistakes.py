"""Typical mistakes: the output of `kubectl describe`, which must name the fix.

`docs/troubleshooting.md` has a block of messages for each, recorded from a run on a real control
plane (`--record`), and every other run must match.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from api.constants import ANNOTATION_TOPOLOGY, LABEL_POD_GROUP, POD_GROUP
from e2e.flows.scheduling.reasons.recorded import TROUBLESHOOTING
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    NODE_LABEL,
    POD_GROUPS,
    Json,
    jobset,
    pod,
    pod_group,
    replicated_job,
)
from kube.base.errors import AlreadyExists, NotFound
from kube.client.resources import EVENTS, JOBSETS, PODS, PRIORITY_CLASSES, PVCS, Resource

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
PRIORITY = "muster-e2e-urgent"
JOBSET, GROUP = "train", "pg-train"
RACK = "example.com/rack"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake: `make` creates it; `says` is a part of the message, in `places`, about `group`."""

    title: str
    make: Callable[[Environment], Awaitable[None]]
    says: str
    group: str = GROUP
    places: int = 3
    real_only: bool = False


async def too_big(env: Environment) -> None:
    await _jobset(env, lambda spec: _request(spec, "64"))


async def wrong_selector(env: Environment) -> None:
    await _jobset(env, lambda spec: spec["nodeSelector"].update(disk="sdd"))


async def untolerated_taint(env: Environment) -> None:
    await _jobset(env, lambda spec: spec["nodeSelector"].update({NODE_LABEL: f"{env.name}-t"}))


async def too_large_gang(env: Environment) -> None:
    await _jobset(env, lambda spec: _request(spec, "3"))


async def missing_group(env: Environment) -> None:
    for index in range(2):
        await env.create(PODS, pod(f"member-{index}", env.name, group="trian"))


async def missing_parent(env: Environment) -> None:
    group = pod_group("worker", 2)
    group["spec"] |= {
        "parentCompositePodGroupName": "trian",
        "workloadRef": {"workloadName": "train", "templateName": "worker"},
    }
    await env.create(POD_GROUPS, group)
    for index in range(2):
        await env.create(PODS, pod(f"member-{index}", env.name, group="worker"))


async def wrong_priority(env: Environment) -> None:
    body = {"metadata": {"name": PRIORITY}, "value": 1000}
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    with suppress(AlreadyExists):
        await env.client.create(PRIORITY_CLASSES, head | body)
    group = pod_group("worker", 2)
    group["spec"]["priorityClassName"] = PRIORITY
    await env.until("the class to be known", lambda: _accepted(env, group))
    for index in range(2):
        await env.create(PODS, pod(f"member-{index}", env.name, group="worker"))


async def quota(env: Environment) -> None:
    body = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "2"}}}
    await env.create(QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota"} | body)

    async def counted() -> bool:
        found = await env.client.get(QUOTAS, "small", env.name)
        return bool(found.get("status", {}).get("used"))

    await env.until("the quota to be counted", counted)
    await _jobset(env, lambda _spec: None)


async def unbound_volume(env: Environment) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await env.create(PVCS, claim)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await _jobset(env, lambda spec: spec.update(volumes=[volume]))


async def anti_affinity(env: Environment) -> None:
    apart = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {LABEL_POD_GROUP: GROUP}},
    }
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    await _jobset(env, lambda spec: spec.update(affinity={"podAntiAffinity": terms}))


async def too_small_domains(env: Environment) -> None:
    await _jobset(env, lambda spec: _request(spec, "2"), topology=RACK)


async def unknown_level(env: Environment) -> None:
    await _jobset(env, lambda _spec: None, topology="example.com/rak")


MISTAKES = (
    Mistake("A pod is larger than any node", too_big, "a pod requests 64 cpu"),
    Mistake("The node selector matches no node", wrong_selector, "change the node selector"),
    Mistake("A taint is not tolerated", untolerated_taint, "add a toleration for {team: blue}"),
    Mistake(
        "The gang is larger than the cluster",
        too_large_gang,
        "Lower minCount to 2 with the min-count annotation next to gang-mode in"
        ' JobSet "train", or add nodes',
    ),
    Mistake(
        "The group that pods name is missing", missing_group, "Create it, or correct", "trian", 1
    ),
    Mistake("The parent is missing", missing_parent, "Create it, or correct the name", "worker", 2),
    Mistake("Priorities differ", wrong_priority, "the same priorityClassName", "worker", 3),
    Mistake("A quota stops some pods", quota, "If no more pods appear", real_only=True),
    Mistake("No domain fits all pods", too_small_domains, "span more than one example.com/rack"),
    Mistake(
        "No node has the label of the topology",
        unknown_level,
        'create JobSet "train" again with another topology key',
        places=4,
    ),
    Mistake("A volume is not bound", unbound_volume, "set a storageClassName"),
    Mistake("More pods than nodes must be apart", anti_affinity, "keeps the pods apart by"),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
async def test_the_message_says_what_to_change(
    env: Environment, mistake: Mistake, server_kind: str, record: bool
) -> None:
    if mistake.real_only and server_kind == "local":
        pytest.skip("the embedded cluster enforces no quotas")
    await _nodes(env)
    await mistake.make(env)
    told = await _told(env, mistake)

    assert mistake.says in told
    TROUBLESHOOTING.check(mistake.title, told, record=record, server_kind=server_kind)


async def _nodes(env: Environment) -> None:
    """Create two nodes for the test's pods, and one with a taint that they do not tolerate."""
    for rack in "ab":
        await env.add_node(cpu=4, labels={RACK: rack})
    taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
    await env.add_node(cpu=4, labels={NODE_LABEL: f"{env.name}-t"}, taints=[taint])


async def _jobset(
    env: Environment, change: Callable[[Json], object], topology: str | None = None
) -> None:
    job = replicated_job("w", env.name, replicas=1, pods=4)
    change(job["template"]["spec"]["template"]["spec"])
    made = jobset(JOBSET, job)
    if topology is not None:
        made["metadata"]["annotations"][ANNOTATION_TOPOLOGY] = topology
    await env.create(JOBSETS, made)


def _request(spec: Json, cpu: str) -> None:
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu


async def _accepted(env: Environment, group: Json) -> bool:
    """Create the group once the webhook's cache has the class."""
    try:
        await env.create(POD_GROUPS, group)
    except AlreadyExists:
        return True
    except Exception as error:
        if "PriorityClass" in str(error) or "priority" in str(error):
            return False
        raise
    return True


async def _told(env: Environment, mistake: Mistake) -> str:
    """Return the lines of `kubectl describe` for a pod, the group and the JobSet."""
    lines: list[str] = []

    async def probe() -> bool:
        lines[:] = [
            *await _of_pod(env, mistake),
            *await _of_group(env, mistake),
            *await _events(env, mistake, "JobSet", JOBSET),
        ]
        # Pods of a group that lacks capacity do not have the advice, and are written last.
        of_pods = mistake.real_only or any(line.startswith("Pod: ") for line in lines)
        return of_pods and sum(mistake.says in line for line in lines) == mistake.places

    try:
        await env.until("the message", probe)
    except TimeoutError as error:
        raise AssertionError("\n".join(lines)) from error
    return "\n".join(lines).replace(env.name, "NAMESPACE")


async def _of_pod(env: Environment, mistake: Mistake) -> list[str]:
    for found in sorted(await env.pods(), key=lambda pod: str(pod["metadata"]["name"])):
        if found["metadata"]["labels"].get(LABEL_POD_GROUP) != mistake.group:
            continue
        for condition in found.get("status", {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return [f"Pod: {condition['reason']}: {condition['message']}"]
    return []


async def _of_group(env: Environment, mistake: Mistake) -> list[str]:
    try:
        group = await env.group(mistake.group)
    except NotFound:
        return []
    conditions = group.get("status", {}).get("conditions") or ()
    return [
        *(f"{POD_GROUP.kind}: {it['reason']}: {it['message']}" for it in conditions),
        *await _events(env, mistake, POD_GROUP.kind, mistake.group),
    ]


async def _events(env: Environment, mistake: Mistake, kind: str, name: str) -> list[str]:
    events = (await env.client.list(EVENTS, env.name))["items"]
    # Where pods are created slowly, another one states that the group lacks some of them.
    events = [event for event in events if mistake.says in event["message"]]
    ours = [
        event
        for event in events
        if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
        and event.get("reportingComponent", "").startswith("muster")
        and event["type"] == "Warning"
    ]
    return sorted(f"Event of the {kind}: {it['reason']}: {it['message']}" for it in ours)
