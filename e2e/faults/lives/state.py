"""One life's namespace at one moment, and the state that the Job and JobSet controllers want.

The rules are those that Kubernetes and JobSet document. This module does not use Muster's code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from e2e.faults.lives.script import NAME, Life
from e2e.faults.lives.watched import Watched
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS, Json
from kube.client.resources import JOBS, JOBSETS, PODS

ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


@dataclass(frozen=True, slots=True)
class State:
    """All objects of one namespace; `owner` is None if it does not exist or is being deleted."""

    owner: Json | None
    jobsets: tuple[Json, ...]
    jobs: tuple[Json, ...]
    pods: tuple[Json, ...]
    groups: tuple[Json, ...]
    composites: tuple[Json, ...]
    workloads: tuple[Json, ...]

    def pods_of(self, job: Json) -> list[Json]:
        return [pod for pod in self.pods if controller_uid(pod) == job["metadata"]["uid"]]

    def own_jobs(self) -> list[Json]:
        """Return the Jobs of the current owner, without those of an earlier owner or attempt."""
        owner = self.owner
        if owner is None:
            return []
        if owner["kind"] == "Job":
            return [owner]
        attempt = str((owner.get("status") or {}).get("restarts", 0))
        return [
            job
            for job in self.jobs
            if controller_uid(job) == owner["metadata"]["uid"]
            and labels(job).get(ATTEMPT, "0") == attempt
        ]


def look(watched: Watched, namespace: str, life: Life) -> State:
    owner = watched.get(life.resource, namespace, NAME)
    if owner is not None and leaving(owner):
        owner = None
    kinds = (JOBSETS, JOBS, PODS, POD_GROUPS, COMPOSITE_POD_GROUPS, WORKLOADS)
    return State(owner, *(tuple(watched.there(kind, namespace)) for kind in kinds))


# Objects


def name(obj: Json) -> str:
    found: str = obj["metadata"]["name"]
    return found


def labels(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def notes(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def leaving(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def controller_uid(obj: Json) -> str | None:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each.get("controller")), None)


def status_of(obj: Json) -> dict[str, Any]:
    return obj.get("status") or {}


def conditions(obj: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status_of(obj).get("conditions") or ()}


def over(obj: Json) -> str:
    """Return the condition with which a Job or JobSet ended; empty if it has not."""
    said = conditions(obj)
    return next((e for e in ("Complete", "Completed", "Failed") if said.get(e) == "True"), "")


def phase(pod: Json) -> str:
    found: str = status_of(pod).get("phase", "Pending")
    return found


def ended(pod: Json) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def lives(pod: Json) -> bool:
    """Return True if the pod counts as active for its Job."""
    return not ended(pod) and not leaving(pod)


def node_of(pod: Json) -> str:
    return pod["spec"].get("nodeName") or ""


def suspended(obj: Json) -> bool:
    return bool(obj["spec"].get("suspend"))


# What is wanted


def indexes(text: str) -> int:
    """Return the number of indexes in a list such as "0,2-4"."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def at_once(job: Json) -> int:
    """Return the number of pods of a Job at a time, before any has ended."""
    spec = job["spec"]
    pods = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    return pods if completions is None else min(pods, int(completions))


def wanted(job: Json, active: int) -> int:
    """Return the number of pods that the Job's controller currently wants; `active` are running."""
    spec, status = job["spec"], status_of(job)
    if over(job) or suspended(job) or leaving(job) or _ends(job):
        return 0
    succeeded = status.get("succeeded", 0)
    pods: int = spec.get("parallelism", 1)
    completions = spec.get("completions")
    if completions is None:
        return active if succeeded else pods  # also if it is scaled down: the pods finish
    left = int(completions) - int(succeeded)
    given_up = indexes(status.get("failedIndexes") or "")
    return max(0, min(pods, left - given_up))


def _ends(job: Json) -> bool:
    """Return True if the Job's end is decided, though some pods still exist."""
    said = conditions(job)
    return any(said.get(each) == "True" for each in ("SuccessCriteriaMet", "FailureTarget"))


def due(owner: Json, jobs: list[Json]) -> Iterator[str]:
    """Yield the names of a JobSet's current Jobs, in the order of its replicatedJobs."""
    in_order = (owner["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    earlier: list[str] = []
    for role in owner["spec"]["replicatedJobs"]:
        if in_order and not all(_reached(owner, each, jobs, "Ready") for each in earlier):
            return
        waits_for = role.get("dependsOn") or ()
        if all(_reached(owner, each["name"], jobs, each["status"]) for each in waits_for):
            yield from _names(owner, role)
        earlier.append(role["name"])


def _names(owner: Json, role: Json) -> list[str]:
    return [f"{name(owner)}-{role['name']}-{index}" for index in range(role.get("replicas", 1))]


def _reached(owner: Json, role: str, jobs: list[Json], status: str) -> bool:
    (found,) = (each for each in owner["spec"]["replicatedJobs"] if each["name"] == role)
    there = {name(job): job for job in jobs}
    return all(
        each in there and (_ready(there[each]) if status == "Ready" else over(there[each]) != "")
        for each in _names(owner, found)
    )


def _ready(job: Json) -> bool:
    status = status_of(job)
    done: int = status.get("succeeded", 0) + status.get("ready", 0)
    return bool(over(job)) or done >= at_once(job)
