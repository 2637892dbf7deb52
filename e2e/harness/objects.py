"""The objects of the flows. Every pod requests one CPU and is confined to its test's nodes."""

from typing import Any

from api.constants import (
    ANNOTATION_GANG_MODE,
    COMPOSITE_POD_GROUP,
    JOBSET_LABEL_NAME,
    LABEL_POD_GROUP,
    POD_GROUP,
    SCHEDULER_NAME,
    WORKLOAD,
    KindName,
)
from kube.client.resources import Resource

NODE_LABEL = "test.muster.dev/room"

Json = dict[str, Any]


def resource(kind: KindName) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


POD_GROUPS = resource(POD_GROUP)
COMPOSITE_POD_GROUPS = resource(COMPOSITE_POD_GROUP)
WORKLOADS = resource(WORKLOAD)


def pod_spec(room: str) -> Json:
    return {
        "restartPolicy": "Never",
        "nodeSelector": {NODE_LABEL: room},
        "containers": [
            {
                "name": "main",
                "image": "registry.example/none:1",
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    }


def job_spec(pods: int, room: str) -> Json:
    return {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "template": {"spec": pod_spec(room)},
    }


def _annotated(name: str, mode: str | None) -> Json:
    return {"name": name} | ({"annotations": {ANNOTATION_GANG_MODE: mode}} if mode else {})


def job(name: str, room: str, *, pods: int = 4, mode: str | None = "Gang") -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _annotated(name, mode),
        "spec": job_spec(pods, room),
    }


def replicated_job(
    name: str, room: str, *, replicas: int = 2, pods: int = 4, mode: str | None = None
) -> Json:
    template: Json = {"spec": job_spec(pods, room)}
    if mode:
        template["metadata"] = {"annotations": {ANNOTATION_GANG_MODE: mode}}
    return {"name": name, "replicas": replicas, "template": template}


def jobset(name: str, *jobs: Json, mode: str | None = "Gang") -> Json:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _annotated(name, mode),
        "spec": {"replicatedJobs": list(jobs)},
    }


def pod(name: str, room: str, *, group: str | None = None, scheduler: str = SCHEDULER_NAME) -> Json:
    labels = {LABEL_POD_GROUP: group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": pod_spec(room) | {"schedulerName": scheduler},
    }


def pod_group(name: str, minimum: int) -> Json:
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def of_job(name: str) -> str:
    return f"batch.kubernetes.io/job-name={name}"


def of_jobset(name: str) -> str:
    return f"{JOBSET_LABEL_NAME}={name}"
