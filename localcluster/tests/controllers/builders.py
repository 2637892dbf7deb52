"""Objects for tests of the controllers."""

from datetime import UTC, datetime, timedelta
from typing import Any

from localcluster.base.clock import timestamp
from localcluster.controllers.jobs.indexes import COMPLETION_INDEX
from localcluster.controllers.jobs.pods import TRACKING_FINALIZER

Obj = dict[str, Any]

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the time that many seconds after the start of the test's clock."""
    return START + timedelta(seconds=seconds)


def make_job(name: str = "work", **spec: Any) -> Obj:
    """Return a Job with the API server's defaults: one pod, one completion."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "example/work:1"}],
                },
            },
            **spec,
        },
    }


def with_status(obj: Obj, **status: Any) -> Obj:
    return {**obj, "status": {**obj.get("status", {}), **status}}


def make_pod(
    name: str,
    *,
    phase: str = "Pending",
    node: str = "",
    ready: bool = False,
    index: int | None = None,
    deleted_at: float | None = None,
    ended_at: float = 0,
    tracked: bool = True,
    created_at: float = 0,
    requests: dict[str, str] | None = None,
) -> Obj:
    meta: Obj = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": timestamp(at(created_at)),
        "labels": {},
    }
    if tracked:
        meta["finalizers"] = [TRACKING_FINALIZER]
    if index is not None:
        meta["annotations"] = {COMPLETION_INDEX: str(index)}
    if deleted_at is not None:
        meta["deletionTimestamp"] = timestamp(at(deleted_at))
    conditions = []
    if ready:
        stamp = timestamp(at(created_at))
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp}]
    status: Obj = {"phase": phase, "conditions": conditions}
    if phase in ("Succeeded", "Failed"):
        end = {"terminated": {"finishedAt": timestamp(at(ended_at))}}
        status["containerStatuses"] = [{"name": "main", "restartCount": 0, "state": end}]
    container: Obj = {"name": "main", "image": "example/work:1"}
    if requests:
        container["resources"] = {"requests": requests}
    spec: Obj = {"containers": [container]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def make_jobset(name: str = "train", *roles: Obj, **spec: Any) -> Obj:
    """Return a JobSet with its webhook's defaults: two roles of one Job unless roles are given."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "replicatedJobs": list(roles) or [make_role("a"), make_role("b")],
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            **spec,
        },
    }


def make_role(name: str, *, replicas: int = 1, pods: int = 1, **fields: Any) -> Obj:
    job = make_job(parallelism=pods, completions=pods, completionMode="Indexed")["spec"]
    del job["suspend"]
    return {
        "name": name,
        "replicas": replicas,
        "groupName": "default",
        "template": {"metadata": {"annotations": {"note": "kept"}}, "spec": job},
        **fields,
    }


def ended(job: Obj, condition: str, *, when: float = 0, **more: Any) -> Obj:
    """Return the Job with a terminal condition."""
    stamp = timestamp(at(when))
    one = {"type": condition, "status": "True", "lastTransitionTime": stamp, **more}
    return with_status(job, conditions=[one])


def make_node(name: str = "n", *, ready: str = "True", taints: list[Obj] | None = None) -> Obj:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"taints": taints} if taints else {},
        "status": {"conditions": conditions},
    }
