"""RayClusters, whose head and workers are in one PodGroup.

These are facts of KubeRay, as of v1.4.0. The operator creates the head pod and the workers of all
groups at once, and never replaces them for a change of their templates. A group of workers has
`replicas`, between `minReplicas` and `maxReplicas`, of `numOfHosts` pods each, or none while it is
suspended. If Ray's autoscaler sets `replicas` (`enableInTreeAutoscaling`), the cluster starts to
work with `minReplicas`. A RayJob or RayService creates a RayCluster with its own annotations, so
the RayCluster requests the group.

A RayCluster with its state in Redis is cleaned up after its deletion by a Job, whose pod comes from
the head's template. So pods of that template may have two different owners.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import ANNOTATION_GANG_MODE, RAY_CLUSTER, RAY_JOB, RAY_OPERATOR, RAY_SERVICE
from api.features import Feature
from api.integration.common.embedding_kind import EmbeddingKind
from api.integration.common.managed_by import other_controller
from api.integration.common.options import OFF, annotation_path
from api.integration.single_group.kind import (
    PodTemplate,
    SingleGroupKind,
    SingleGroupView,
    unmanaged_warnings,
)
from api.reading import annotations_of, count, dig, listing, mapping, text

MAX_PODS: Final = 1_000_000_000
"""Bound of the pods of one group of workers; no cluster has capacity for more."""

SELECTOR_TEXT: Final = (
    "has no effect: spec.clusterSelector names an existing RayCluster. Set it on that RayCluster"
)


class RayClusters(SingleGroupKind):
    """RayClusters."""

    kind = RAY_CLUSTER
    created_by = (RAY_JOB, RAY_SERVICE)
    feature = Feature.RAY_CLUSTER
    replaces_pods = False
    cleans_up = True
    members = "the pods of the RayCluster"

    def pod_templates(self, spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
        """Yield the head's template, and that of each group of workers."""
        head = dig(spec, "headGroupSpec", "template")
        if isinstance(head, Mapping):
            yield PodTemplate("spec.headGroupSpec.template", head, 1, by_job=True)
        autoscaled = spec.get("enableInTreeAutoscaling") is True
        for at, group in enumerate(listing(spec.get("workerGroupSpecs"))):
            template = mapping(group).get("template")
            if isinstance(template, Mapping):
                path = f"spec.workerGroupSpecs[{at}].template"
                yield PodTemplate(path, template, workers_of(mapping(group), autoscaled=autoscaled))

    def other_owner(self, obj: Mapping[str, Any]) -> str:
        """Return the controller that `spec.managedBy` names instead of KubeRay's."""
        return other_controller(mapping(obj.get("spec")), RAY_OPERATOR)

    def other_owner_warnings(
        self, view: SingleGroupView, obj: Mapping[str, Any], *, is_new: bool
    ) -> list[str]:
        """Warn that Muster creates no group for a RayCluster that another controller runs."""
        return unmanaged_warnings(view, obj, "spec") if is_new else []


class _CreatesRayCluster(EmbeddingKind):
    """A kind that creates RayClusters with its own annotations."""

    inner = RayClusters()
    at: str

    def embedded(self, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the RayCluster as KubeRay creates it."""
        spec = mapping(dig(obj, "spec", self.at))
        return {"metadata": obj.get("metadata"), "spec": spec} if spec else None

    def path(self, inner: str) -> str:
        """Return the path of a field of the RayCluster in the object itself."""
        prefix = "spec."
        return f"spec.{self.at}.{inner[len(prefix) :]}" if inner.startswith(prefix) else inner


class RayJobs(_CreatesRayCluster):
    """RayJobs."""

    kind = RAY_JOB
    at = "rayClusterSpec"

    def faults(self, obj: Mapping[str, Any]) -> Iterable[Cause]:
        """Reject a gang-mode on a RayJob that uses an existing RayCluster."""
        mode = text(annotations_of(obj).get(ANNOTATION_GANG_MODE))
        if mode and mode != OFF and mapping(dig(obj, "spec", "clusterSelector")):
            path = annotation_path("", ANNOTATION_GANG_MODE)
            yield causes.invalid(path, mode, SELECTOR_TEXT)


class RayServices(_CreatesRayCluster):
    """RayServices: each RayCluster is a gang, including the next one of an upgrade."""

    kind = RAY_SERVICE
    at = "rayClusterConfig"


def workers_of(group: Mapping[str, Any], *, autoscaled: bool) -> int:
    """Return the number of pods that the operator first creates for a group of workers."""
    if group.get("suspend") is True:
        return 0
    lowest = _count(group.get("minReplicas"), 0)
    highest = _count(group.get("maxReplicas"), MAX_PODS)
    asked = lowest if autoscaled else max(lowest, _count(group.get("replicas"), lowest))
    return min(min(asked, highest) * _count(group.get("numOfHosts"), 1), MAX_PODS)


def _count(value: Any, unset: int) -> int:
    return min(count(value, unset), MAX_PODS)
