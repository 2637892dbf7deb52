"""The kinds of manifests that are simulated, and the pods of other controllers' kinds.

Files contain other objects, too, such as Services and ConfigMaps. These are named, and left out.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from analysis.simulate.devices import DEVICE_KINDS
from analysis.simulate.stored_pods import KINDS as POD_RULES
from analysis.simulate.trainer import RUNTIMES
from analysis.simulate.volumes import VOLUME_KINDS
from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    CRON_JOB,
    DEPLOYMENT,
    GROUP,
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    PLUGINS_POD_GROUP,
    POD,
    POD_GROUP,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    STATEFUL_SET,
    TRAIN_JOB,
    WORKLOAD,
)
from api.groups import is_native
from api.integration.ray.kinds import workers_of
from api.reading import dig, integer, labels_of, mapping, mappings, text
from api.scheduler_names import SchedulerNames
from api.wording import count
from kube.base.errors import ConfigError
from kube.client.resources import REPLICA_SETS

Json = dict[str, Any]

LIST: Final = "List"
KUBEFLOW_JOBS: Final = ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
OF_PARTS: Final = (RAY_CLUSTER.kind, *KUBEFLOW_JOBS)
"""Kinds with several pod templates, each with its number of pods."""

_REPLICA_SPECS: Final = "ReplicaSpecs"

_KINDS: Final = (
    *(POD, COMPOSITE_POD_GROUP, WORKLOAD, JOB, JOBSET, CRON_JOB, LEADER_WORKER_SET),
    *(DEPLOYMENT, REPLICA_SETS, STATEFUL_SET, RAY_CLUSTER, RAY_JOB, RAY_SERVICE),
    *(it for kinds in (DEVICE_KINDS, VOLUME_KINDS, POD_RULES) for it in kinds.values()),
)
KNOWN: Final = {it.kind: it for it in (*_KINDS, POD_GROUP)}
"""The resources of most kinds."""

_GROUPS: Final[Mapping[str, frozenset[str]]] = {
    **{it.kind: frozenset({it.group}) for it in _KINDS},
    **dict.fromkeys((TRAIN_JOB.kind, *RUNTIMES), frozenset({TRAIN_JOB.group})),
    **dict.fromkeys(KUBEFLOW_JOBS, frozenset({"kubeflow.org"})),
    LIST: frozenset({""}),
    POD_GROUP.kind: frozenset({GROUP, COSCHEDULING.group, PLUGINS_POD_GROUP.group}),
}

AS_THEY_ARE: Final = (POD.kind, *DEVICE_KINDS, *VOLUME_KINDS, *POD_RULES)
"""Kinds that are added unchanged."""

_NODE_TYPE: Final = "ray.io/node-type"
_MOST_NAMED: Final = 10
"""Objects of other kinds that are named. Further ones are counted."""


class EqualPods(NamedTuple):
    """Equal pods of an object: their name without a number, their number, template and labels."""

    name: str
    pods: int
    template: Mapping[str, Any]
    labels: dict[str, str]


def is_simulated(obj: Json) -> bool:
    """Return true if its kind is simulated; without an apiVersion it has the usual group."""
    if is_native(obj):
        return True
    version = text(obj.get("apiVersion"))
    groups = _GROUPS.get(obj["kind"], frozenset())
    return bool(groups) if not version else version.rpartition("/")[0] in groups


def not_simulated_line(objects: Sequence[Json], *, others: bool) -> list[str]:
    """Return the line that names objects that are not simulated.

    Raises ConfigError if there are no `others`: then no object is simulated.
    """
    if not objects:
        return []
    names = [f"{_kind(obj)} {_name(obj)}" for obj in objects]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    said = f"{', '.join(names[:_MOST_NAMED])}{more}"
    if not others:
        kinds = ", ".join(kind for kind in sorted(_GROUPS) if kind != LIST)
        raise ConfigError(
            f"{said}: unsupported kind: use one of {kinds}, or the pods of other kinds"
        )
    return [
        f"left out: {said}: not simulated. If one of them creates pods, add these to the files."
    ]


def of_others(objects: Sequence[Json], schedulers: SchedulerNames) -> list[str]:
    """Return a line for each other scheduler that pods among the objects name."""
    pods = (mapping(obj.get("spec")) for obj in objects if obj["kind"] == POD.kind)
    names = Counter(text(spec.get("schedulerName")) for spec in pods)
    return [
        f"left out: {count(found, 'pod')} with schedulerName {name}, which is not Muster's"
        for name, found in names.items()
        if not schedulers.allow(name)
    ]


def _name(obj: Json) -> str:
    meta = mapping(obj.get("metadata"))
    return text(meta.get("name")) or text(meta.get("generateName"))


def _kind(obj: Json) -> str:
    """Return the kind, with its API group if a kind of another group has the same name."""
    group = text(obj.get("apiVersion")).rpartition("/")[0]
    return f"{obj['kind']}.{group}" if group and obj["kind"] in _GROUPS else obj["kind"]


def job_of(cron_job: Json) -> Json:
    """Return a Job that a CronJob creates."""
    template: Json = cron_job["spec"]["jobTemplate"]
    named = {key: cron_job["metadata"].get(key) for key in ("name", "namespace", "uid")}
    meta = {**mapping(template.get("metadata")), **named}
    return {"apiVersion": "batch/v1", "kind": JOB.kind} | template | {"metadata": meta}


def pods_of_parts(owner: Json) -> Iterator[Json]:
    """Yield the pods that the controllers of KubeRay and Kubeflow create for an object."""
    name, spec = text(owner["metadata"].get("name")), mapping(owner.get("spec"))
    if owner["kind"] in KUBEFLOW_JOBS:
        parts = _of_kubeflow(owner["kind"], name, spec)
    else:
        parts = _of_ray(name, spec)
    for part in parts:
        for index in range(part.pods):
            pod = copy.deepcopy(dict(part.template))
            meta = {**mapping(pod.get("metadata")), "name": f"{part.name}-{index}"}
            meta |= {"labels": {**labels_of(pod), **part.labels}}
            meta |= {"namespace": owner["metadata"]["namespace"]}
            yield {"apiVersion": "v1", "kind": POD.kind} | pod | {"metadata": meta}


def _of_kubeflow(kind: str, name: str, spec: Mapping[str, Any]) -> Iterator[EqualPods]:
    for field in (it for it in spec if it.endswith(_REPLICA_SPECS)):
        for role, said in mapping(spec[field]).items():
            # Without a number, the MPI operator creates no workers; other roles have one pod.
            usual = 0 if (kind, role) == ("MPIJob", "Worker") else 1
            labels = {
                "training.kubeflow.org/job-name": name,
                "training.kubeflow.org/replica-type": role.lower(),
            }
            count = _count(said, "replicas", usual)
            yield EqualPods(
                f"{name}-{role.lower()}", count, mapping(mapping(said).get("template")), labels
            )


def _of_ray(name: str, cluster: Mapping[str, Any]) -> Iterator[EqualPods]:
    """Yield a head, and for each group of workers its replicas, which may have several hosts."""
    labels = {"ray.io/cluster": name}
    head = mapping(dig(cluster, "headGroupSpec", "template"))
    yield EqualPods(
        f"{name}-head", 1, head, labels | {"ray.io/group": "headgroup", _NODE_TYPE: "head"}
    )
    for group in mappings(cluster, "workerGroupSpecs"):
        title = text(group.get("groupName"))
        pods = workers_of(group, autoscaled=False)
        said = labels | {"ray.io/group": title, _NODE_TYPE: "worker"}
        yield EqualPods(f"{name}-{title}-worker", pods, mapping(group.get("template")), said)


def _count(holder: Any, key: str, usual: int) -> int:
    found = integer(mapping(holder).get(key))
    return usual if found is None else found


def without_nulls(value: Any) -> Any:
    """Return the value without null fields, which an API server treats as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def check_elements(obj: Json) -> None:
    """Raise ConfigError for a null in a list, which is usually an accidental dash."""
    path = next(_nulls(obj, ""), None)
    if path is not None:
        raise ConfigError(
            f"{_kind(obj)} {_name(obj)}: {path}: Invalid value: null: set it, or remove it"
        )


def _nulls(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _nulls(each, f"{path}.{key}" if path else key)
    for at, each in enumerate(value) if isinstance(value, list) else ():
        yield from [f"{path}[{at}]"] if each is None else _nulls(each, f"{path}[{at}]")
