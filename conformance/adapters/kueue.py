"""Kueue's groups of plain pods, with topology-aware scheduling and kube-scheduler."""

from conformance.adapters.base import Adapter, Manifest, annotations, labels, manifest
from conformance.values.history import RACK_LABEL, Json
from conformance.values.scenario import Gang

_NAME = "gang-conformance"
_API = "kueue.x-k8s.io/v1beta1"


class Kueue(Adapter):
    """The quota is unlimited: topology-aware scheduling counts what the nodes have free.

    The integration `pod` must be on. A group has no minimum, and no status of its own.
    """

    scheduler = "default-scheduler"
    offers = frozenset({"topology", "preemption"})

    def setup(self) -> list[Manifest]:
        levels = {"levels": [{"nodeLabel": RACK_LABEL}, {"nodeLabel": "kubernetes.io/hostname"}]}
        fake = {"key": "kwok.x-k8s.io/node", "operator": "Exists"}
        flavor = {
            "topologyName": _NAME,
            "nodeLabels": {"type": "kwok"},
            "tolerations": [fake],
        }
        quota = {"name": _NAME, "resources": [{"name": "cpu", "nominalQuota": "100k"}]}
        queue = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        wide = {"namespaced": False}
        return [
            manifest(_API, "topologies", "Topology", _NAME, levels, **wide),
            manifest(_API, "resourceflavors", "ResourceFlavor", _NAME, flavor, **wide),
            manifest(_API, "clusterqueues", "ClusterQueue", _NAME, queue, **wide),
            manifest(_API, "localqueues", "LocalQueue", _NAME, {"clusterQueue": _NAME}),
        ]

    def group(self, gang: Gang) -> list[Manifest]:
        return []

    def join(self, pod: Json, gang: Gang) -> None:
        labels(pod)["kueue.x-k8s.io/pod-group-name"] = gang.name
        notes = annotations(pod)
        notes["kueue.x-k8s.io/pod-group-total-count"] = str(gang.members)
        if gang.one_rack:
            notes["kueue.x-k8s.io/podset-required-topology"] = RACK_LABEL
        else:
            notes["kueue.x-k8s.io/podset-unconstrained-topology"] = "true"

    def adjust(self, pod: Json) -> None:
        labels(pod)["kueue.x-k8s.io/queue-name"] = _NAME
