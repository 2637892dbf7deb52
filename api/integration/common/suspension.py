"""Kinds whose objects can be suspended by a field, so that their pods are deleted."""

from collections.abc import Mapping
from typing import Any, Final

from api.constants import JOB, JOBSET, MPI_JOB, RAY_CLUSTER, RAY_JOB, TRAIN_JOB
from api.reading import dig

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""The label by which Kueue suspends and resumes an object."""

SUSPEND_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{it.kind: ("suspend",) for it in (JOB, JOBSET, RAY_CLUSTER, RAY_JOB, TRAIN_JOB)},
    MPI_JOB.kind: ("runPolicy", "suspend"),
}
"""The path of the field in the spec, by kind."""


def is_suspended(kind: str, obj: Mapping[str, Any]) -> bool:
    """Return True if an object of such a kind is suspended."""
    return dig(obj, "spec", *SUSPEND_FIELDS[kind]) is True


def is_queued(labels: Mapping[str, str]) -> bool:
    """Return True if the labels state that Kueue decides when the object may start."""
    return labels.get(QUEUE_LABEL, "") != ""


def resume_command(kind: str, plural: str, namespace: str, name: str) -> str:
    """Return the command by which a user resumes an object of such a kind."""
    value = "false"
    for part in reversed(SUSPEND_FIELDS[kind]):
        value = f'{{"{part}":{value}}}'
    patch = f"'{{\"spec\":{value}}}'"
    return f"kubectl patch {plural} {name} --namespace {namespace} --type=merge --patch {patch}"
