"""An API server in memory with the client's methods: storage, preconditions, garbage collection.

`pause_events` holds the events back, as a slow watch does; `resume_events` delivers them.
"""

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec

from api.constants import (
    COMPOSITE_POD_GROUP,
    JOB,
    JOBSET,
    LABEL_MANAGED_BY,
    LEADER_WORKER_SET,
    MANAGED_BY,
    POD_GROUP,
    TRAIN_JOB,
    WORKLOAD,
)
from controllers.capacity_requests import POD_TEMPLATES, REQUESTS, decode_request
from controllers.decoding import (
    decode_coscheduling,
    decode_group,
    decode_job,
    decode_jobset,
    decode_lws,
    decode_named,
    decode_plugins_pod_group,
    decode_workload,
)
from controllers.informers import Caches
from controllers.objects import CLAIM_TEMPLATES, CLAIMS, COSCHEDULINGS, PLUGINS_POD_GROUPS
from controllers.runtime import OWN_RIGHTS
from kube.cache import Cache
from kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, Unreachable
from kube.meta import decode_partial
from kube.patch import PatchBuilder
from kube.resources import DEPLOYMENTS, JOBS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Resource
from tests.support.patching import patched

OTHERS = {
    it.kind: it
    for it in (
        Resource("apps", "v1", "replicasets", "ReplicaSet"),
        DEPLOYMENTS,
        STATEFUL_SETS,
        Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"),
        Resource(*TRAIN_JOB),
    )
}
"""Kinds of which the chains of owners read metadata; most of them nobody watches.

Pods, Jobs and LeaderWorkerSets are read as they are.
"""

_FOREGROUND = "foregroundDeletion"
_LABELLED = (REQUESTS.kind, CLAIMS.kind)
_HAVE_DEPENDENTS = (JOB.kind, JOBSET.kind, LEADER_WORKER_SET.kind)

Json = dict[str, Any]
Slot = tuple[str, str, str]


def _kind(resource: Resource) -> str:
    """How a kind is stored: other PodGroups than ours by their full name."""
    if resource in {COSCHEDULINGS, PLUGINS_POD_GROUPS}:
        return resource.full_name
    return resource.kind


def _is_watched(obj: Json) -> bool:
    """Whether the controllers see it: of some kinds they watch only what is labelled as theirs."""
    labels = obj["metadata"].get("labels") or {}
    return obj["kind"] not in _LABELLED or labels.get(LABEL_MANAGED_BY) == MANAGED_BY


