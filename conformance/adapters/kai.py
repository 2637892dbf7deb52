"""KAI's PodGroups, in a queue that the kit creates."""

from conformance.adapters.base import (
    Adapter,
    Manifest,
    annotations,
    class_name,
    labels,
    manifest,
)
from conformance.values.history import RACK_LABEL, Json
from conformance.values.scenario import Gang

_QUEUE = "gang-conformance"
_API = "scheduling.run.ai/v2alpha2"


class Kai(Adapter):
    """A priority below 100 may be preempted."""

    scheduler = "kai-scheduler"
    offers = frozenset({"minimum", "topology", "preemption"})

    def setup(self) -> list[Manifest]:
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec = {"resources": dict.fromkeys(("cpu", "gpu", "memory"), unlimited)}
        levels = {"levels": [{"nodeLabel": RACK_LABEL}, {"nodeLabel": "kubernetes.io/hostname"}]}
        queue = manifest("scheduling.run.ai/v2", "queues", "Queue", _QUEUE, spec, namespaced=False)
        topology = manifest(
            "kai.scheduler/v1alpha1", "topologies", "Topology", _QUEUE, levels, namespaced=False
        )
        return [queue, topology]

    def group(self, gang: Gang) -> list[Manifest]:
        spec: Json = {"minMember": gang.least, "queue": _QUEUE}
        if gang.priority:
            spec["priorityClassName"] = class_name(gang.priority)
        if gang.one_rack:
            spec["topologyConstraint"] = {"topology": _QUEUE, "requiredTopologyLevel": RACK_LABEL}
        return [manifest(_API, "podgroups", "PodGroup", gang.name, spec)]

    def join(self, pod: Json, gang: Gang) -> None:
        annotations(pod)["pod-group-name"] = gang.name

    def adjust(self, pod: Json) -> None:
        labels(pod)["kai.scheduler/queue"] = _QUEUE
