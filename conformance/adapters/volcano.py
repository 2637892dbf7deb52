"""Volcano's PodGroups, in its queue `default`."""

from conformance.adapters.base import Adapter, Manifest, annotations, class_name, manifest
from conformance.values.history import Json
from conformance.values.scenario import Gang


class Volcano(Adapter):
    """Its topology is that of HyperNodes, which the kit does not create."""

    scheduler = "volcano"
    offers = frozenset({"minimum", "preemption"})

    def group(self, gang: Gang) -> list[Manifest]:
        spec: Json = {
            "minMember": gang.least,
            "queue": "default",
            "minResources": {"cpu": str(gang.least)},
        }
        if gang.priority:
            spec["priorityClassName"] = class_name(gang.priority)
        return [manifest("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup", gang.name, spec)]

    def join(self, pod: Json, gang: Gang) -> None:
        annotations(pod)["scheduling.k8s.io/group-name"] = gang.name

    def adjust(self, pod: Json) -> None:
        annotations(pod)["volcano.sh/preemptable"] = "true"

    def is_scheduled(self, group: Json) -> bool | None:
        return (group.get("status") or {}).get("phase") in {"Running", "Completed"}
