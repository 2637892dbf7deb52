"""Ten typical mistakes: what `kubectl describe` shows, and that it says what to change.

`docs/mistakes.md` is made of what a run on a real control plane shows (`--record`), and every
other run must show the same.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.constants import LABEL_POD_GROUP, POD_GROUP
from e2e.suite.objects import (
    NODE_LABEL,
    POD_GROUPS,
    Json,
    jobset,
    pod,
    pod_group,
    replicated_job,
)
from e2e.suite.stage import Stage
from kube.errors import AlreadyExists, NotFound
from kube.resources import EVENTS, JOBSETS, PODS, PRIORITY_CLASSES, PVCS, Resource

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "mistakes.md"
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
PRIORITY = "muster-e2e-urgent"
JOBSET, GROUP = "train", "pg-train"


@dataclass(frozen=True, slots=True)
class Mistake:
    """`make` makes it; `says` is part of what is told, in so many `places`, of `group`."""

    title: str
    make: Callable[[Stage], Awaitable[None]]
    says: str
    group: str = GROUP
    places: int = 4
    real_only: bool = False


async def too_big(stage: Stage) -> None:
    await _jobset(stage, lambda spec: _request(spec, "64"))


async def wrong_selector(stage: Stage) -> None:
    await _jobset(stage, lambda spec: spec["nodeSelector"].update(disk="sdd"))


async def untolerated_taint(stage: Stage) -> None:
    await _jobset(stage, lambda spec: spec["nodeSelector"].update({NODE_LABEL: f"{stage.name}-t"}))


async def too_large_gang(stage: Stage) -> None:
    await _jobset(stage, lambda spec: _request(spec, "3"))


async def missing_group(stage: Stage) -> None:
    for index in range(2):
        await stage.create(PODS, pod(f"member-{index}", stage.name, group="trian"))


async def missing_parent(stage: Stage) -> None:
    group = pod_group("worker", 2)
    group["spec"] |= {
        "parentCompositePodGroupName": "trian",
        "workloadRef": {"workloadName": "train", "templateName": "worker"},
    }
    await stage.create(POD_GROUPS, group)
    for index in range(2):
        await stage.create(PODS, pod(f"member-{index}", stage.name, group="worker"))


async def wrong_priority(stage: Stage) -> None:
    body = {"metadata": {"name": PRIORITY}, "value": 1000}
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    with suppress(AlreadyExists):
        await stage.client.create(PRIORITY_CLASSES, head | body)
    group = pod_group("worker", 2)
    group["spec"]["priorityClassName"] = PRIORITY
    await stage.until("the class to be known", lambda: _accepted(stage, group))
    for index in range(2):
        await stage.create(PODS, pod(f"member-{index}", stage.name, group="worker"))


async def quota(stage: Stage) -> None:
    body = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "2"}}}
    await stage.create(QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota"} | body)

    async def counted() -> bool:
        found = await stage.client.get(QUOTAS, "small", stage.name)
        return bool(found.get("status", {}).get("used"))

    await stage.until("the quota to be counted", counted)
    await _jobset(stage, lambda _spec: None)


async def unbound_volume(stage: Stage) -> None:
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
    await stage.create(PVCS, claim)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await _jobset(stage, lambda spec: spec.update(volumes=[volume]))


async def anti_affinity(stage: Stage) -> None:
    apart = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {LABEL_POD_GROUP: GROUP}},
    }
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    await _jobset(stage, lambda spec: spec.update(affinity={"podAntiAffinity": terms}))


MISTAKES = (
    Mistake("A pod is larger than any node", too_big, "ask for less cpu: a pod wants 64"),
    Mistake("The node selector matches no node", wrong_selector, "change the node selector"),
    Mistake("A taint is not tolerated", untolerated_taint, "add a toleration for {team: blue}"),
    Mistake("The gang is larger than the cluster", too_large_gang, "lower minCount or add nodes"),
    Mistake(
        "The group that pods name is missing", missing_group, "create it, or correct", "trian", 1
    ),
    Mistake("The parent is missing", missing_parent, "create it, or correct the name", "worker", 2),
    Mistake("Priorities differ", wrong_priority, "the same priorityClassName", "worker", 3),
    Mistake("A quota stops some pods", quota, "their Job say why", places=2, real_only=True),
    Mistake("A volume is not bound", unbound_volume, "give them a storageClassName"),
    Mistake("More pods than nodes must be apart", anti_affinity, "must be apart by"),
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
async def test_the_message_says_what_to_change(
    stage: Stage, mistake: Mistake, server_kind: str, record: bool
) -> None:
    if mistake.real_only and server_kind == "local":
        pytest.skip("the embedded cluster enforces no quotas")
    await _nodes(stage)
    await mistake.make(stage)
    told = await _told(stage, mistake)

    assert mistake.says in told
    if record:
        _write(mistake, told)
    elif server_kind != "foreign":
        assert _section(mistake) == told


async def _nodes(stage: Stage) -> None:
    """Two nodes for the test's pods, and one that a taint keeps them off."""
    for _ in range(2):
        await stage.add_node(cpu=4)
    taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
    await stage.add_node(cpu=4, labels={NODE_LABEL: f"{stage.name}-t"}, taints=[taint])


