"""Which claims a pod has, and what the claims say about the pod, as plain values."""

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
"""On a claim made from a template: the pod's entry that it was made for."""
BY_CLAIM = "claim"
_LONGEST_BASE = 57


def entries_of(pod: Obj) -> list[Obj]:
    """The claims that the pod's spec names or asks templates for."""
    return pod["spec"].get("resourceClaims") or []


def statuses_of(pod: Obj) -> dict[str, str | None]:
    """The names of the claims made for entries; None where an entry needs no claim."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {one["name"]: one.get("resourceClaimName") for one in statuses}


def waits_for_claim(pod: Obj, entry: Obj) -> bool:
    """Whether nobody has said yet which claim was made for the entry."""
    return entry.get("resourceClaimName") is None and entry["name"] not in statuses_of(pod)


def claim_name(pod: Obj, entry: Obj) -> str | None:
    """The claim of an entry; None while there is none, or if the entry needs none."""
    named: str | None = entry.get("resourceClaimName")
    return named if named is not None else statuses_of(pod).get(entry["name"])


def claim_keys(pod: Obj) -> list[Key]:
    """The keys of all claims that the pod has, for extended resources too."""
    names = [claim_name(pod, entry) for entry in entries_of(pod)]
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    names.append(extended.get("resourceClaimName"))
    return [(pod["metadata"]["namespace"], name) for name in names if name]


def by_claim(pod: Obj) -> Iterable[Key]:
    """Index pods by the claims that they have."""
    return claim_keys(pod)


def needs_no_claims(pod: Obj) -> bool:
    """Whether the pod will not run, or not any more: it has ended, or went without a node."""
    return is_terminal(pod) or (is_deleting(pod) and not pod["spec"].get("nodeName"))


def is_of(claim: Obj, pod: Obj, entry: Obj) -> bool:
    """Whether the pod may use the claim under that entry: one from a template must be its own."""
    if entry.get("resourceClaimName") is not None:
        return True
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == uid_of(pod)


def is_allocated(claim: Obj) -> bool:
    """Whether the claim has devices."""
    return (claim.get("status") or {}).get("allocation") is not None


def consumers_of(claim: Obj) -> list[Obj]:
    """Who the claim is reserved for."""
    return (claim.get("status") or {}).get("reservedFor") or []


def is_reserved_for(claim: Obj, pod: Obj) -> bool:
    """Whether the pod is among the claim's consumers."""
    return any(one.get("uid") == uid_of(pod) for one in consumers_of(claim))


def consumer(pod: Obj) -> Obj:
    """The pod as a consumer of a claim."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid_of(pod)}


def owning_pod(claim: Obj) -> Obj | None:
    """The reference to the pod that the claim was made for."""
    owner = controller_of(claim)
    is_pod = owner is not None and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod")
    return owner if is_pod else None


def pod_consumers(claim: Obj) -> Iterator[Obj]:
    """The consumers that are pods."""
    for one in consumers_of(claim):
        if not one.get("apiGroup") and one.get("resource") == "pods":
            yield one


def from_template(template: Obj, pod: Obj, entry: str) -> Obj:
    """The claim that a template gives a pod for one of its entries."""
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
    """What the claim's name begins with: both names, each cut by the same part if too long."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    first, second = (name[: len(name) * _LONGEST_BASE // len(whole)] for name in (pod, entry))
    return f"{first}-{second}"


def with_status(claim: Obj, *, reserved_for: list[Obj], keep_allocation: bool) -> Obj:
    """The claim with other consumers, and without devices unless they are kept."""
    status = {**(claim.get("status") or {}), "reservedFor": reserved_for}
    if not reserved_for:
        del status["reservedFor"]
    if not keep_allocation:
        status.pop("allocation", None)
    return {**claim, "status": status}


def is_protected(claim: Obj) -> bool:
    """Whether the claim carries the finalizer of those that allocate."""
    return FINALIZER in finalizers_of(claim)


def unprotected(claim: Obj) -> Obj:
    """The claim without that finalizer."""
    return without_finalizer(claim, FINALIZER)
