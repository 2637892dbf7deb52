"""Every pod of Muster's that has no node states why, within five seconds (KEP-4671).

The complete scheduler process, in virtual time. Each row of `SITUATIONS` is one reason to wait.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_MIN_COUNT_BASIS,
    JOB_LABEL_UID,
    LABEL_COSCHEDULING,
    LABEL_MANAGED_BY,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    MANAGED_BY,
    WORKLOAD,
)
from api.integration.common.minimum import GroupPodCounts, minimum
from api.ownership import OwnerId
from kube.base.settings import LeaderElection
from kube.client.meta import Json
from kube.client.resources import EVENTS, NODES, PODS, Resource
from scheduler.app import Scheduler
from scheduler.support.config import Config
from scheduler.support.kinds import GROUPS
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import MemoryApi

POD_GROUPS, COMPOSITES = GROUPS["PodGroup"], GROUPS["CompositePodGroup"]
WITHIN = 5.0
"""Seconds, of virtual time, within which a pod states why it waits."""

WAITS = "CoschedulingNotMeetMinMember"


class Process:
    """A scheduler that leads, and its API server."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api = MemoryApi(self.clock)
        self.scheduler = Scheduler(self.api, Config(), LeaderElection(), clock=self.clock)

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        task = asyncio.ensure_future(self.scheduler.run(stop))
        try:
            await self.passes(2)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def passes(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.25)):
            await settle()
            await self.clock.advance(0.25)
        await settle()

    def condition(self, name: str, namespace: str = "ns") -> tuple[str, str, str]:
        """Return status, reason and message of PodScheduled; empty texts without it."""
        pod = self.api.stored(PODS, name, namespace)
        assert pod is not None
        for it in pod.get("status", {}).get("conditions", ()):
            if it["type"] == "PodScheduled":
                return it["status"], it.get("reason", ""), it.get("message", "")
        return "", "", ""

    def events(self, kind: str, name: str) -> list[Json]:
        """Return the warnings about an object."""
        about = {"kind": kind, "name": name}
        events = [it for it in self.api.all(EVENTS) if it["type"] == "Warning"]
        return [it for it in events if about.items() <= it["involvedObject"].items()]


def group(name: str, minimum: int, **spec: Any) -> tuple[Resource, Json]:
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return POD_GROUPS, {"metadata": {"name": name}, "spec": policy | spec}


def composite(name: str, minimum: int) -> tuple[Resource, Json]:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": minimum}}}
    return COMPOSITES, {"metadata": {"name": name}, "spec": spec}


def job_group(name: str, least: int, job: str, basis: int | None = None) -> tuple[Resource, Json]:
    """Return a group that Muster created for a Job."""
    resource, obj = group(name, least)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}"}
    obj["metadata"] |= {
        "annotations": {
            ANNOTATION_MADE_FOR: OwnerId("batch", "Job", job, f"uid-{job}").annotation()
        },
        "labels": {LABEL_MANAGED_BY: MANAGED_BY},
        "ownerReferences": [owner | {"controller": True}],
    }
    if basis is not None:
        obj["metadata"]["annotations"][ANNOTATION_MIN_COUNT_BASIS] = minimum_note(basis)
    return resource, obj


def minimum_note(pods: int) -> str:
    """Return the annotation for which minCount is right for so many pods."""
    return minimum(pods, GroupPodCounts(pods, pods, pods))[1]


def pod(name: str = "p", group: str = "", *, job: str = "j") -> PodBuilder:
    builder = make_pod(name, "ns").cpu("1").owned_by("Job", job, f"uid-{job}")
    return builder.in_group(group) if group else builder


def of_job(name: str, group: str, *, job: str = "j") -> PodBuilder:
    return pod(name, job=job).managed(group).label(JOB_LABEL_UID, f"uid-{job}")


def claims(builder: PodBuilder) -> Json:
    made = builder.build()
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "absent"}]
    return made


def of_class(builder: PodBuilder, **spec: Any) -> Json:
    made = builder.build()
    made["spec"] |= spec
    return made


@dataclass(frozen=True, slots=True)
class Situation:
    """Why pod `p` waits. `owner` is the object whose event states it, as Kind/name."""

    title: str
    objects: list[tuple[Resource, Json]]
    reason: str
    message: str
    owner: str = "Job/j"


