"""Deletion: preconditions, propagation, grace periods and finalizers."""

from dataclasses import dataclass
from datetime import timedelta

from localcluster.base.clock import Clock, timestamp
from localcluster.base.errors import StatusError, conflict, not_found
from localcluster.base.hooks import AdmissionRequest, DeleteOptions, Object, User
from localcluster.base.resources import NAMESPACES, ResourceInfo
from localcluster.base.store import ChangedError, MissingError, Store, Stored
from localcluster.base.strategy import Strategy
from localcluster.registry.write_pipeline import WritePipeline

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Removal:
    """The result of a deletion: the last state, and True if the object is removed."""

    value: Stored
    gone: bool


def holds(obj: Object, info: ResourceInfo) -> bool:
    """Return True if the object has finalizers."""
    if obj["metadata"].get("finalizers"):
        return True
    held = info.collection == NAMESPACES.collection
    return held and bool((obj.get("spec") or {}).get("finalizers"))


def may_go(obj: Object, info: ResourceInfo) -> bool:
    """Return True if an object that is being deleted can be removed now."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or holds(obj, info):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def _check(current: Stored, info: ResourceInfo, options: DeleteOptions) -> None:
    meta = current.obj["metadata"]
    pairs = (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"], "modified"),
    )
    for what, asked, found, how in pairs:
        if asked is not None and asked != found:
            why = (
                f"the {what} in the precondition ({asked}) does not match the {what} in record "
                f"({found}). The object might have been {how}"
            )
            kind = f"{info.kind}.{info.group}" if info.group else info.kind
            message = f'Operation cannot be fulfilled on {kind} "{meta["name"]}": {why}'
            details = {"name": meta["name"], "kind": info.kind}
            if info.group:
                details["group"] = info.group
            raise StatusError(409, "Conflict", message, details)


def _propagate(meta: Object, strategy: Strategy, policy: str | None) -> None:
    """Set the finalizers that make the garbage collector act before the removal."""
    finalizers = list(meta.get("finalizers") or ())
    if policy is None and (FOREGROUND in finalizers or ORPHAN in finalizers):
        return
    policy = policy or strategy.default_propagation
    finalizers = [name for name in finalizers if name not in {FOREGROUND, ORPHAN}]
    if policy == "Foreground":
        finalizers.append(FOREGROUND)
    elif policy == "Orphan":
        finalizers.append(ORPHAN)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


class Remover:
    """The part of the server that deletes objects."""

    def __init__(self, store: Store, clock: Clock, pipeline: WritePipeline) -> None:
        """Delete from a store, by the rules of the pipeline."""
        self._store = store
        self._clock = clock
        self._pipeline = pipeline

    async def remove(
        self, info: ResourceInfo, name: str, namespace: str, user: User, options: DeleteOptions
    ) -> Removal:
        """Delete one object, or start its deletion.

        Raises StatusError: 404, 409 for a failed precondition, 403 from admission.
        """
        while True:
            current = self._store.get(info.collection, (namespace, name))
            if current is None:
                raise not_found(info, name)
            _check(current, info, options)
            await self._pipeline.review(_admission(info, current, user, options))
            try:
                return self._remove(info, current, options)
            except ChangedError:
                if options.resource_version is not None:
                    raise conflict(info, name) from None
            except MissingError:
                raise not_found(info, name) from None

    def _remove(self, info: ResourceInfo, current: Stored, options: DeleteOptions) -> Removal:
        strategy = self._pipeline.strategy(info)
        new = current.copy()
        meta = new["metadata"]
        _propagate(meta, strategy, options.propagation_policy)
        grace = strategy.grace(current.obj, options.grace_period_seconds)
        deleting = "deletionTimestamp" in meta
        if not grace and not holds(new, info):
            if options.dry_run:
                return Removal(current, gone=True)
            gone = self._store.delete(info.collection, current.key, current.revision)
            return Removal(gone, gone=True)
        if not deleting:
            self._mark(meta, grace)
            if info.collection == NAMESPACES.collection:
                new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
        elif grace is not None and grace < meta.get("deletionGracePeriodSeconds", 0):
            self._shorten(meta, grace, asked=options.grace_period_seconds)
        if options.dry_run or new == current.obj:
            return Removal(current, gone=False)
        updated = self._store.update(info.collection, current.key, new, current.revision)
        return Removal(updated, gone=False)

    def _mark(self, meta: Object, grace: int | None) -> None:
        seconds = grace or 0
        meta["deletionTimestamp"] = timestamp(self._clock.now() + timedelta(seconds=seconds))
        meta["deletionGracePeriodSeconds"] = seconds
        if "generation" in meta:
            meta["generation"] += 1

    def _shorten(self, meta: Object, grace: int, *, asked: int | None) -> None:
        if asked is None:
            return
        meta["deletionTimestamp"] = timestamp(self._clock.now() + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace


def _admission(
    info: ResourceInfo, current: Stored, user: User, options: DeleteOptions
) -> AdmissionRequest:
    namespace, name = current.key
    said: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if options.grace_period_seconds is not None:
        said["gracePeriodSeconds"] = options.grace_period_seconds
    if options.propagation_policy is not None:
        said["propagationPolicy"] = options.propagation_policy
    return AdmissionRequest(
        operation="DELETE",
        info=info,
        namespace=namespace,
        name=name,
        obj=None,
        old=current.obj,
        user=user,
        dry_run=options.dry_run,
        options=said,
    )
