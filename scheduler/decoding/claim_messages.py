"""Why a pod waits for a ResourceClaim: kube-scheduler's text, and who has to do what."""

from __future__ import annotations

from scheduler.core.values.model import ClaimKey


def not_created(pod: str) -> str:
    """`pod` is its namespace and name."""
    return (
        f'pod "{pod}": ResourceClaim not created yet. kube-controller-manager creates it from its'
        " ResourceClaimTemplate; if it does not appear, see the events of the pod."
    )


def not_found(kind: str, key: ClaimKey) -> str:
    return f'could not find {kind} "{key[0]}/{key[1]}". Create it, or correct the name.'


def terminating(name: str) -> str:
    return f'resourceclaim "{name}" is being deleted. The pod waits for a new one of this name.'


def of_another_owner(key: ClaimKey, kind: str, owner: str) -> str:
    """`owner` is the namespace and name of the pod, or of the PodGroup, that should own it."""
    text = f"ResourceClaim {key[0]}/{key[1]} was not created for {kind} {owner}"
    advice = " Delete it, and Muster creates that of the group." if kind == "PodGroup" else ""
    return f"{text} ({kind} is not owner).{advice}"


def not_recorded(key: ClaimKey, group: str) -> str:
    """The PodGroup's status does not list its claim."""
    return (
        f'PodGroup "{key[0]}/{group}": ResourceClaim {key[1]} is not in its'
        " status.resourceClaimStatuses yet. Muster's controllers create it; if they do not, see the"
        " events of the PodGroup."
    )


def from_an_earlier_attempt(name: str) -> str:
    return f'resourceclaim "{name}" of an earlier attempt is about to be deleted.'


def named_by_too_many(name: str, most: int) -> str:
    return (
        f'resourceclaim "{name}" is named by more than {most} pods. Give these pods other claims.'
    )