def pods(*made: PodBuilder | Json) -> list[tuple[Resource, Json]]:
    return [(PODS, it.build() if isinstance(it, PodBuilder) else it) for it in made]


SITUATIONS = [
    Situation(
        "the group is missing",
        pods(pod(group="g")),
        WAITS, 'PodGroup "g" does not exist. Create it, or correct the name in its pods.',
    ),
    Situation(
        "the Workload is missing",
        pods(pod().label(LABEL_WORKLOAD, "w").label(LABEL_TEMPLATE, "t")),
        WAITS, 'from template "t" of Workload "w", which does not exist: create it',
    ),
    Situation(
        "the Workload has no such template",
        [
            (WORKLOAD, {
                "metadata": {"name": "w"},
                "spec": {"podGroupTemplates": [
                    {"name": "other", "schedulingPolicy": {"gang": {"minCount": 1}}}
                ]},
            }),
            *pods(pod().label(LABEL_WORKLOAD, "w").label(LABEL_TEMPLATE, "t")),
        ],
        WAITS, 'Workload "w" has no template "t" in its podGroupTemplates: add it',
    ),
    Situation(
        "no template is named",
        pods(pod().label(LABEL_WORKLOAD, "w")),
        "Invalid", f"Label {LABEL_WORKLOAD} names a group only with label {LABEL_TEMPLATE}",
    ),
    Situation(
        "no Workload is named",
        pods(pod().label(LABEL_TEMPLATE, "t")),
        "Invalid", f"Label {LABEL_TEMPLATE} names a group only with label {LABEL_WORKLOAD}",
    ),
    Situation(
        "the coscheduling group is missing",
        pods(pod().label(LABEL_COSCHEDULING, "g")),
        WAITS, 'It is created from coscheduling PodGroup "g": create that, or correct the name.',
    ),
    Situation(
        "a user's group has the name",
        [group("g", 1), *pods(of_job("p", "g"))],
        WAITS, 'PodGroup "g" belongs to a user, not to the owner of the pod.',
    ),
    Situation(
        "the group of another owner has the name",
        [job_group("g", 1, "other"), *pods(of_job("p", "g"))],
        WAITS, 'PodGroup "g" belongs to Job "other", not to the owner of the pod.',
    ),
    Situation(
        "the group lacks pods",
        [group("g", 2), *pods(pod(group="g"))],
        WAITS, "The group has 1 of 2 pods.",
    ),
    Situation(
        "the group of the Job lacks pods",
        [job_group("g", 2, "j"), *pods(of_job("p", "g"))],
        WAITS, "The group has 1 of 2 pods.",
    ),
    Situation(
        "a sibling has a scheduling gate",
        [group("g", 2), *pods(pod(group="g"), pod("gated", "g").gated())],
        WAITS, "1 of 2 pods, not counting 1 with schedulingGates",
    ),
    Situation(
        "a sibling waits for its claim",
        [group("g", 2), *pods(pod(group="g"), claims(pod("other", "g", job="other")))],
        WAITS, "not counting 1 waiting for ResourceClaims",
    ),
    Situation(
        "the owner of the group has grown",
        [job_group("g", 1, "j", basis=1), *pods(of_job("before", "g"), of_job("p", "g"))],
        WAITS, "grows with its owner",
    ),
    Situation(
        "the parent is missing",
        [group("g", 1, parentCompositePodGroupName="tree"), *pods(pod(group="g"))],
        WAITS, 'CompositePodGroup "tree" does not exist',
    ),
    Situation(
        "a child group is missing",
        [composite("tree", 2), group("g", 1, parentCompositePodGroupName="tree"),
         *pods(pod(group="g"))],
        WAITS, "1 of 2 child groups",
    ),
    Situation(
        "the group has no policy",
        [(POD_GROUPS, {"metadata": {"name": "g"}, "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"}}}), *pods(pod(group="g"))],
        WAITS, "has no scheduling policy yet",
    ),
    Situation(
        "the group has pods of another scheduler",
        [group("g", 1), *pods(pod(group="g"), pod("other", "g").scheduler("default-scheduler"))],
        "Invalid", "The group has 1 pod of another scheduler.",
    ),
    Situation(
        "the priorities of the group and its pod differ",
        [group("g", 1, priority=7), *pods(pod(group="g"))],
        "Invalid", "The group has priority 7, one of its pods 0.",
    ),
    Situation(
        "the parents form a cycle",
        [
            (COMPOSITES, composite(name, 1)[1] | {"spec": {
                "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                "parentCompositePodGroupName": above}})
            for name, above in (("a", "b"), ("b", "a"))
        ] + [group("g", 1, parentCompositePodGroupName="a"), *pods(pod(group="g"))],
        "Invalid", "form a cycle",
    ),
    Situation(
        "a claim is missing",
        pods(claims(pod())),
        "Unschedulable", 'could not find ResourceClaim "ns/absent"',
    ),
    Situation(
        "a claim of a member is missing",
        [group("g", 1), *pods(claims(pod(group="g")))],
        "Unschedulable", 'could not find ResourceClaim "ns/absent"',
    ),
    Situation(
        "the group does not fit",
        [group("g", 2), *pods(pod(group="g").cpu("99"), pod("q", "g"))],
        "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.",
    ),
    Situation(
        "the group of the Job does not fit",
        [job_group("g", 1, "j"), *pods(of_job("p", "g").cpu("99"))],
        "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.",
    ),
    Situation(
        "a pod without a group does not fit",
        pods(pod().cpu("99")),
        "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.",
    ),
    Situation(
        "the pod uses what Muster does not know",
        pods(of_class(pod(), overhead={"cpu": "1"}, tolerations=[{"operator": "Exists"}] * 999)),
        "Unschedulable", "at most",
    ),
    Situation(
        "the pod cannot be decoded",
        pods(of_class(pod(), priority="high")),
        "Unschedulable", "a field that cannot be decoded, see the event Quarantined",
    ),
]  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda it: it.title)
async def test_a_pod_without_a_node_states_why(situation: Situation) -> None:
    process = Process()
    process.api.put(NODES, make_node("n").build())
    async with process.leading():
        for resource, obj in situation.objects:
            process.api.put(resource, {"status": {}} | obj, "ns")
        await process.passes(WITHIN)
        condition = process.condition("p")
        owner = process.events(*situation.owner.split("/"))
        # Neither time nor a repeated decision repeats them.
        await process.passes(70)
        later, again = process.condition("p"), process.events(*situation.owner.split("/"))

    stored = process.api.stored(PODS, "p", "ns")
    assert stored is not None
    assert "nodeName" not in stored["spec"]
    assert condition[:2] == ("False", situation.reason)
    assert situation.message in condition[2]
    assert later == condition
    (event,) = owner
    assert situation.message in event["message"]
    assert [(it["message"], it["count"]) for it in again] == [(event["message"], 1)]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda it: it.title)
