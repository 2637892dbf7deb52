"""The API server of the controllers, and caches that get each change at once.

`pause_events` delays the events, as a slow watch does; `resume_events` delivers them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec

from api.constants import (
    JOB,
    JOBSET,
    LABEL_MANAGED_BY,
    LEADER_WORKER_SET,
    MANAGED_BY,
    MPI_JOB,
    RAY_JOB,
    RAY_SERVICE,
    TRAIN_JOB,
)
from controllers.cache.capacity_requests import POD_TEMPLATES, REQUESTS
from controllers.cache.informers import Caches
from controllers.cache.objects import (
    CLAIMS,
    COSCHEDULINGS,
    NATIVE_POD_GROUPS,
    PLUGINS_POD_GROUPS,
)
from kube.base.clock import Clock
from kube.client.meta import Json
from kube.client.resources import JOBS, LEADER_WORKER_SETS, OWN_RIGHTS, PODS, Resource
from kube.informers.cache import Cache
from tests.support.memory_api import WRITES, Event, MemoryApi, Request

OTHERS = (
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "deployments", "Deployment"),
    *(Resource(*it) for it in (MPI_JOB, TRAIN_JOB, RAY_JOB, RAY_SERVICE)),
)
"""Kinds whose metadata the owner chains read; most of them have no watch.

