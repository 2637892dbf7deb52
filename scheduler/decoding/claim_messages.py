"""Messages of pods that wait for a ResourceClaim: kube-scheduler's text, then what to do."""

from __future__ import annotations

from scheduler.core.values.model import ClaimKey


def not_created(pod: str) -> str:
    """Return the message for a claim that does not exist yet; `pod` is its namespace and name."""
    # Only kube-controller-manager knows why it creates none, and it records an event on the pod.
    return (
        f'pod "{pod}": ResourceClaim not created yet. kube-controller-manager creates it from its'
        " ResourceClaimTemplate; if it does not appear, see the events of the pod."
    )


def not_found(kind: str, key: ClaimKey) -> str:
    """Return the message for an object that the pod names and that does not exist."""
    return f'could not find {kind} "{key[0]}/{key[1]}". Create it, or correct the name.'


def terminating(name: str) -> str:
    """Return the message for a claim with a deletionTimestamp."""
    return f'resourceclaim "{name}" is being deleted. The pod waits for a new one of this name.'


def of_another_owner(key: ClaimKey, kind: str, owner: str) -> str:
    """Return the message for a claim that this Pod or PodGroup (namespace/name) does not own."""
    # Muster creates only the claims of PodGroups. Those of pods are kube-controller-manager's.
    text = f"ResourceClaim {key[0]}/{key[1]} was not created for {kind} {owner}"
    advice = " Delete it, and Muster creates that of the group." if kind == "PodGroup" else ""
    return f"{text} ({kind} is not owner).{advice}"


def not_recorded(key: ClaimKey, group: str) -> str:
    """Return the message for a claim that is not in the status of its PodGroup yet."""
    return (
        f'PodGroup "{key[0]}/{group}": ResourceClaim {key[1]} is not in its'
        " status.resourceClaimStatuses yet. Muster's controllers create it; if they do not, see the"
        " events of the PodGroup."
    )


def from_an_earlier_attempt(name: str) -> str:
    """Return the message for a claim for extended resources that an earlier attempt created."""
    return f'resourceclaim "{name}" of an earlier attempt is about to be deleted.'


def named_by_too_many(name: str, most: int) -> str:
    """Return the message for a pod beyond the first `most` pods that name the claim."""
    return (
        f'resourceclaim "{name}" is named by more than {most} pods. Give these pods other claims.'
    )
