"""StatefulSets and Deployments (API group apps).

The StatefulSets that a LeaderWorkerSet creates request nothing, whatever annotations they have: the
LeaderWorkerSet does (`api.integration.lws`), and a change of their templates would recreate running
pods. They are not rejected either, as that would block the LeaderWorkerSet.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import ANNOTATION_GANG_MODE, DEPLOYMENT, LWS_LABEL_NAME, STATEFUL_SET
from api.features import Feature
from api.integration.common.options import GANG, annotation_path
from api.integration.single_group.kind import (
    PodTemplate,
    Rollout,
    SingleGroupKind,
    SingleGroupView,
)
from api.reading import annotations_of, count, integer, labels_of, text

ORDER_TEXT: Final = (
    "the StatefulSet controller creates each pod after the one before is ready, so the pods of "
    "this gang never start together: recreate the StatefulSet with spec.podManagementPolicy "
    "Parallel, or use gang-mode Basic or min-count 1"
)
PART_TEXT: Final = "has no effect: LeaderWorkerSet %s owns these pods. Set the annotation there"


class _App(SingleGroupKind):
    """The common part of both kinds: one template, and `spec.replicas`."""

    replaces_pods = True
    members = "spec.replicas"

    def pod_templates(self, spec: Mapping[str, Any]) -> list[PodTemplate]:
        """Return the one template; `replicas` is 1 when unset."""
        return [PodTemplate("spec.template", spec.get("template"), count(spec.get("replicas"), 1))]

    def is_suspended(self, spec: Mapping[str, Any]) -> bool:
        """Return False: neither kind can be suspended."""
        return False

    def rollout(self, status: Mapping[str, Any]) -> Rollout:
        """Return the numbers of an update that replaces pods."""
        pods, updated = (integer(status.get(key)) or 0 for key in ("replicas", "updatedReplicas"))
        return Rollout(pods, updated) if updated < pods else Rollout()


class Deployments(_App):
    """Deployments."""

    kind = DEPLOYMENT
    feature = Feature.DEPLOYMENT


class StatefulSets(_App):
    """StatefulSets that no LeaderWorkerSet created."""

    kind = STATEFUL_SET
    feature = Feature.STATEFUL_SET

    def other_owner(self, obj: Mapping[str, Any]) -> str:
        """Return the name of the LeaderWorkerSet that created it, if one did."""
        return leader_worker_set_of(STATEFUL_SET.kind, obj)

    def faults(self, view: SingleGroupView) -> Iterator[Cause]:
        """Reject a gang whose pods are created one after the other."""
        options = view.options
        ordered = view.spec.get("podManagementPolicy") != "Parallel"
        if ordered and options.mode == GANG and options.min_count != 1:
            yield causes.invalid(options.mode_path, options.mode, ORDER_TEXT)

    def other_owner_warnings(
        self, view: SingleGroupView, obj: Mapping[str, Any], *, is_new: bool
    ) -> list[str]:
        """Warn about a gang-mode on a StatefulSet of a LeaderWorkerSet."""
        # A new one gets this warning with those about other keys that nothing reads.
        asks = not is_new and view.other_owner and ANNOTATION_GANG_MODE in annotations_of(obj)
        path = annotation_path("", ANNOTATION_GANG_MODE)
        return [f"{path}: {PART_TEXT % view.other_owner}"] if asks else []


def leader_worker_set_of(kind: str, obj: Mapping[str, Any]) -> str:
    """Return the LeaderWorkerSet that created this StatefulSet; empty if none did."""
    return text(labels_of(obj).get(LWS_LABEL_NAME)) if kind == STATEFUL_SET.kind else ""
