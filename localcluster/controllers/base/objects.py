"""Reading Kubernetes objects as plain JSON values.

Objects come from shared caches: nothing here changes its argument, and no caller may either.
"""

from collections.abc import Iterable
from typing import Any

Obj = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name


def key_of(obj: Obj) -> Key:
    """The namespace and name of an object."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def uid_of(obj: Obj) -> str:
    """The object's UID; objects in a cache always have one."""
    return str(obj["metadata"]["uid"])


def labels_of(obj: Obj) -> dict[str, str]:
    """The labels, empty when there are none."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """The annotations, empty when there are none."""
    return obj["metadata"].get("annotations") or {}


def finalizers_of(obj: Obj) -> list[str]:
    """The finalizers, empty when there are none."""
    return obj["metadata"].get("finalizers") or []


def is_deleting(obj: Obj) -> bool:
    """Whether deletion was asked for."""
    return obj["metadata"].get("deletionTimestamp") is not None


def phase_of(pod: Obj) -> str:
    """The pod's phase, Pending when nobody wrote one."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminal(pod: Obj) -> bool:
    """Whether the pod has come to its end, well or badly."""
    return phase_of(pod) in ("Succeeded", "Failed")


def condition(obj: Obj, kind: str) -> Obj | None:
    """The status condition of that type."""
    for one in (obj.get("status") or {}).get("conditions") or []:
        if one.get("type") == kind:
            return dict(one)
    return None


def is_true(obj: Obj, kind: str) -> bool:
    """Whether the condition of that type is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def with_conditions(present: Iterable[Obj], changed: Iterable[Obj]) -> list[Obj]:
    """The present conditions with the changed ones in their places, new ones at the end.

    A condition whose status stays keeps its lastTransitionTime, as the API conventions ask.
    """
    merged = {one["type"]: one for one in present}
    for one in changed:
        old = merged.get(one["type"])
        same = old is not None and old.get("status") == one["status"]
        kept = {"lastTransitionTime": old.get("lastTransitionTime")} if old and same else {}
        merged[one["type"]] = {**one, **kept}
    return list(merged.values())


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference of the managing controller."""
    for owner in obj["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return dict(owner)
    return None


def controller_reference(owner: Obj, *, api_version: str, kind: str) -> Obj:
    """A reference that makes `owner` the managing controller of what carries it."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_status(obj: Obj, status: Obj) -> Obj:
    """The same object with another status."""
    return {**obj, "status": status}


def with_metadata(obj: Obj, **fields: Any) -> Obj:
    """The same object with some metadata fields replaced; a None removes the field."""
    meta = {**obj["metadata"], **fields}
    return {**obj, "metadata": {name: value for name, value in meta.items() if value is not None}}


def without_finalizer(obj: Obj, finalizer: str) -> Obj:
    """The same object less one finalizer."""
    left = [one for one in finalizers_of(obj) if one != finalizer]
    return with_metadata(obj, finalizers=left or None)