async def _jobset(stage: Stage, change: Callable[[Json], object]) -> None:
    job = replicated_job("w", stage.name, replicas=1, pods=4)
    change(job["template"]["spec"]["template"]["spec"])
    await stage.create(JOBSETS, jobset(JOBSET, job))


def _request(spec: Json, cpu: str) -> None:
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu


async def _accepted(stage: Stage, group: Json) -> bool:
    """Created, once the webhook's cache has the class."""
    try:
        await stage.create(POD_GROUPS, group)
    except AlreadyExists:
        return True
    except Exception as error:
        if "PriorityClass" in str(error) or "priority" in str(error):
            return False
        raise
    return True


async def _told(stage: Stage, mistake: Mistake) -> str:
    """What `kubectl describe` shows of a pod, the group and the JobSet, as lines."""
    lines: list[str] = []

    async def probe() -> bool:
        lines[:] = [
            *await _of_pod(stage, mistake),
            *await _of_group(stage, mistake),
            *await _events(stage, "JobSet", JOBSET),
        ]
        return sum(mistake.says in line for line in lines) == mistake.places

    try:
        await stage.until("the message", probe)
    except TimeoutError as error:
        raise AssertionError("\n".join(lines)) from error
    return "\n".join(lines).replace(stage.name, "NAMESPACE")


async def _of_pod(stage: Stage, mistake: Mistake) -> list[str]:
    for found in sorted(await stage.pods(), key=lambda pod: str(pod["metadata"]["name"])):
        if found["metadata"]["labels"].get(LABEL_POD_GROUP) != mistake.group:
            continue
        for condition in found.get("status", {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return [f"Pod: {condition['reason']}: {condition['message']}"]
    return []


async def _of_group(stage: Stage, mistake: Mistake) -> list[str]:
    try:
        group = await stage.group(mistake.group)
    except NotFound:
        return []
    conditions = group.get("status", {}).get("conditions") or ()
    return [
        *(f"{POD_GROUP.kind}: {it['reason']}: {it['message']}" for it in conditions),
        *await _events(stage, POD_GROUP.kind, mistake.group),
    ]


async def _events(stage: Stage, kind: str, name: str) -> list[str]:
    events = (await stage.client.list(EVENTS, stage.name))["items"]
    ours = [
        event
        for event in events
        if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
        and event.get("reportingComponent", "").startswith("muster")
        and event["type"] == "Warning"
    ]
    return sorted(f"Event of the {kind}: {it['reason']}: {it['message']}" for it in ours)


def _section(mistake: Mistake) -> str:
    text = DOCUMENT.read_text()
    head = f"## {mistake.title}\n\n```text\n"
    assert head in text, f"docs/mistakes.md has no section {mistake.title!r}"
    return text.partition(head)[2].partition("\n```\n")[0]


def _write(mistake: Mistake, told: str) -> None:
    """Put the section where the list has it."""
    texts = {}
    for other in MISTAKES:
        if other is mistake:
            texts[other.title] = told
        elif DOCUMENT.exists() and f"## {other.title}\n" in DOCUMENT.read_text():
            texts[other.title] = _section(other)
    sections = "".join(f"\n## {title}\n\n```text\n{text}\n```\n" for title, text in texts.items())
    DOCUMENT.write_text(_INTRODUCTION + sections)


_INTRODUCTION = """\
# Ten typical mistakes, and what they look like

What `kubectl describe` shows on a waiting pod, on its group and on the JobSet,
in a namespace with two free nodes of 4 CPUs and one that is tainted for others.
Recorded on a real control plane; do not edit, but run
`pytest e2e/scheduling/test_mistakes.py --cluster=real --record`.
"""
