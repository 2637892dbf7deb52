"""A builder of LeaderWorkerSets, in the terms of the API; defaults are valid and minimal."""

from copy import deepcopy
from typing import Any, Self

import jsonpatch

from api.constants import LEADER_WORKER_SET
from api.integration.common.owner_kind import Review
from api.integration.lws.admission import lws_admission
from api.integration.lws.view import ANNOTATION_EXCLUSIVE, LEADER_READY
from tests.support.owners import OwnerBuilder, annotation

Json = dict[str, Any]

SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"


class LwsBuilder(OwnerBuilder):
    """A LeaderWorkerSet of one replica with one pod."""

    def __init__(self, name: str) -> None:
        self._metadata: Json = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
        self._spec: Json = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": _template()}}
        self._status: Json = {}

    def replicas(self, replicas: Any, size: Any = 1) -> Self:
        self._spec["replicas"] = replicas
        self._spec["leaderWorkerTemplate"]["size"] = size
        return self

    def present(self, replicas: Any) -> Self:
        """Set the number of replicas in the status."""
        self._status["replicas"] = replicas
        return self

    def leader_ready(self) -> Self:
        self._spec["startupPolicy"] = LEADER_READY
        return self

    def exclusive(self, key: str) -> Self:
        self._metadata.setdefault("annotations", {})[ANNOTATION_EXCLUSIVE] = key
        return self

    def leader(self, **spec: Any) -> Self:
        """Set a separate template for leaders, with these fields of the pod."""
        self._spec["leaderWorkerTemplate"]["leaderTemplate"] = _template(**spec)
        return self

    def worker(self, **spec: Any) -> Self:
        """Set the template of the workers, with these fields of the pod."""
        self._spec["leaderWorkerTemplate"]["workerTemplate"] = _template(**spec)
        return self

    def worker_noted(self, **words: str) -> Self:
        """Set annotations of the workers' template."""
        template = self._spec["leaderWorkerTemplate"]["workerTemplate"]
        notes = {annotation(word.replace("_", "-")): value for word, value in words.items()}
        template["metadata"] = {"annotations": notes}
        return self

    def restarts_together(self) -> Self:
        """Recreate all pods of a replica when one is recreated."""
        self._spec["leaderWorkerTemplate"]["restartPolicy"] = "RecreateGroupOnPodRestart"
        return self

    def named(self, name: str) -> Self:
        self._metadata["name"] = name
        return self

    def subgroups(self, size: int, *, exclusive: str = "") -> Self:
        """Set subgroups of that many pods, each with exclusive domains of the key `exclusive`."""
        policy = {"type": "LeaderWorker", "subGroupSize": size}
        self._spec["leaderWorkerTemplate"]["subGroupPolicy"] = policy
        if exclusive:
            self._metadata.setdefault("annotations", {})[SUBGROUP_EXCLUSIVE] = exclusive
        return self

    def updating(self, *, surge: int = 0, unavailable: int = 1) -> Self:
        """Set maxSurge and maxUnavailable of rolling updates."""
        update = {"maxSurge": surge, "maxUnavailable": unavailable, "partition": 0}
        rollout = {"type": "RollingUpdate", "rollingUpdateConfiguration": update}
        self._spec["rolloutStrategy"] = rollout
        return self

    def to_create(self) -> Json:
        """Return the object without the fields that an API server writes, for any namespace."""
        made = self.build()
        for field in ("uid", "namespace"):
            del made["metadata"][field]
        return made

    def generated(self) -> Self:
        """Use generateName, which the API server resolves after admission."""
        self._metadata["generateName"] = self._metadata.pop("name")
        return self

    def build(self) -> Json:
        made = {
            "apiVersion": LEADER_WORKER_SET.api_version,
            "kind": LEADER_WORKER_SET.kind,
            "metadata": self._metadata,
            "spec": self._spec,
        }
        return deepcopy(made | ({"status": self._status} if self._status else {}))

    def admitted(self) -> Json:
        """Return the object after admission."""
        return admitted(self.build())


def make_lws(name: str = "serve") -> LwsBuilder:
    """Return a builder of a LeaderWorkerSet in namespace `default`."""
    return LwsBuilder(name)


def admitted(lws: Json, old: Json | None = None) -> Json:
    """Return a new object or an update after admission."""
    patch = lws_admission(lws, Review("CREATE" if old is None else "UPDATE", old)).patch
    return dict(jsonpatch.apply_patch(lws, patch))


def _template(**spec: Any) -> Json:
    return {"spec": {"containers": [{"name": "main", "image": "busybox"}]} | spec}
