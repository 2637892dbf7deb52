"""Default plugins of a cluster, in the order in which they run: kube-scheduler's."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework.dynamic_resources import DynamicResources
from scheduler.core.framework.image_locality import ImageLocality
from scheduler.core.framework.inter_pod_affinity import InterPodAffinity
from scheduler.core.framework.node_affinity import NodeAffinity
from scheduler.core.framework.node_declared_features import NodeDeclaredFeatures
from scheduler.core.framework.node_name import NodeName
from scheduler.core.framework.node_ports import NodePorts
from scheduler.core.framework.node_resources_fit import NodeResourcesFit
from scheduler.core.framework.node_unschedulable import NodeUnschedulable
from scheduler.core.framework.pod_topology_spread import PodTopologySpread
from scheduler.core.framework.taint_toleration import TaintToleration
from scheduler.core.framework.volume_binding import VolumeBinding
from scheduler.core.framework.volume_restrictions import VolumeRestrictions
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.pod_selectors import PodSelectors
from scheduler.core.topology.topology import Topologies
from scheduler.core.volumes.volume_table import VolumeTable


class Plugins(NamedTuple):
    """Default plugins. VolumeBinding calls NodeVolumeLimits and VolumeZone for its claims."""

    # The order matters: the first filter that rejects a node gives its reason, and NodeResourcesFit
    # counts before other plugins reduce its room.
    node_unschedulable: NodeUnschedulable
    node_name: NodeName
    taint_toleration: TaintToleration
    node_affinity: NodeAffinity
    node_resources_fit: NodeResourcesFit
    node_ports: NodePorts
    volume_restrictions: VolumeRestrictions
    pod_topology_spread: PodTopologySpread
    inter_pod_affinity: InterPodAffinity
    dynamic_resources: DynamicResources
    volume_binding: VolumeBinding
    image_locality: ImageLocality
    node_declared_features: NodeDeclaredFeatures

    @classmethod
    def of(
        cls,
        nodes: NodeTable,
        topologies: Topologies,
        selectors: PodSelectors,
        volumes: VolumeTable,
        devices: DeviceTable,
    ) -> Plugins:
        """Create the plugins of a cluster with these tables."""
        return cls(
            NodeUnschedulable(),
            NodeName(nodes),
            TaintToleration(nodes),
            NodeAffinity(nodes),
            NodeResourcesFit(nodes),
            NodePorts(nodes),
            VolumeRestrictions(nodes),
            PodTopologySpread(nodes, topologies, selectors),
            InterPodAffinity(nodes, topologies, selectors),
            DynamicResources(nodes, devices),
            VolumeBinding(nodes, selectors, volumes),
            ImageLocality(nodes),
            NodeDeclaredFeatures(nodes),
        )
