"""The groups and pods of a LeaderWorkerSet, as Muster and its own controller create them (v0.7.0).

The controller creates workers when their leader has a node or is ready. In a set with an exclusive
topology it gives the workers a node selector for the leader's domain. Here all pods exist at once,
and pod affinity to the pods of their replica stands for that selector.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.simulate.dry_admission import apply
from analysis.simulate.exclusive_placement import keep_apart
from api.constants import (
    LWS_ANNOTATION_SIZE,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_NAME,
    LWS_LABEL_WORKER_INDEX,
)
from api.integration.common.owner_kind import Review
from api.integration.lws.admission import lws_admission, lws_groups
from api.integration.lws.view import LwsView, read_lws
from api.reading import annotations_of, dig, integer, labels_of, mapping, text
from api.scheduler_names import SchedulerNames
from scheduler.core.values.model import SINGLE_POD

Json = dict[str, Any]

GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
SUBGROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/subgroup-key"
SUBGROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/subgroup-index"
LEADER_EXCLUDED: Final = "LeaderExcluded"
SUBGROUP_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"


class _Subgroups(NamedTuple):
    """The subgroups of a replica: their size, and the key of the domain that each has alone."""

    size: int
    exclusive: str
    with_leader: bool

    def number(self, pods: int, worker: int) -> int | None:
        """Return a pod's subgroup in a replica of `pods`; the leader, worker 0, may have none."""
        if not worker:
            return 0 if self.with_leader else None
        # If they do not divide all pods, the leader is an additional pod of the first.
        return (worker - ((pods - 1) % self.size == 0)) // self.size


def of_lws(lws: Json, schedulers: SchedulerNames, *, expects: bool = False) -> Iterator[Json]:
    """Yield its groups, then its pods. Raises ConfigError for an object that admission rejects.

    `expects`: the workers of a leader that comes first are placed with it.
    """
    admitted = lws_admission(lws, Review("CREATE", schedulers=schedulers, expects=expects))
    apply(lws, admitted.causes, admitted.patch)
    yield from lws_groups(lws, expects=expects)
    view, subgroups = read_lws(lws), _subgroups_of(lws)
    for replica in range(view.replicas if view.templates and view.size else 0):
        for worker in range(view.size):
            pod = _pod(view, replica, worker)
            if subgroups is not None:
                _part(pod, view, subgroups, replica, worker)
            yield pod


def _subgroups_of(lws: Json) -> _Subgroups | None:
    policy = mapping(dig(lws, "spec", "leaderWorkerTemplate", "subGroupPolicy"))
    size = integer(policy.get("subGroupSize"))
    if size is None or size < 1:
        return None
    topology = text(annotations_of(lws).get(SUBGROUP_EXCLUSIVE))
    return _Subgroups(size, topology, with_leader=policy.get("type") != LEADER_EXCLUDED)


def _part(pod: Json, view: LwsView, subgroups: _Subgroups, replica: int, worker: int) -> None:
    """Set the subgroup of a pod, with a domain of its own if the set requests one."""
    index = subgroups.number(view.size, worker)
    if index is None:
        return
    unique = f"{view.name}-{replica}/{index}"
    key = hashlib.sha1(unique.encode()).hexdigest()  # noqa: S324
    pod["metadata"]["labels"] |= {SUBGROUP_INDEX: str(index), SUBGROUP_KEY: key}
    # A leader that has a domain of this key alone with its replica needs no terms for its subgroup.
    if subgroups.exclusive and (worker or subgroups.exclusive != view.exclusive):
        keep_apart(pod, subgroups.exclusive, SUBGROUP_KEY)


def _pod(view: LwsView, replica: int, worker: int) -> Json:
    """Return a pod of a replica; the leader is worker 0."""
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
        keep_apart(template, view.exclusive, GROUP_KEY, leads=not worker)
    return {"apiVersion": "v1", "kind": SINGLE_POD} | template
