"""The pods of a Job: their content, and the order in which surplus pods are deleted."""

from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime, timedelta

from localcluster.base.clock import parse_time
from localcluster.controllers.base.objects import (
    Obj,
    condition,
    controller_reference,
    is_true,
    phase_of,
)
from localcluster.controllers.jobs.indexes import COMPLETION_INDEX, index_of

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX_ENVIRONMENT = "JOB_COMPLETION_INDEX"
MAX_GENERATE_NAME = 58  # the API server truncates here to leave space for the random suffix

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def new_pod(job: Obj, index: int | None) -> Obj:
    """Return a pod of the Job's template, with a completion index if the Job is Indexed."""
    name, template = job["metadata"]["name"], deepcopy(job["spec"]["template"])
    meta = template.get("metadata") or {}
    finalizers = [*(meta.get("finalizers") or [])]
    if TRACKING_FINALIZER not in finalizers:
        finalizers.append(TRACKING_FINALIZER)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-",
            **{name: meta[name] for name in ("labels", "annotations") if meta.get(name)},
            "finalizers": finalizers,
            "ownerReferences": [controller_reference(job, api_version="batch/v1", kind="Job")],
        },
        "spec": template["spec"],
    }
    if index is not None:
        _give_index(pod, name, index)
    return pod


def _give_index(pod: Obj, job: str, index: int) -> None:
    suffix = f"-{index}-"
    pod["metadata"]["generateName"] = job[: MAX_GENERATE_NAME - len(suffix)] + suffix
    for marks in ("labels", "annotations"):
        pod["metadata"].setdefault(marks, {})[COMPLETION_INDEX] = str(index)
    pod["spec"]["hostname"] = f"{job}-{index}"
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        present = container.get("env") or []
        if any(one["name"] == INDEX_ENVIRONMENT for one in present):
            continue
        path = f"metadata.labels['{COMPLETION_INDEX}']"
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
        container["env"] = [*present, {"name": INDEX_ENVIRONMENT, "valueFrom": source}]


def surplus(active: Sequence[Obj], at_least: int, completions: int | None) -> list[Obj]:
    """Return the pods to delete: at least that many, and all duplicates of an index.

    `completions` is None for a Job that is not Indexed. The least advanced pods come first.
    """
    out: list[Obj] = []
    left = list(active)
    if completions is not None:
        out, left = _repeated(active, completions)
    left.sort(key=_progress)
    return [*out, *left[: max(0, at_least - len(out))]]


def _repeated(active: Sequence[Obj], completions: int) -> tuple[list[Obj], list[Obj]]:
    by_index: defaultdict[int | None, list[Obj]] = defaultdict(list)
    for pod in active:
        by_index[index_of(pod, completions)].append(pod)
    out = by_index.pop(None, [])
    left = []
    for pods in by_index.values():
        *worse, best = sorted(pods, key=_progress)
        out.extend(worse)
        left.append(best)
    return out, left


def _progress(pod: Obj) -> tuple[bool, int, bool, float, int, float]:
    """Return a sort key with the least advanced pods first.

    The order is: unbound, pending, not ready, young.
    """
    ready = condition(pod, "Ready") or {}
    since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
    restarts = max(
        (one.get("restartCount", 0) for one in container_statuses(pod)),
        default=0,
    )
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(phase_of(pod), 0),
        is_true(pod, "Ready"),
        -_seconds(since),
        -restarts,
        -_seconds(pod["metadata"].get("creationTimestamp")),
    )


def container_statuses(pod: Obj) -> list[Obj]:
    """Return the statuses of all containers, including init containers."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def finished_at(pod: Obj) -> datetime:
    """Return the time at which a pod terminated, from the best available evidence."""
    ends = [
        parse_time(one["state"]["terminated"]["finishedAt"])
        for one in (pod.get("status") or {}).get("containerStatuses") or []
        if ((one.get("state") or {}).get("terminated") or {}).get("finishedAt")
    ]
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    if ends and len(ends) == len(statuses):
        return max(ends)
    ready = condition(pod, "Ready")
    if ready and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        grace = timedelta(seconds=meta.get("deletionGracePeriodSeconds", 0))
        return parse_time(meta["deletionTimestamp"]) - grace
    return parse_time(meta["creationTimestamp"])


def _seconds(text: str | None) -> float:
    return parse_time(text).timestamp() if text else 0.0
