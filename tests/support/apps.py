"""StatefulSets and Deployments in tests."""

import copy
from collections.abc import Mapping
from typing import Any

import jsonpatch

from api.constants import DEPLOYMENT, GROUP, STATEFUL_SET, KindName
from api.integration.common.owner_kind import Review
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.integration.single_group.kind import SingleGroupKind

Json = dict[str, Any]


def make_app(
    kind: KindName,
    name: str,
    replicas: int | None,
    asks: Mapping[str, str],
    *,
    parallel: bool = True,
) -> Json:
    """Return an object in the default namespace; `asks` are annotations, as `gang_mode="Gang"`."""
    notes = {f"{GROUP}/{key.replace('_', '-')}": value for key, value in asks.items()}
    labels = {"app": name}
    spec: Json = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": []}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    if kind == STATEFUL_SET:
        spec |= {"podManagementPolicy": "Parallel" if parallel else "OrderedReady"}
    meta: Json = {"name": name, "namespace": "default"}
    if notes:
        meta["annotations"] = notes
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def stateful_set(
    name: str = "db", replicas: int | None = 4, *, parallel: bool = True, **asks: str
) -> Json:
    """Return a StatefulSet, with the default pod management unless `parallel`."""
    return make_app(STATEFUL_SET, name, replicas, asks, parallel=parallel)


def deployment(name: str = "web", replicas: int | None = 4, **asks: str) -> Json:
    """Return a Deployment."""
    return make_app(DEPLOYMENT, name, replicas, asks)


def kind_of(obj: Json) -> SingleGroupKind:
    """Return the kind of an object."""
    return SINGLE_GROUP_KINDS[obj["kind"]]


def admitted(obj: Json, old: Json | None = None, request_uid: str = "r") -> Json:
    """Return the object after mutation."""
    operation = "CREATE" if old is None else "UPDATE"
    found = kind_of(obj).admit(obj, Review(operation, old, uid=request_uid))
    made: Json = jsonpatch.apply_patch(copy.deepcopy(obj), found.patch)
    return made
