"""Every number, list and map that an object of a kind may have, and extreme objects."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from api.constants import (
    ANNOTATION_GANG_MODE,
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    JOBSET,
    LABEL_POD_GROUP,
    LEADER_WORKER_SET,
    POD,
    POD_GROUP,
    STATEFUL_SET,
    WORKLOAD,
    KindName,
)
from localcluster.definitions import builtin
from localcluster.definitions.jobset import jobset_crd
from localcluster.definitions.notation import inline, read
from tests.webhooks.review_requests import composite, pod_group
from tools.testing.effort import is_long

Json = dict[str, Any]
Place = tuple[str | int, ...]

LARGEST: dict[str, int] = {"int32": 2**31 - 1, "int64": 2**63 - 1}
CRDS = Path(__file__).parents[2] / "manifests/crd"
_BELOW_A_TEMPLATE = 4
"""Levels of a pod template that are visited in each kind; Jobs represent the rest."""

# The fields of LeaderWorkerSet v0.7.0 that Muster reads, and its numbers.
_LWS = """
LeaderWorkerSet: Replicas of a leader and its workers.
  metadata ObjectMeta: Its metadata.
  spec LeaderWorkerSetSpec: What is wanted.
LeaderWorkerSetSpec: What is wanted.
  replicas int32: The replicas.
  leaderWorkerTemplate LeaderWorkerTemplate: The pods of a replica.
  rolloutStrategy RolloutStrategy: How pods are replaced.
LeaderWorkerTemplate: The pods of a replica.
  size int32: The pods of a replica.
  leaderTemplate PodTemplateSpec: The leader.
  workerTemplate PodTemplateSpec: The workers.
  subGroupPolicy SubGroupPolicy: Parts of a replica.
SubGroupPolicy: Parts of a replica.
  subGroupSize int32: The pods of a part.
RolloutStrategy: How pods are replaced.
  rollingUpdateConfiguration RollingUpdateConfiguration: The pace.
RollingUpdateConfiguration: The pace.
  partition int32: The first replica that is replaced.
  maxUnavailable intOrString: Replicas that may be missing.
  maxSurge intOrString: Replicas that may be there in addition.
"""


class Kind(NamedTuple):
    """A kind, its schema, and an object that requests groups from Muster."""

    name: KindName
    schema: Json
    base: Json


class Extreme(NamedTuple):
    """An object with one field at its extreme: `items` is its size beyond the base."""

    kind: Kind
    path: str
    obj: Json
    items: int


def kinds() -> dict[str, Kind]:
    """Return the kinds that the webhook reviews, in each mode that creates its own groups."""
    types = {**builtin.types(), **read(_LWS)}
    jobset = jobset_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    def known(kind: KindName, base: Json) -> Kind:
        return Kind(kind, inline(types, kind.kind), base)

    return {
        "a JobSet in mode Gang": Kind(JOBSET, jobset, _jobset("Gang")),
        "a JobSet that starts in order": Kind(
            JOBSET, jobset, _jobset("Gang", startupPolicy={"startupPolicyOrder": "InOrder"})
        ),
        "a JobSet in mode Composite": Kind(JOBSET, jobset, _jobset("Composite")),
        "a JobSet with a gang for each Job": Kind(JOBSET, jobset, _jobset("", "ReplicatedGang")),
        "a Job": known(JOB, _object(JOB, "Gang", _JOB_SPEC)),
        "a CronJob": known(CRON_JOB, _object(CRON_JOB, "", _CRON_SPEC)),
        "a Deployment": known(DEPLOYMENT, _object(DEPLOYMENT, "Gang", _APP_SPEC)),
        "a StatefulSet": known(STATEFUL_SET, _object(STATEFUL_SET, "Gang", _SET_SPEC)),
        "a LeaderWorkerSet": known(
            LEADER_WORKER_SET, _object(LEADER_WORKER_SET, "Composite", _LWS_SPEC)
        ),
        "a pod": known(POD, _pod()),
        "a PodGroup": Kind(POD_GROUP, _of_crd(POD_GROUP), pod_group()),
        "a composite": Kind(COMPOSITE_POD_GROUP, _of_crd(COMPOSITE_POD_GROUP), composite()),
        "a Workload": Kind(WORKLOAD, _of_crd(WORKLOAD), _object(WORKLOAD, "", _WORKLOAD_SPEC)),
        "a coscheduling PodGroup": Kind(
            COSCHEDULING, _of_crd(COSCHEDULING), _object(COSCHEDULING, "", {"minMember": 2})
        ),
    }


def numbers(kind: Kind) -> Iterator[Extreme]:
    """Yield an object for the largest and the smallest value of each number of the kind.

    Its `items` is 0.
    """
    for path, schema in _fields(kind.schema, (), whole=kind.name == JOB):
        if schema.get("type") != "integer" and "x-kubernetes-int-or-string" not in schema:
            continue
        largest = LARGEST[schema.get("format", "int32")]
        for value in (largest, -largest - 1, *([0] if is_long() else [])):
            yield Extreme(kind, f"{_text(path)} {value}", _with(kind.base, path, value), 0)


def lists(kind: Kind, size: int) -> Iterator[Extreme]:
    """Yield an object of `size` bytes for each list and each map of the kind."""
    for path, schema in _fields(kind.schema, (), whole=kind.name == JOB):
        is_map = "additionalProperties" in schema
        if schema.get("type") != "array" and not is_map:
            continue
        before = _at(kind.base, path)
        many = _many_keys(size) if is_map else _many_items(schema["items"], before, size)
        yield Extreme(kind, _text(path), _with(kind.base, path, many), len(many))


def null_elements(kind: Kind) -> Iterator[Extreme]:
    """Yield an object with null in each list of the kind, alone and with the base's elements."""
    for path, schema in _fields(kind.schema, (), whole=kind.name in (JOB, POD)):
        if schema.get("type") == "array":
            before = _at(kind.base, path) or []
            for value in ([None], [*before, None]):
                yield Extreme(kind, _text(path), _with(kind.base, path, value), 0)