Pods, Jobs and LeaderWorkerSets are read completely.
"""

_FOREGROUND = "foregroundDeletion"
_HAVE_DEPENDENTS = (JOB.kind, JOBSET.kind, LEADER_WORKER_SET.kind)
_SELECTORS = dict.fromkeys((REQUESTS, CLAIMS), f"{LABEL_MANAGED_BY}={MANAGED_BY}")
"""Selectors of the kinds of which the controllers watch only their own labelled objects."""

Slot = tuple[str, str, str]


def _kind(resource: Resource) -> str:
    """Return the name of a kind in slots: the full name for PodGroups of other API groups."""
    if resource in {COSCHEDULINGS, PLUGINS_POD_GROUPS, NATIVE_POD_GROUPS}:
        return resource.full_name
    return resource.kind


class Objects(MutableMapping[Slot, Json]):
    """The stored objects by (kind, namespace, name); direct changes produce no watch events."""

    def __init__(self, client: MemoryApi, resources: dict[str, Resource]) -> None:
        self._client = client
        self._resources = resources

    def __getitem__(self, slot: Slot) -> Json:
        found = self._client.stored(self._resources[slot[0]], slot[2], slot[1])
        if found is None:
            raise KeyError(slot)
        return found

    def __setitem__(self, slot: Slot, obj: Json) -> None:
        kind, namespace, name = slot
        meta = {"name": name, **obj["metadata"]}
        self._client.put(self._resources[kind], obj | {"metadata": meta}, namespace, told=False)

    def __delitem__(self, slot: Slot) -> None:
        self._client.drop(self._resources[slot[0]], slot[2], slot[1], told=False)

    def __iter__(self) -> Iterator[Slot]:
        for kind, resource in self._resources.items():
            for obj in self._client.all(resource):
                meta = obj["metadata"]
                yield (kind, meta.get("namespace", ""), meta["name"])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Cluster:
    """The API server of the controllers, the actions of users, and the garbage collector."""

    def __init__(self, caches: Caches, clock: Clock) -> None:
        self.resources = {_kind(it): it for it in (*OTHERS, *caches.sources, POD_TEMPLATES)}
        served = (*OTHERS, PODS, JOBS, LEADER_WORKER_SETS)
        self._caches = caches
        self.client = client = MemoryApi(clock, served=served, runs_pods=False)
        client.on_gone(self._gone)
        self.objects = Objects(client, self.resources)
        self.sent, self.fail, self.recover = client.sent, client.fail, client.recover
        self.pause_events, self.resume_events = client.hold_events, client.release_events
        client.on(_reads_metadata, "get")
        for resource, (cache, decode) in caches.sources.items():

            def tell(event: Event, kind: str, cache: Cache[Any] = cache, of: Any = decode) -> None:
                meta = event.obj["metadata"]
                if kind == "DELETED":
                    cache.delete((meta.get("namespace", ""), meta["name"]))
                else:
                    cache.upsert(of(event.raw))

            client.follow(resource, tell, _SELECTORS.get(resource, ""))

    def share(self, other: Cluster) -> None:
        """Use the API server of another."""
        self.client.join(other.client)

    @property
    def writes(self) -> list[tuple[str, str, str]]:
        """The verbs, kinds and names of the writes."""
        kinds = {resource.full_name: kind for kind, resource in self.resources.items()}
        return [
            (it.verb, kinds[it.collection], it.name)
            for it in self.sent
            if it.verb in WRITES and it.collection != OWN_RIGHTS.full_name
        ]

    @property
    def reads(self) -> list[str]:
        """The paths of the reads in a special form."""
        return [it.path for it in self.sent if it.accept and it.verb not in WRITES]

    @property
    def asked(self) -> list[tuple[str, str, str]]:
        """The permissions that were checked."""
        bodies = (it.body for it in self.sent if it.collection == OWN_RIGHTS.full_name)
        found = (body["spec"]["resourceAttributes"] for body in bodies)
        return [(it["verb"], it["group"], it["resource"]) for it in found]

    def put(self, obj: Json) -> Json:
        """Store an object as a user or another controller would."""
        return self.client.put(self.resources[obj["kind"]], obj)

    def put_unseen(self, obj: Json) -> Json:
        """Store an object whose event arrives after all others."""
        return self.client.put(self.resources[obj["kind"]], obj, told=False)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object in the background: finalizers delay it, dependents follow it."""
        self.client.remove(self.resources[kind], name, namespace, grace=0)

    def foreground(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object with propagation Foreground, after its dependents."""
        self.client.remove(self.resources[kind], name, namespace, propagation="Foreground")
        self._drop_references(self.objects[kind, namespace, name]["metadata"]["uid"], "foreground")
        self._finish_foreground()

    def orphan(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object with propagation Orphan: its dependents lose their reference to it."""
        self._drop_references(self.objects[kind, namespace, name]["metadata"]["uid"], "orphan")
        self.remove(kind, namespace, name)

    def release(self, kind: str, namespace: str, name: str) -> None:
        """Remove all finalizers of an object."""
        self._patch((kind, namespace, name), {"finalizers": None})

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object without the garbage collector noticing."""
        self.client.drop(self.resources[kind], name, namespace)

    def relist(self) -> None:
        """List everything again, as new caches do, or those that lost events."""
        self.client.held_events.clear()
        self.resume_events()
        for resource, (cache, decode) in self._caches.sources.items():
            key, _, value = _SELECTORS.get(resource, "").partition("=")
            there = [
                obj
                for obj in self.client.all(resource)
                if not key or (obj["metadata"].get("labels") or {}).get(key) == value
            ]
            names = {(it["metadata"].get("namespace", ""), it["metadata"]["name"]) for it in there}
            for known in [it.metadata for it in cache.values()]:
                if (known.namespace, known.name) not in names:
                    cache.delete((known.namespace, known.name))
            for obj in there:
                cache.upsert(decode(msgspec.json.encode(obj)))

    def names(self, *kinds: str) -> list[str]:
        """Return the names of all objects of these kinds."""
        found = (obj for kind in kinds for obj in self.client.all(self.resources[kind]))
        return sorted(obj["metadata"]["name"] for obj in found)

    def _gone(self, obj: Json) -> None:
        self._drop_references(obj["metadata"]["uid"], "background")
        self._finish_foreground()

    def _all(self) -> list[tuple[str, Json]]:
        everything = self.resources.items()
        return [(kind, obj) for kind, resource in everything for obj in self.client.all(resource)]

    def _drop_references(self, uid: str, policy: str) -> None:
        """Delete the dependents of a deleted owner, or remove their references to it."""
        for kind, seen in self._all():
            owners = seen["metadata"].get("ownerReferences") or ()
            if all(owner["uid"] != uid for owner in owners):
                continue
            slot = (kind, seen["metadata"].get("namespace", ""), seen["metadata"]["name"])
            obj = self.objects.get(slot)
            if obj is None:
                continue
            kept = [owner for owner in owners if owner["uid"] != uid]
            alive = {it["metadata"]["uid"] for _, it in self._all()} if kept else set()
            if policy == "orphan" or any(owner["uid"] in alive for owner in kept):
                self._patch(slot, {"ownerReferences": kept})
            elif policy == "background" or kind not in _HAVE_DEPENDENTS:
                self.remove(*slot)
            elif "deletionTimestamp" not in obj["metadata"]:
                self.foreground(*slot)

    def _finish_foreground(self) -> None:
        """Delete owners whose foreground deletion waits for no more dependents."""
        everything = self._all()
        waiting = [
            (kind, obj["metadata"])
            for kind, obj in everything
            if _FOREGROUND in (obj["metadata"].get("finalizers") or ())
        ]
        if not waiting:
            return
        blocked = {
            owner["uid"]
            for _, obj in everything
            for owner in obj["metadata"].get("ownerReferences") or ()
            if owner.get("blockOwnerDeletion")
        }
        for kind, meta in waiting:
            slot = (kind, meta["namespace"], meta["name"])
            if slot in self.objects and meta["uid"] not in blocked:
                others = [it for it in meta["finalizers"] if it != _FOREGROUND]
                self._patch(slot, {"finalizers": others})

    def _patch(self, slot: Slot, metadata: Json) -> None:
        patch = {"metadata": metadata}
        self.client.change(self.resources[slot[0]], slot[2], patch, slot[1])


def _reads_metadata(request: Request) -> None:
    """Check that reads of single objects request only the metadata."""
    if request.collection and request.accept:
        assert request.accept.startswith("application/json;as=PartialObjectMetadata")
