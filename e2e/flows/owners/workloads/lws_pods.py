"""The pods of a LeaderWorkerSet as its controller creates them, for clusters without it.

Modeled on v0.7.0; `test_leader_worker_sets.py` compares them with the real controller's.
"""

import hashlib
from copy import deepcopy
from typing import Any

from api.constants import (
    LWS_ANNOTATION_SIZE,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_NAME,
    LWS_LABEL_WORKER_INDEX,
)

Json = dict[str, Any]

_PREFIX = "leaderworkerset.sigs.k8s.io"
GROUP_KEY = f"{_PREFIX}/group-key"
SUBGROUP_KEY = f"{_PREFIX}/subgroup-key"
SIZE = LWS_ANNOTATION_SIZE
LEADER_NAME = f"{_PREFIX}/leader-name"

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "leaderworkersets.leaderworkerset.x-k8s.io"},
    "spec": {
        "group": "leaderworkerset.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "LeaderWorkerSet",
            "plural": "leaderworkersets",
            "singular": "leaderworkerset",
            "listKind": "LeaderWorkerSetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""The part of the definition that a server needs to store such objects."""


def leader(lws: Json, replica: int) -> Json:
    """Return the leader pod of a replica of a stored set."""
    templates = lws["spec"]["leaderWorkerTemplate"]
    template = templates.get("leaderTemplate") or templates["workerTemplate"]
    return _pod(lws, template, replica, 0)


def workers(lws: Json, replica: int) -> list[Json]:
    """Return the workers of a replica."""
    templates = lws["spec"]["leaderWorkerTemplate"]
    return [
        _pod(lws, templates["workerTemplate"], replica, worker)
        for worker in range(1, templates["size"])
    ]


def alone(pod: Json, size: int, key: str) -> Json:
    """Return the pod of a replica whose subgroups of `size` have exclusive domains of the key."""
    meta, made = pod["metadata"], deepcopy(pod)
    index = int(meta["labels"][LWS_LABEL_WORKER_INDEX]) // size
    leader_name = meta["annotations"].get(LEADER_NAME, meta["name"])
    unique = hashlib.sha1(f"{leader_name}/{index}".encode()).hexdigest()
    made["metadata"]["labels"] |= {
        SUBGROUP_KEY: unique,
        f"{_PREFIX}/subgroup-index": str(index),
    }
    same: Json = {"key": SUBGROUP_KEY, "operator": "In", "values": [unique]}
    others: list[Json] = [
        {"key": SUBGROUP_KEY, "operator": "Exists"},
        same | {"operator": "NotIn"},
    ]
    made["spec"]["affinity"] = {
        "podAffinity": _required(key, [same]),
        "podAntiAffinity": _required(key, others),
    }
    return made


def _required(key: str, expressions: list[Json]) -> Json:
    term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _pod(lws: Json, template: Json, replica: int, worker: int) -> Json:
    made = deepcopy(template)
    name = f"{lws['metadata']['name']}-{replica}"
    labels = {
        LWS_LABEL_NAME: lws["metadata"]["name"],
        LWS_LABEL_GROUP_INDEX: str(replica),
        LWS_LABEL_WORKER_INDEX: str(worker),
        GROUP_KEY: hashlib.sha1(f"{lws['metadata']['namespace']}/{name}".encode()).hexdigest(),
    }
    notes = {SIZE: str(lws["spec"]["leaderWorkerTemplate"]["size"])}
    if worker:
        notes[LEADER_NAME] = name
    metadata = made["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{worker}" if worker else name,
            "labels": metadata["labels"] | labels,
            "annotations": metadata["annotations"] | notes,
        },
        "spec": made["spec"],
    }