def _fields(schema: Json, path: Place, *, whole: bool) -> Iterator[tuple[Place, Json]]:
    """Yield each field below; without `whole` not those deep in pod templates."""
    inner = dict(schema.get("properties") or {})
    for name, each in inner.items():
        here = (*path, name)
        if here[0] not in {"apiVersion", "kind", "status"} and (whole or not _is_too_deep(here)):
            yield here, each
            yield from _fields(each, here, whole=whole)
            yield from _fields(each.get("items") or {}, (*here, 0), whole=whole)


def _is_too_deep(path: Place) -> bool:
    templates = [at for at, name in enumerate(path) if str(name).lower().endswith("template")]
    return bool(templates) and len(path) - templates[-1] > _BELOW_A_TEMPLATE


def _with(base: Json, path: Place, value: Any) -> Json:
    made: Json = json.loads(json.dumps(base))  # templates are shared in the base
    at: Any = made
    for name, below in pairwise(path):
        empty: Any = [] if isinstance(below, int) else {}
        if isinstance(name, int):
            at += [{}] * (name + 1 - len(at))
        elif not at.get(name):
            at[name] = empty
        at = at[name]
    at[path[-1]] = value
    return made


def _at(obj: Any, path: Place) -> Any:
    for name in path:
        try:
            obj = obj[name]
        except (KeyError, IndexError, TypeError):
            return None
    return obj


def _many_keys(size: int) -> Json:
    return {f"key-{at}": "v" for at in range(size // 24)}


def _many_items(schema: Json, before: Any, size: int) -> list[Any]:
    if schema.get("type") in {"string", "integer"}:
        return [f"x{at}" for at in range(size // 10)]
    one = before[0] if before else {}
    return [one | {"name": f"n{at}"} for at in range(size // (len(json.dumps(one)) + 22))]


def _text(path: Place) -> str:
    return ".".join(map(str, path))


def _of_crd(kind: KindName) -> Json:
    definition = yaml.safe_load((CRDS / f"{kind.group}_{kind.plural}.yaml").read_text())
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    schema: Json = versions[kind.version]["schema"]["openAPIV3Schema"]
    return schema


def _object(kind: KindName, mode: str, spec: Json) -> Json:
    metadata: Json = {"name": "a", "namespace": "team"}
    if mode:
        metadata["annotations"] = {ANNOTATION_GANG_MODE: mode}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }


_CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
_POD_SPEC = {"restartPolicy": "Never", "containers": [_CONTAINER]}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD_SPEC}
_JOB_SPEC = {"parallelism": 2, "completions": 2, "template": _TEMPLATE}
_APP_SPEC = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
_SET_SPEC = _APP_SPEC | {"podManagementPolicy": "Parallel"}
_LWS_SPEC = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": _TEMPLATE}}
_CRON_SPEC = {
    "schedule": "* * * * *",
    "jobTemplate": {"metadata": {"annotations": {ANNOTATION_GANG_MODE: "Gang"}}, "spec": _JOB_SPEC},
}
_WORKLOAD_SPEC = {
    "podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}}]
}


def _jobset(mode: str, inner: str = "", **spec: Any) -> Json:
    notes = {"annotations": {ANNOTATION_GANG_MODE: inner}} if inner else {}
    jobs = [
        {"name": name, "replicas": 2, "template": {"metadata": notes, "spec": _JOB_SPEC}}
        for name in ("driver", "workers")
    ]
    return _object(JOBSET, mode, {"replicatedJobs": jobs} | spec)


def _pod() -> Json:
    made = _object(POD, "", _POD_SPEC | {"schedulerName": "muster-scheduler"})
    made["metadata"]["labels"] = {LABEL_POD_GROUP: "g"}
    return made
