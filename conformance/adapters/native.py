"""Kubernetes' own PodGroups (`scheduling.k8s.io/v1beta1`, 1.37 and later)."""

from typing import ClassVar

from conformance.adapters.base import Adapter, Manifest, class_name, manifest
from conformance.values.history import RACK_LABEL, Json
from conformance.values.scenario import Gang


class Native(Adapter):
    """Gates GenericWorkload and, for topology, TopologyAwareWorkloadScheduling must be on."""

    scheduler = "default-scheduler"
    offers = frozenset({"minimum", "topology", "preemption"})
    api: ClassVar = "scheduling.k8s.io/v1beta1"

    def group(self, gang: Gang) -> list[Manifest]:
        spec: Json = {
            "schedulingPolicy": {"gang": {"minCount": gang.least}},
            "disruptionMode": {"all": {}},
        }
        if gang.priority:
            spec["priorityClassName"] = class_name(gang.priority)
        if gang.one_rack:
            spec["schedulingConstraints"] = {"topology": [{"key": RACK_LABEL}]}
        return [manifest(self.api, "podgroups", "PodGroup", gang.name, spec)]

    def join(self, pod: Json, gang: Gang) -> None:
        pod["spec"]["schedulingGroup"] = {"podGroupName": gang.name}

    def is_scheduled(self, group: Json) -> bool | None:
        conditions = (group.get("status") or {}).get("conditions") or []
        found = {each["type"]: each["status"] for each in conditions}
        return found.get("PodGroupInitiallyScheduled") == "True"
