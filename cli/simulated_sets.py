"""The groups and pods of a LeaderWorkerSet, as Muster and its own controller make them (v0.7.0).

The controller makes workers when their leader has a node or is ready, and gives those of a set with
an exclusive topology a node selector for the leader's domain. Here all are there at once, and pod
affinity to the pods of their replica stands for that selector.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.constants import (
    LEADER_WORKER_SET,
    LWS_ANNOTATION_SIZE,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_NAME,
    LWS_LABEL_WORKER_INDEX,
)
from api.integration.lws import lws_admission, lws_groups
from api.integration.lws_view import LwsView, read_lws
from api.reading import annotations_of, labels_of, mapping
from api.scheduler_names import SchedulerNames
from cli.admission import apply
from kube.errors import ConfigError
from scheduler.core.model import SINGLE_POD

Json = dict[str, Any]

GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
SUBGROUP_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"


def of_lws(lws: Json, schedulers: SchedulerNames) -> Iterator[Json]:
    """Its groups, then its pods. Raises ConfigError for what is refused at admission."""
    if SUBGROUP_EXCLUSIVE in annotations_of(lws):
        raise ConfigError(
            f"{LEADER_WORKER_SET.kind} {lws['metadata'].get('name')}: {SUBGROUP_EXCLUSIVE} cannot"
            " be simulated: leave it out, or give its pods"
        )
    admitted = lws_admission(lws, None, "CREATE", schedulers=schedulers)
    apply(lws, admitted.causes, admitted.patch)
    yield from lws_groups(lws)
    view = read_lws(lws)
    for replica in range(view.replicas if view.templates else 0):
        for worker in range(view.size):
            yield _pod(view, replica, worker)


def _pod(view: LwsView, replica: int, worker: int) -> Json:
    """The leader is worker 0."""
    template = copy.deepcopy(dict(view.templates[-1 if worker else 0].template))
    leader = f"{view.name}-{replica}"
    labels = {
        LWS_LABEL_NAME: view.name,
        LWS_LABEL_GROUP_INDEX: str(replica),
        LWS_LABEL_WORKER_INDEX: str(worker),
        GROUP_KEY: hashlib.sha1(f"{view.namespace}/{leader}".encode()).hexdigest(),  # noqa: S324
    }
    template["metadata"] = {
        "name": f"{leader}-{worker}" if worker else leader,
        "namespace": view.namespace,
        "labels": {**labels_of(template), **labels},
        "annotations": {**annotations_of(template), LWS_ANNOTATION_SIZE: str(view.size)},
    }
    if view.exclusive:
        _keep_apart(template, view.exclusive, labels[GROUP_KEY], leads=not worker)
    return {"apiVersion": "v1", "kind": SINGLE_POD} | template


def _keep_apart(pod: Json, topology: str, key: str, *, leads: bool) -> None:
    """One domain for the pods of a replica, which its leader keeps others of such sets out of."""
    spec = pod.setdefault("spec", {})
    affinity = spec["affinity"] = dict(mapping(spec.get("affinity")))
    own = {"key": GROUP_KEY, "operator": "In", "values": [key]}
    _require(affinity, "podAffinity", topology, own)
    if leads:
        others = {"key": GROUP_KEY, "operator": "NotIn", "values": [key]}
        _require(
            affinity,
            "podAntiAffinity",
            topology,
            {"key": GROUP_KEY, "operator": "Exists"},
            others,
        )


def _require(affinity: Json, kind: str, topology: str, *wanted: Mapping[str, Any]) -> None:
    term = {"labelSelector": {"matchExpressions": list(wanted)}, "topologyKey": topology}
    said = dict(mapping(affinity.get(kind)))
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity[kind] = said | {field: [*(said.get(field) or ()), term]}
