"""The coscheduling plugin of scheduler-plugins."""

from conformance.adapters.base import Adapter, Manifest, labels, manifest
from conformance.values.history import Json
from conformance.values.scenario import Gang


class Coscheduling(Adapter):
    """Preemption is kube-scheduler's, of single pods: no group is evicted as one."""

    scheduler = "scheduler-plugins-scheduler"
    offers = frozenset({"minimum", "preemption"})

    def group(self, gang: Gang) -> list[Manifest]:
        spec = {"minMember": gang.least}
        return [manifest("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup", gang.name, spec)]

    def join(self, pod: Json, gang: Gang) -> None:
        labels(pod)["scheduling.x-k8s.io/pod-group"] = gang.name

    def is_scheduled(self, group: Json) -> bool | None:
        phase = (group.get("status") or {}).get("phase")
        return phase in {"Scheduled", "Running", "Finished"}