class FakeApi:
    """Objects by (kind, namespace, name); `writes` lists what clients did."""

    def __init__(self, caches: Caches) -> None:
        self.objects: dict[Slot, Json] = {}
        self.writes: list[tuple[str, str, str]] = []
        self.fail_next: list[KubeError] = []
        self.unserved: set[str] = set()
        self.reads: list[str] = []
        self.forbidden: set[str] = set()  # paths that may not be read
        self.broken: set[str] = set()  # paths that fail
        self.no_right: set[str] = set()  # kinds that may not be read, by their plurals
        self.asked: list[tuple[str, str, str]] = []  # which rights
        self._numbers = itertools.count(1)
        self._pending: list[Callable[[], None]] | None = None
        self._feeds: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
            JOB.kind: (caches.jobs, decode_job),
            JOBSET.kind: (caches.jobsets, decode_jobset),
            LEADER_WORKER_SET.kind: (caches.leader_worker_sets, decode_lws),
            WORKLOAD.kind: (caches.workloads, decode_workload),
            POD_GROUP.kind: (caches.pod_groups, decode_group),
            COMPOSITE_POD_GROUP.kind: (caches.composites, decode_group),
            COSCHEDULINGS.full_name: (caches.coschedulings, decode_coscheduling),
            PLUGINS_POD_GROUPS.full_name: (caches.plugins_pod_groups, decode_plugins_pod_group),
            "Pod": caches.sources[PODS],
            "Namespace": (caches.namespaces, decode_partial),
            REQUESTS.kind: (caches.requests, decode_request),
            CLAIMS.kind: (caches.claims, decode_partial),
            CLAIM_TEMPLATES.kind: (caches.claim_templates, decode_named),
            POD_TEMPLATES.kind: (Cache(), decode_partial),  # nobody watches these
        }
        self._feeds |= {kind: (Cache(), decode_partial) for kind in OTHERS}
        self._feeds |= {it.kind: caches.sources[it] for it in (STATEFUL_SETS, DEPLOYMENTS)}

    # The methods of kube.client.Client that the controllers use.

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        """What is at the path of a kind in `OTHERS`, of one of its objects, or of its group."""
        assert method == "GET"
        self.reads.append(path)
        if path in self.broken:
            raise Unreachable(method, path, "reset")
        if path in self.forbidden:
            raise Forbidden(403, "Forbidden", "no rights")
        parts = path.removeprefix("/").split("/")
        core = parts.pop(0) == "api"
        served = {
            it
            for it in (*OTHERS.values(), PODS, JOBS, LEADER_WORKER_SETS)
            if it.api_version == "/".join(parts[: 2 - core])
        }
        rest = parts[2 - core :]
        if served and not rest:
            names = [{"name": it.plural, "kind": it.kind} for it in served]
            names += [{"name": f"{it['name']}/status", "kind": it["kind"]} for it in names]
            return msgspec.json.encode({"resources": [*reversed(names)]})
        for it in served:
            if len(rest) == 4 and rest[2] == it.plural:
                assert how["accept"].startswith("application/json;as=PartialObjectMetadata")
                return msgspec.json.encode(self._find((it.kind, rest[1], rest[3])))
        raise NotFound(404, "NotFound", path)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        if _kind(resource) in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        return deepcopy(self._find((_kind(resource), namespace or "", name)))

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json:
        if resource == OWN_RIGHTS:
            asked = obj["spec"]["resourceAttributes"]
            self.asked.append((asked["verb"], asked["group"], asked["resource"]))
            return obj | {"status": {"allowed": asked["resource"] not in self.no_right}}
        meta = obj["metadata"]
        self._write("create", _kind(resource), meta["name"])
        if _kind(resource) in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if (_kind(resource), meta["namespace"], meta["name"]) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", meta["name"])
        return deepcopy(self.put(obj | {"kind": _kind(resource)}))

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        self._write("patch", _kind(resource), name)
        slot = (_kind(resource), namespace or "", name)
        return deepcopy(self.put(patched(self._find(slot), ops)))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: str | None = None,
    ) -> None:
        self._write("delete", _kind(resource), name)
        slot = (_kind(resource), namespace or "", name)
        if uid not in {None, self._find(slot)["metadata"]["uid"]}:
            raise Conflict(409, "Conflict", "another uid")
        self.remove(*slot)

    # What tests do to the cluster.

    def put(self, obj: Json) -> Json:
        """Store an object as a user or another controller would, and update the caches."""
        obj = deepcopy(obj)
        meta = obj["metadata"]
        number = next(self._numbers)
        meta.setdefault("namespace", "")
        meta.setdefault("uid", f"uid-{number}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta["resourceVersion"] = str(number)
        slot = (obj["kind"], meta["namespace"], meta["name"])
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self._drop(slot)
            return obj
        self.objects[slot] = obj
        cache, decode = self._feeds[obj["kind"]]
        decoded = decode(msgspec.json.encode(obj))
        if _is_watched(obj):
            self._deliver(lambda: cache.upsert(decoded))
        else:
            self._deliver(lambda: cache.delete(slot[1:]))
        return obj

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object in the background: finalizers hold it, dependents follow it."""
        obj = self._find((kind, namespace, name))
        obj["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self.put(obj)

    def foreground(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object with propagation Foreground: it goes after its dependents."""
        obj = self._find((kind, namespace, name))
        meta = obj["metadata"] | {"finalizers": [_FOREGROUND]}
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.put(obj | {"metadata": meta})
        self._drop_references(meta["uid"], "foreground")
        self._finish_foreground()

    def orphan(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object with propagation Orphan: its dependents lose their reference to it."""
        uid = self._find((kind, namespace, name))["metadata"]["uid"]
        self._drop_references(uid, "orphan")
        self.remove(kind, namespace, name)

    def release(self, kind: str, namespace: str, name: str) -> None:
        """Take all finalizers off an object."""
        obj = self._find((kind, namespace, name))
        self.put(obj | {"metadata": obj["metadata"] | {"finalizers": []}})

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """An object is deleted without the garbage collector noticing."""
        del self.objects[kind, namespace, name]
        self._deliver(lambda: self._feeds[kind][0].delete((namespace, name)))

    def pause_events(self) -> None:
        """From now on no event reaches the caches."""
        if self._pending is None:
            self._pending = []

    def put_unseen(self, obj: Json) -> Json:
        """Store an object whose event is still under way when all others have arrived."""
        held, self._pending = self._pending, []
        try:
            return self.put(obj)
        finally:
            self._pending = held

    def resume_events(self) -> None:
        """Deliver all pending events to the caches."""
        held, self._pending = self._pending or [], None
        for event in held:
            event()

    def relist(self) -> None:
        """The caches lost events, or are new: they list everything again."""
        self._pending = None
        for kind, (cache, decode) in self._feeds.items():
            there = {
                slot[1:]: obj
                for slot, obj in self.objects.items()
                if slot[0] == kind and _is_watched(obj)
            }
            for known in [it.metadata for it in cache.values()]:
                if (known.namespace, known.name) not in there:
                    cache.delete((known.namespace, known.name))
            for obj in there.values():
                cache.upsert(decode(msgspec.json.encode(obj)))

    def names(self, *kinds: str) -> list[str]:
        """The names of all objects of these kinds."""
        return sorted(name for kind, _, name in self.objects if kind in kinds)

    def _find(self, slot: Slot) -> Json:
        if slot not in self.objects:
            raise NotFound(404, "NotFound", slot[2], name=slot[2])
        return self.objects[slot]

    def _drop(self, slot: Slot) -> None:
        gone = self.objects.pop(slot)
        cache, _ = self._feeds[slot[0]]
        self._deliver(lambda: cache.delete(slot[1:]))
        self._drop_references(gone["metadata"]["uid"], "background")
        self._finish_foreground()

    def _drop_references(self, uid: str, policy: str) -> None:
        """What the garbage collector does to the dependents of an owner that goes."""
        for kind, namespace, name in list(self.objects):
            obj = self.objects.get((kind, namespace, name))
            owners = [] if obj is None else obj["metadata"].get("ownerReferences", [])
            kept = [owner for owner in owners if owner["uid"] != uid]
            if obj is None or kept == owners:
                continue
            alive = {it["metadata"]["uid"] for it in self.objects.values()}
            if policy == "orphan" or any(owner["uid"] in alive for owner in kept):
                self.put(obj | {"metadata": obj["metadata"] | {"ownerReferences": kept}})
            elif policy == "background" or kind not in _HAVE_DEPENDENTS:
                self.remove(kind, namespace, name)
            elif "deletionTimestamp" not in obj["metadata"]:
                self.foreground(kind, namespace, name)

    def _finish_foreground(self) -> None:
        """Owners that wait for dependents which block them, and have none any more, go."""
        blocked = {
            owner["uid"]
            for obj in self.objects.values()
            for owner in obj["metadata"].get("ownerReferences", [])
            if owner.get("blockOwnerDeletion")
        }
        for kind, namespace, name in list(self.objects):
            found = self.objects.get((kind, namespace, name))
            meta = {} if found is None else found["metadata"]
            if _FOREGROUND in meta.get("finalizers", []) and meta["uid"] not in blocked:
                self.release(kind, namespace, name)

    def _deliver(self, event: Callable[[], None]) -> None:
        if self._pending is None:
            event()
        else:
            self._pending.append(event)

    def _write(self, verb: str, kind: str, name: str) -> None:
        self.writes.append((verb, kind, name))
        if self.fail_next:
            raise self.fail_next.pop(0)
