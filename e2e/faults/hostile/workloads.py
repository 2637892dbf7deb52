"""Random Jobs, JobSets and pods, in every mode, size, topology and priority."""

import random
from dataclasses import dataclass

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    SCHEDULER_NAME,
)
from e2e.faults.hostile.site import RACK, ROOM
from e2e.harness.objects import Json, job, jobset, of_job, of_jobset, pod, replicated_job
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

_NEVER_FAILS = 1_000_000
CLASSES = (None, None, None, "some", "more", "most")


@dataclass(frozen=True, slots=True)
class Work:
    """One workload of a user; `selector` finds its pods."""

    kind: Resource
    namespace: str
    manifest: Json
    selector: str

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name


def draw(chance: random.Random, namespace: str, number: int) -> Work:
    """Draw a workload of a few pods; a rack fits only some workloads."""
    kind = chance.choice(("job", "job", "jobset", "jobset", "pod"))
    if kind == "pod":
        return _pod(chance, namespace, f"pod-{number}")
    if kind == "job":
        return _job(chance, namespace, f"job-{number}")
    return _jobset(chance, namespace, f"set-{number}")


def _pod(chance: random.Random, namespace: str, name: str) -> Work:
    made = pod(name, ROOM)
    made["metadata"]["labels"]["work"] = name
    _shape(made["spec"], chance, chance.choice(CLASSES))
    return Work(PODS, namespace, made, f"work={name}")


def _job(chance: random.Random, namespace: str, name: str) -> Work:
    mode = chance.choice(("Gang", "Gang", "Gang", "Basic", None))
    made = job(name, ROOM, pods=chance.randint(1, 8), mode=mode)
    annotations = made["metadata"].setdefault("annotations", {})
    if mode:
        annotations |= _wishes(chance, ANNOTATION_TOPOLOGY, ANNOTATION_PREFERRED_TOPOLOGY)
        annotations |= _disruption(chance)
    finish(made["spec"], chance, chance.choice(CLASSES))
    return Work(JOBS, namespace, made, of_job(name))


def _jobset(chance: random.Random, namespace: str, name: str) -> Work:
    mode = chance.choice(("Gang", "Composite", "Composite", "inner"))
    inner = [chance.choice(("Gang", "ReplicatedGang")) if mode == "inner" else None] * 2
    jobs = [
        replicated_job(
            each, ROOM, replicas=chance.randint(1, 2), pods=chance.randint(1, 3), mode=how
        )
        for each, how in zip(("a", "b")[: chance.randint(1, 2)], inner, strict=False)
    ]
    made = jobset(name, *jobs, mode=None if mode == "inner" else mode)
    annotations = made["metadata"].setdefault("annotations", {})
    if mode != "inner":
        annotations |= _wishes(chance, ANNOTATION_TOPOLOGY, ANNOTATION_PREFERRED_TOPOLOGY)
        annotations |= _disruption(chance)
    rank = chance.choice(CLASSES)
    for each in jobs:
        own = each["template"].setdefault("metadata", {}).setdefault("annotations", {})
        if mode == "Composite" and ANNOTATION_TOPOLOGY not in annotations:
            own |= _wishes(chance, ANNOTATION_TOPOLOGY, None)
        finish(each["template"]["spec"], chance, rank)
    return Work(JOBSETS, namespace, made, of_jobset(name))


def _wishes(chance: random.Random, required: str, preferred: str | None) -> dict[str, str]:
    draw = chance.random()
    if draw < 0.35:
        return {required: RACK}
    return {preferred: RACK} if preferred and draw < 0.5 else {}


def _disruption(chance: random.Random) -> dict[str, str]:
    return {ANNOTATION_DISRUPTION_MODE: "All"} if chance.random() < 0.4 else {}


def finish(spec: Json, chance: random.Random, rank: str | None) -> None:
    """Set a backoff limit that never fails the Job, however often its pods are lost."""
    spec["backoffLimit"] = _NEVER_FAILS
    _shape(spec["template"]["spec"], chance, rank)


def _shape(spec: Json, chance: random.Random, rank: str | None) -> None:
    spec["schedulerName"] = SCHEDULER_NAME
    spec["terminationGracePeriodSeconds"] = 0
    cpu = chance.choice(("1", "1", "2", "3"))
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu
    if rank:
        spec["priorityClassName"] = rank
