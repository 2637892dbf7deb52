"""The relations between pods and their claims, as plain values."""

from collections.abc import Iterable, Iterator

from localcluster.controllers.base.objects import (
    Key,
    Obj,
    controller_of,
    finalizers_of,
    is_deleting,
    is_terminal,
    uid_of,
    without_finalizer,
)

FINALIZER = "resource.kubernetes.io/delete-protection"
ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim created from a template: the pod's entry for which it was created."""
BY_CLAIM = "claim"
_LONGEST_BASE = 57


def entries_of(pod: Obj) -> list[Obj]:
    """Return the entries for claims in the pod's spec, by name or by template."""
    return pod["spec"].get("resourceClaims") or []


def statuses_of(pod: Obj) -> dict[str, str | None]:
    """Return the names of the claims created for entries; None if an entry needs no claim."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {one["name"]: one.get("resourceClaimName") for one in statuses}


def waits_for_claim(pod: Obj, entry: Obj) -> bool:
    """Return True if the status does not name the entry's claim yet."""
    return entry.get("resourceClaimName") is None and entry["name"] not in statuses_of(pod)


def claim_name(pod: Obj, entry: Obj) -> str | None:
    """Return the claim of an entry; None if not known yet, or if the entry needs none."""
    named: str | None = entry.get("resourceClaimName")
    return named if named is not None else statuses_of(pod).get(entry["name"])


def claim_keys(pod: Obj) -> list[Key]:
    """Return the keys of all claims of the pod, including those for extended resources."""
    names = [claim_name(pod, entry) for entry in entries_of(pod)]
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    names.append(extended.get("resourceClaimName"))
    return [(pod["metadata"]["namespace"], name) for name in names if name]


def by_claim(pod: Obj) -> Iterable[Key]:
    """Index pods by their claims."""
    return claim_keys(pod)


def needs_no_claims(pod: Obj) -> bool:
    """Return True if the pod will not run again: it is terminal, or deleted without a node."""
    return is_terminal(pod) or (is_deleting(pod) and not pod["spec"].get("nodeName"))


def is_of(claim: Obj, pod: Obj, entry: Obj) -> bool:
    """Return True if the pod may use the claim; one from a template must be owned by the pod."""
    if entry.get("resourceClaimName") is not None:
        return True
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == uid_of(pod)


def is_allocated(claim: Obj) -> bool:
    """Return True if the claim is allocated."""
    return (claim.get("status") or {}).get("allocation") is not None


def consumers_of(claim: Obj) -> list[Obj]:
    """Return the consumers for which the claim is reserved."""
    return (claim.get("status") or {}).get("reservedFor") or []


def is_reserved_for(claim: Obj, pod: Obj) -> bool:
    """Return True if the claim is reserved for the pod."""
    return any(one.get("uid") == uid_of(pod) for one in consumers_of(claim))


def consumer(pod: Obj) -> Obj:
    """Return the pod as a consumer of a claim."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid_of(pod)}


def owning_pod(claim: Obj) -> Obj | None:
    """Return the reference to the pod for which the claim was created, or None."""
    owner = controller_of(claim)
    is_pod = owner is not None and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod")
    return owner if is_pod else None


def pod_consumers(claim: Obj) -> Iterator[Obj]:
    """Yield the consumers that are pods."""
    for one in consumers_of(claim):
        if not one.get("apiGroup") and one.get("resource") == "pods":
            yield one


def from_template(template: Obj, pod: Obj, entry: str) -> Obj:
    """Return the claim that a template defines for one entry of a pod."""
    spec, name = template["spec"], pod["metadata"]["name"]
    given = spec.get("metadata") or {}
    meta: Obj = {
        "generateName": _base(name, entry),
        "annotations": {**(given.get("annotations") or {}), ENTRY_ANNOTATION: entry},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": name,
                "uid": uid_of(pod),
                "controller": True,
            }
        ],
    }
    if given.get("labels"):
        meta["labels"] = given["labels"]
    kind = {"apiVersion": template["apiVersion"], "kind": "ResourceClaim"}
    return {**kind, "metadata": meta, "spec": spec["spec"]}


def _base(pod: str, entry: str) -> str:
    """Return the prefix of the claim's name: both names, proportionally truncated if too long."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    first, second = (name[: len(name) * _LONGEST_BASE // len(whole)] for name in (pod, entry))
    return f"{first}-{second}"


def with_status(claim: Obj, *, reserved_for: list[Obj], keep_allocation: bool) -> Obj:
    """Return the claim with other consumers, and without allocation unless it is kept."""
    status = {**(claim.get("status") or {}), "reservedFor": reserved_for}
    if not reserved_for:
        del status["reservedFor"]
    if not keep_allocation:
        status.pop("allocation", None)
    return {**claim, "status": status}


def is_protected(claim: Obj) -> bool:
    """Return True if the claim has the finalizer of allocating schedulers."""
    return FINALIZER in finalizers_of(claim)


def unprotected(claim: Obj) -> Obj:
    """Return the claim without that finalizer."""
    return without_finalizer(claim, FINALIZER)
