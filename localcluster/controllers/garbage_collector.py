"""The garbage collector: it deletes objects whose owners no longer exist.

It also implements foreground deletion and orphaning.
"""

from collections.abc import Sequence

from localcluster.base.errors import StatusError
from localcluster.base.hooks import DeleteOptions, Object, User
from localcluster.base.resources import ResourceInfo
from localcluster.base.store import CollectionId, Event, Key, Stored
from localcluster.controllers.base.workqueue import Loop
from localcluster.registry.api import Api
from localcluster.registry.deletion import FOREGROUND, ORPHAN

USER = User(
    "system:serviceaccount:kube-system:generic-garbage-collector",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
ABSENT_OWNER_SECONDS = 0.3  # seconds that an owner not yet seen may take to appear
Place = tuple[CollectionId, Key]


def owners_of(obj: Object) -> list[Object]:
    """Return the owner references of an object."""
    return obj["metadata"].get("ownerReferences") or []


def waits_for_dependents(obj: Object) -> bool:
    """Return True if the object is deleted in the foreground, after its dependents."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and FOREGROUND in (meta.get("finalizers") or ())


def orphans_dependents(obj: Object) -> bool:
    """Return True if the object is deleted and its dependents are orphaned."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and ORPHAN in (meta.get("finalizers") or ())


class GarbageCollector:
    """Garbage collector that follows the store synchronously.

    It deletes through the Api, one object at a time.
    """

    def __init__(self, api: Api) -> None:
        """Index the existing objects and follow changes."""
        self._api = api
        self._alive: dict[str, Place] = {}
        self._dependents: dict[str, set[str]] = {}
        self._propagated: set[str] = set()  # owners whose dependents are queued already
        self._loop: Loop[str] = Loop("garbage-collector", api.clock, self._visit, workers=1)
        for collection in api.store.collections():
            for stored in api.store.collection(collection).objects.values():
                self._learn(collection, stored)
        api.store.subscribe(self._changed)

    async def start(self) -> None:
        """Start collecting."""
        await self._loop.start()

    async def stop(self) -> None:
        """Stop collecting."""
        await self._loop.stop()

    def _changed(self, collection: CollectionId, event: Event) -> None:
        meta = event.value.obj["metadata"]
        before = {o["uid"] for o in owners_of(event.old.obj)} if event.old else set()
        if event.type == "DELETED":
            self._forget(meta["uid"], before | {o["uid"] for o in owners_of(event.value.obj)})
            return
        after = {owner["uid"] for owner in owners_of(event.value.obj)}
        for uid in before - after:
            self._dependents.get(uid, set()).discard(meta["uid"])
            self._loop.queue.add(uid)
        self._learn(collection, event.value)

    def _learn(self, collection: CollectionId, stored: Stored) -> None:
        meta = stored.obj["metadata"]
        uid = meta["uid"]
        self._alive[uid] = (collection, stored.key)
        for owner in owners_of(stored.obj):
            self._dependents.setdefault(owner["uid"], set()).add(uid)
            if owner["uid"] not in self._alive:
                self._loop.queue.add_after(uid, ABSENT_OWNER_SECONDS)
            elif "deletionTimestamp" in meta:
                self._loop.queue.add(owner["uid"])
            elif self._is_going(owner["uid"]):
                self._loop.queue.add(uid)
        if waits_for_dependents(stored.obj) or orphans_dependents(stored.obj):
            self._loop.queue.add(uid)

    def _is_going(self, uid: str) -> bool:
        stored = self._api.store.get(*self._alive[uid])
        return stored is not None and waits_for_dependents(stored.obj)

    def _forget(self, uid: str, owners: set[str]) -> None:
        self._alive.pop(uid, None)
        self._propagated.discard(uid)
        for owner in owners:
            self._dependents.get(owner, set()).discard(uid)
            if not self._dependents.get(owner):
                self._dependents.pop(owner, None)
            self._loop.queue.add(owner)
        for dependent in self._dependents.get(uid, ()):
            self._loop.queue.add(dependent)

    def _find(self, uid: str) -> tuple[ResourceInfo, Stored] | None:
        place = self._alive.get(uid)
        if place is None:
            return None
        stored = self._api.store.get(*place)
        info = self._api.registry.by_collection(place[0])
        if stored is None or info is None or stored.obj["metadata"]["uid"] != uid:
            return None
        return info, stored

    async def _visit(self, uid: str) -> None:
        found = self._find(uid)
        if found is None:
            return
        info, stored = found
        try:
            if orphans_dependents(stored.obj):
                await self._release(info, stored)
            elif waits_for_dependents(stored.obj):
                await self._finish_foreground(info, stored)
            elif "deletionTimestamp" not in stored.obj["metadata"]:
                await self._collect(info, stored)
        except StatusError as error:
            if error.code != 404:
                raise

    async def _collect(self, info: ResourceInfo, stored: Stored) -> None:
        """Delete an object whose owners are all deleted or being deleted."""
        owners = owners_of(stored.obj)
        solid, waiting = [], False
        for owner in owners:
            state = self._state(owner, stored)
            if state == "solid":
                solid.append(owner)
            waiting |= state == "waiting"
        if not owners or (len(solid) == len(owners)):
            return
        if solid:
            await self._set_meta(info, stored, "ownerReferences", solid)
            return
        uid = stored.obj["metadata"]["uid"]
        finalizers = stored.obj["metadata"].get("finalizers") or ()
        policy: str = "Foreground" if FOREGROUND in finalizers else "Background"
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif waiting and self._dependents.get(uid):
            policy = "Foreground"
        await self._delete(info, stored, policy)

    def _state(self, owner: Object, dependent: Stored) -> str:
        info = self._api.registry.by_api_version(owner["apiVersion"], owner["kind"])
        if info is None:
            return "solid"
        place = self._alive.get(owner["uid"])
        if place is None or place[0] != info.collection or place[1][1] != owner["name"]:
            return "dangling"
        if info.namespaced and place[1][0] != dependent.key[0]:
            return "dangling"
        found = self._api.store.get(*place)
        return "waiting" if found and waits_for_dependents(found.obj) else "solid"

    async def _finish_foreground(self, info: ResourceInfo, stored: Stored) -> None:
        """Delete the dependents; release the owner once none blocks it."""
        uid = stored.obj["metadata"]["uid"]
        dependents = self._dependents.get(uid, set())
        if uid not in self._propagated:
            self._propagated.add(uid)
            for dependent in sorted(dependents):
                self._loop.queue.add(dependent)
        if not any(self._blocks(dependent, uid) for dependent in dependents):
            await self._drop_finalizer(info, stored, FOREGROUND)

    def _blocks(self, dependent: str, uid: str) -> bool:
        found = self._find(dependent)
        return found is not None and any(
            owner["uid"] == uid and owner.get("blockOwnerDeletion")
            for owner in owners_of(found[1].obj)
        )

    async def _release(self, info: ResourceInfo, stored: Stored) -> None:
        """Remove the owner reference from all dependents, then release the owner.

        A dependent that changed meanwhile still has the reference and would be deleted with its
        owner. In that case the owner is kept and visited again.
        """
        uid = stored.obj["metadata"]["uid"]
        released = True
        for dependent in sorted(self._dependents.get(uid, ())):
            found = self._find(dependent)
            if found is not None:
                left = [owner for owner in owners_of(found[1].obj) if owner["uid"] != uid]
                released &= await self._set_meta(*found, "ownerReferences", left)
        if released:
            await self._drop_finalizer(info, stored, ORPHAN)
        else:
            self._loop.queue.add(uid)

    async def _drop_finalizer(self, info: ResourceInfo, stored: Stored, name: str) -> None:
        left = [f for f in stored.obj["metadata"].get("finalizers") or () if f != name]
        await self._set_meta(info, stored, "finalizers", left)

    async def _set_meta(
        self, info: ResourceInfo, stored: Stored, field: str, value: Sequence[object]
    ) -> bool:
        """Patch a metadata field.

        Return False if the object changed meanwhile and must be visited again.
        """
        namespace, name = stored.key
        meta = {field: value or None, "resourceVersion": str(stored.revision)}
        try:
            await self._api.patch(info, name, {"metadata": meta}, namespace, user=USER)
        except StatusError as error:
            if error.code != 409:
                raise
            self._loop.queue.add(stored.obj["metadata"]["uid"])
            return False
        return True

    async def _delete(self, info: ResourceInfo, stored: Stored, policy: str) -> None:
        namespace, name = stored.key
        options = DeleteOptions(
            propagation_policy=policy,  # type: ignore[arg-type]
            uid=stored.obj["metadata"]["uid"],
        )
        try:
            await self._api.remove(info, name, namespace, user=USER, options=options)
        except StatusError as error:
            if error.code != 409:
                raise
