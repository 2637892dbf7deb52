"""Accessors for Kubernetes objects as plain JSON values.

Objects come from shared caches: neither these functions nor their callers may change them.
"""

from collections.abc import Iterable
from typing import Any

Obj = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name


def key_of(obj: Obj) -> Key:
    """Return the namespace and name of an object."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def uid_of(obj: Obj) -> str:
    """Return the object's UID; objects in a cache always have one."""
    return str(obj["metadata"]["uid"])


def labels_of(obj: Obj) -> dict[str, str]:
    """Return the labels, empty if there are none."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """Return the annotations, empty if there are none."""
    return obj["metadata"].get("annotations") or {}


def finalizers_of(obj: Obj) -> list[str]:
    """Return the finalizers, empty if there are none."""
    return obj["metadata"].get("finalizers") or []


def is_deleting(obj: Obj) -> bool:
    """Return True if the object has a deletion timestamp."""
    return obj["metadata"].get("deletionTimestamp") is not None


def phase_of(pod: Obj) -> str:
    """Return the pod's phase, Pending if none is set."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminal(pod: Obj) -> bool:
    """Return True if the pod is Succeeded or Failed."""
    return phase_of(pod) in ("Succeeded", "Failed")


def condition(obj: Obj, kind: str) -> Obj | None:
    """Return the status condition of that type, or None."""
    for one in (obj.get("status") or {}).get("conditions") or []:
        if one.get("type") == kind:
            return dict(one)
    return None


def is_true(obj: Obj, kind: str) -> bool:
    """Return True if the condition of that type is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def with_conditions(present: Iterable[Obj], changed: Iterable[Obj]) -> list[Obj]:
    """Return the present conditions with the changed ones replaced and new ones appended.

    A condition whose status is unchanged keeps its lastTransitionTime, as the API conventions
    require.
    """
    merged = {one["type"]: one for one in present}
    for one in changed:
        old = merged.get(one["type"])
        same = old is not None and old.get("status") == one["status"]
        kept = {"lastTransitionTime": old.get("lastTransitionTime")} if old and same else {}
        merged[one["type"]] = {**one, **kept}
    return list(merged.values())


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference of the managing controller, or None."""
    for owner in obj["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return dict(owner)
    return None


def controller_reference(owner: Obj, *, api_version: str, kind: str) -> Obj:
    """Return an owner reference that names `owner` as the managing controller."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_status(obj: Obj, status: Obj) -> Obj:
    """Return the object with another status."""
    return {**obj, "status": status}


def with_metadata(obj: Obj, **fields: Any) -> Obj:
    """Return the object with some metadata fields replaced; None removes a field."""
    meta = {**obj["metadata"], **fields}
    return {**obj, "metadata": {name: value for name, value in meta.items() if value is not None}}


def without_finalizer(obj: Obj, finalizer: str) -> Obj:
    """Return the object without one finalizer."""
    left = [one for one in finalizers_of(obj) if one != finalizer]
    return with_metadata(obj, finalizers=left or None)
