"""MPIJobs, whose launcher and workers are in one PodGroup.

These are facts of the MPI operator, as of v0.6.0 (kubeflow.org/v2beta1). The operator creates the
workers itself, and the launcher with a Job. With `launcherCreationPolicy: WaitForWorkersReady` the
launcher comes when all workers are ready, so they must not wait for it: the group then contains the
workers only. A change of a template replaces neither.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.constants import MPI_JOB, MPI_OPERATOR
from api.features import Feature
from api.integration.common.managed_by import other_controller
from api.integration.single_group.kind import (
    PodTemplate,
    SingleGroupKind,
    SingleGroupView,
    unmanaged_warnings,
)
from api.reading import count, dig, is_true, mapping, text

LATE_LAUNCHER: Final = "WaitForWorkersReady"
LATE_LAUNCHER_TEXT: Final = (
    "spec.launcherCreationPolicy: the MPI operator creates the launcher after all workers are "
    "ready. The launcher is not in their group, and keeps the schedulerName of its template"
)
_ROLES: Final = (("Launcher", 1), ("Worker", 0))
"""The roles, and the number of pods of a role that states none."""


class MpiJobs(SingleGroupKind):
    """MPIJobs."""

    kind = MPI_JOB
    feature = Feature.MPI_JOB
    replaces_pods = False
    members = "the pods of the MPIJob"

    def pod_templates(self, spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
        """Yield the template of each role whose pods are created together."""
        roles = mapping(spec.get("mpiReplicaSpecs"))
        for role, unset in _ROLES:
            template = dig(roles, role, "template")
            is_launcher = role == "Launcher"
            if not isinstance(template, Mapping) or (is_launcher and _launcher_is_late(spec)):
                continue
            pods = count(dig(roles, role, "replicas"), unset)
            path = f"spec.mpiReplicaSpecs.{role}.template"
            yield PodTemplate(path, template, pods, by_job=is_launcher)

    def other_owner(self, obj: Mapping[str, Any]) -> str:
        """Return the controller that `spec.runPolicy.managedBy` names instead of the operator."""
        return other_controller(mapping(dig(obj, "spec", "runPolicy")), MPI_OPERATOR)

    def other_owner_warnings(
        self, view: SingleGroupView, obj: Mapping[str, Any], *, is_new: bool
    ) -> list[str]:
        """Warn that Muster creates no group for an MPIJob that another controller runs."""
        return unmanaged_warnings(view, obj, "spec.runPolicy") if is_new else []

    def warnings(self, view: SingleGroupView) -> Iterator[str]:
        if _launcher_is_late(view.spec):
            yield LATE_LAUNCHER_TEXT

    def is_suspended(self, spec: Mapping[str, Any]) -> bool:
        return dig(spec, "runPolicy", "suspend") is True

    def is_finished(self, status: Mapping[str, Any]) -> bool:
        return is_true({"status": status}, "Succeeded", "Failed")


def _launcher_is_late(spec: Mapping[str, Any]) -> bool:
    return text(spec.get("launcherCreationPolicy")) == LATE_LAUNCHER
