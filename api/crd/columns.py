"""The columns that `kubectl get` prints for each kind and version."""

from typing import Any, Final

from api.constants import (
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED_BEFORE,
)

Column = dict[str, Any]


def _column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> Column:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | {"priority": 1} if wide else column


AGE: Final = _column("Age", "date", ".metadata.creationTimestamp", "Time since creation.")


def _scheduled(condition: str) -> list[Column]:
    path = f'.status.conditions[?(@.type=="{condition}")]'
    return [
        _column("Status", "string", f"{path}.status", "True once the group was scheduled."),
        _column("Reason", "string", f"{path}.reason", "The reason of the status."),
    ]


def _group(condition: str, minimum: str, members: str, scheduled: str) -> list[Column]:
    policy = ".spec.schedulingPolicy"
    parent = ".spec.parentCompositePodGroupName"
    return [
        _column("Policy", "string", policy, "The scheduling policy."),
        _column(
            minimum[0].upper() + minimum[1:],
            "integer",
            f"{policy}.gang.{minimum}",
            "The number of members that must be scheduled together.",
        ),
        _column("Members", "integer", f".status.{members}", "The number of members."),
        _column(
            "Scheduled",
            "integer",
            f".status.{scheduled}",
            "The number of members that are scheduled.",
        ),
        *_scheduled(condition),
        # Status and reason do not change once the group was placed. This column shows that it waits
        # again.
        _column(
            "Waits-For",
            "string",
            ".status.blocker.kind",
            "The kind of blocker, if the group waits.",
        ),
        _column(
            "Blocker",
            "string",
            ".status.blocker.summary",
            "The reason why the group waits.",
            wide=True,
        ),
        _column("Parent", "string", parent, "The parent in the tree."),
        AGE,
    ]


WORKLOAD: Final = [
    _column("Owner-Kind", "string", ".spec.controllerRef.kind", "The kind of the owner."),
    _column("Owner", "string", ".spec.controllerRef.name", "The name of the owner."),
    AGE,
]
POD_GROUP: Final = _group(CONDITION_POD_GROUP_SCHEDULED, "minCount", "members", "scheduledPods")
POD_GROUP_V1ALPHA2: Final = [
    _column(
        "Workload", "string", ".spec.workloadRef.name", "The Workload that the group belongs to."
    ),
    _column(
        "Template", "string", ".spec.podGroupTemplateName", "The template within the Workload."
    ),
    _column(
        "Scheduled", "integer", ".status.scheduledPods", "The number of pods that have a node."
    ),
    *_scheduled(CONDITION_POD_GROUP_SCHEDULED_BEFORE),
    AGE,
]
COMPOSITE_POD_GROUP: Final = _group(
    CONDITION_COMPOSITE_SCHEDULED, "minGroupCount", "children", "scheduledChildren"
)
COSCHEDULING: Final = [
    *_scheduled(CONDITION_POD_GROUP_SCHEDULED_BEFORE),
    _column("Subsets", "string", ".spec.subsets", "The subsets with their minMember.", wide=True),
    AGE,
]
RESERVATION: Final = [
    _column(
        "Roots",
        "integer",
        ".spec.roots",
        "The number of groups and pods that the scheduler decided.",
    ),
    AGE,
]
