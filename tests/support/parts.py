"""RayClusters and MPIJobs in tests: objects with several pod templates."""

import copy
from typing import Any

from api.constants import GROUP, MPI_JOB, RAY_CLUSTER, RAY_JOB

Json = dict[str, Any]


def pod_template(**spec: Any) -> Json:
    """Return a pod template of one container."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers, **spec}}


def worker_group(name: str = "w", **fields: Any) -> Json:
    """Return a group of two workers, unless the fields override it."""
    sizes = {"replicas": 2, "minReplicas": 0, "maxReplicas": 10}
    return {
        "groupName": name,
        "rayStartParams": {},
        "template": pod_template(),
        **sizes,
        **fields,
    }


def ray_spec(*groups: Json, **fields: Any) -> Json:
    """Return the spec of a RayCluster; with one group of two workers unless there are others."""
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": pod_template()},
        "workerGroupSpecs": list(groups) or [worker_group()],
        **fields,
    }


def ray_cluster(*groups: Json, name: str = "ring", asks: Json | None = None, **spec: Any) -> Json:
    """Return a RayCluster that requests a gang, unless `asks` overrides it."""
    return _object(RAY_CLUSTER, name, asks, ray_spec(*groups, **spec))


def ray_job(*groups: Json, name: str = "train", asks: Json | None = None, **spec: Any) -> Json:
    """Return a RayJob that requests a gang, unless `asks` overrides it."""
    return _object(
        RAY_JOB, name, asks, {"entrypoint": "true", "rayClusterSpec": ray_spec(*groups), **spec}
    )


def mpi_job(
    workers: int | None = 2, *, name: str = "ring", asks: Json | None = None, **spec: Any
) -> Json:
    """Return an MPIJob that requests a gang, unless `asks` overrides it."""
    roles: Json = {
        "Launcher": {"replicas": 1, "template": pod_template()},
        "Worker": {"template": pod_template()},
    }
    if workers is not None:
        roles["Worker"]["replicas"] = workers
    return _object(MPI_JOB, name, asks, {"mpiReplicaSpecs": roles, **spec})


def _object(kind: Any, name: str, asks: Json | None, spec: Json) -> Json:
    wanted = {"gang-mode": "Gang"} if asks is None else asks
    notes = {f"{GROUP}/{key}": value for key, value in wanted.items()}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": meta,
        "spec": copy.deepcopy(spec),
    }
