"""A null field in an owner's manifest has the same effect as an absent one."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from analysis.simulate.dry_admission import apply
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission, job_groups
from api.integration.jobset.admission import jobset_admission
from api.integration.jobset.groups import jobset_objects
from api.integration.jobset.view import read_jobset
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.integration.lws.admission import lws_admission, lws_groups
from api.integration.single_group.kind import NO_UPDATE, single_group

Json = dict[str, Any]
Path = tuple[str | int, ...]

GANG = {
    "scheduling.muster.dev/gang-mode": "Gang",
    "scheduling.muster.dev/topology": "example.com/a",
}

POD: Json = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"c": "d"}},
    "spec": {
        "restartPolicy": "Never",
        "schedulerName": "muster-scheduler",
        "priorityClassName": "p",
        "preemptionPolicy": "Never",
        "nodeSelector": {"a": "b"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
            }
        },
        "tolerations": [{"key": "a"}],
        "topologySpreadConstraints": [{"topologyKey": "a"}],
        "overhead": {"cpu": "1"},
        "containers": [
            {
                "name": "c",
                "resources": {
                    "requests": {"cpu": "1"},
                    "limits": {"cpu": "1"},
                    "claims": [{"name": "r"}],
                },
                "ports": [{"containerPort": 1, "hostPort": 1, "protocol": "TCP"}],
            }
        ],
        "initContainers": [{"name": "d", "restartPolicy": "Always"}],
        "resources": {"requests": {"cpu": "1"}},
        "resourceClaims": [{"name": "r", "resourceClaimName": "x"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
    },
}

JOB_SPEC: Json = {
    "parallelism": 2,
    "completions": 2,
    "completionMode": "Indexed",
    "backoffLimit": 1,
    "suspend": False,
    "template": POD,
}


def owner(kind: str, spec: Json) -> Json:
    meta = {"name": "x", "namespace": "n", "labels": {"x": "y"}, "annotations": GANG}
    return copy.deepcopy({"kind": kind, "metadata": meta, "spec": spec})


def job_template() -> Json:
    return {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": JOB_SPEC}


OWNERS = {
    "Job": owner("Job", JOB_SPEC),
    "JobSet": owner(
        "JobSet",
        {
            "suspend": False,
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "failurePolicy": {"maxRestarts": 1},
            "replicatedJobs": [
                {"name": "a", "replicas": 2, "template": job_template()},
                {"name": "b", "dependsOn": [{"name": "a"}], "template": job_template()},
            ],
        },
    ),
    "LeaderWorkerSet": owner(
        "LeaderWorkerSet",
        {
            "replicas": 2,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "leaderWorkerTemplate": {
                "size": 2,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": POD,
                "workerTemplate": POD,
                "subGroupPolicy": {"subGroupSize": 1},
            },
        },
    ),
    "Deployment": owner(
        "Deployment",
        {
            "replicas": 2,
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": POD,
        },
    ),
    "StatefulSet": owner(
        "StatefulSet", {"replicas": 2, "podManagementPolicy": "Parallel", "template": POD}
    ),
    "RayCluster": owner(
        "RayCluster",
        {
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {"template": POD},
            "workerGroupSpecs": [
                {
                    "groupName": "w",
                    "replicas": 2,
                    "minReplicas": 1,
                    "numOfHosts": 1,
                    "template": POD,
                }
            ],
        },
    ),
    "MPIJob": owner(
        "MPIJob",
        {
            "launcherCreationPolicy": "AtStartup",
            "runPolicy": {"suspend": False, "managedBy": "kubeflow.org/mpi-operator"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": POD},
                "Worker": {"replicas": 2, "template": POD},
            },
        },
    ),
}


def of_single_group(name: str, obj: Json) -> Iterator[Json]:
    view = SINGLE_GROUP_KINDS[name].read(obj)
    if view.managed:
        yield single_group(view, NO_UPDATE, 0)


ADMISSIONS: dict[str, Callable[[Json], Any]] = {
    "Job": lambda obj: job_admission(obj, Review("CREATE", uid="u")),
    "JobSet": lambda obj: jobset_admission(obj, Review("CREATE", expects=True)),
    "LeaderWorkerSet": lambda obj: lws_admission(obj, Review("CREATE", expects=True)),
} | {
    name: partial(kind.admit, review=Review("CREATE", uid="u"))
    for name, kind in SINGLE_GROUP_KINDS.items()
}

GROUPS: dict[str, Callable[[Json], Any]] = {
    "Job": job_groups,
    "JobSet": lambda obj: jobset_objects(read_jobset(obj)),
    "LeaderWorkerSet": lambda obj: lws_groups(obj, expects=True),
} | {name: partial(of_single_group, name) for name in SINGLE_GROUP_KINDS}


def answer(kind: str, obj: Json) -> Any:
    """Return the causes, or the object as it would be stored, with its groups."""
    admitted = ADMISSIONS[kind](obj)
    if admitted.causes:
        return [(cause.field, cause.message) for cause in admitted.causes]
    apply(obj, (), admitted.patch)
    return without_nulls([obj, *GROUPS[kind](obj)])


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the paths of all fields."""
    fields = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else fields
    for key, each in items:
        if isinstance(key, str):
            yield (*at, key)
        yield from paths(each, (*at, key))


@pytest.mark.parametrize("kind", OWNERS)
def test_a_field_that_is_null_counts_as_absent(kind: str) -> None:
    whole = OWNERS[kind]
    assert isinstance(answer(kind, copy.deepcopy(whole))[0], dict)
    for path in paths(whole):
        null, absent = copy.deepcopy(whole), copy.deepcopy(whole)
        of_null: Any = null
        of_absent: Any = absent
        for step in path[:-1]:
            of_null, of_absent = of_null[step], of_absent[step]
        of_null[path[-1]] = None
        del of_absent[path[-1]]
        assert answer(kind, null) == answer(kind, absent), path


@pytest.mark.parametrize("kind", OWNERS)
def test_an_element_that_is_null_never_raises(kind: str) -> None:
    """An API server without a schema stores it; the same functions create groups."""
    whole = OWNERS[kind]
    for path in elements(whole):
        obj = copy.deepcopy(whole)
        holder: Any = obj
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = None
        answer(kind, obj)


def elements(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the paths of all elements of lists."""
    fields = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else fields:
        if isinstance(key, int):
            yield (*at, key)
        yield from elements(each, (*at, key))