async def test_a_new_leader_states_why_for_the_pods_that_it_finds(situation: Situation) -> None:
    process = Process()
    process.api.put(NODES, make_node("n").build())
    for resource, obj in situation.objects:
        process.api.put(resource, {"status": {}} | obj, "ns")
    async with process.leading():
        await process.passes(WITHIN)
        condition = process.condition("p")

    assert condition[:2] == ("False", situation.reason)
    assert situation.message in condition[2]


async def test_a_message_follows_the_workload_that_it_names() -> None:
    process = Process()
    async with process.leading():
        made = pod().label(LABEL_WORKLOAD, "w").label(LABEL_TEMPLATE, "t").build()
        process.api.put(PODS, {"status": {}} | made, "ns")
        await process.passes(WITHIN)
        missing = process.condition("p")
        template = {"name": "other", "schedulingPolicy": {"gang": {"minCount": 1}}}
        workload = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}
        process.api.put(WORKLOAD, workload, "ns")
        await process.passes(WITHIN)
        incomplete = process.condition("p")

    assert 'Workload "w", which does not exist' in missing[2]
    assert 'Workload "w" has no template "t"' in incomplete[2]


async def test_thousands_of_held_pods_delay_no_other_namespace() -> None:
    process = Process()
    async with process.leading():
        for number in range(2000):
            held = make_pod(f"held-{number}", "flood").label(LABEL_WORKLOAD, "w").build()
            process.api.put(PODS, {"status": {}} | held, "flood")
        calm = make_pod("p", "calm").in_group("absent").build()
        process.api.put(PODS, {"status": {}} | calm, "calm")
        await process.passes(WITHIN)
        condition = process.condition("p", "calm")

    assert condition[:2] == ("False", WAITS)
