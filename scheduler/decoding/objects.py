"""Watched objects of the scheduler, decoded by msgspec with only the fields in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube.client.decoding import Decoder
from kube.client.meta import Json, OwnerReference


# None of these objects has reference cycles, and a cluster has many: the garbage collector would
# walk all of them for nothing.
class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class Metadata(_Struct):
    """The metadata in use. Times remain text, which sorts in the same order."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    # msgspec gives each object a copy of an empty default.
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, if any."""
        for reference in self.owner_references:
            if reference.controller:
                return reference
        return None


class ResourceRequirements(_Struct):
    """Requests only: the API server defaults them from limits."""

    requests: dict[str, str | int] = {}


class ContainerPort(_Struct):
    """A port, as far as it uses one of the host."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(_Struct):
    """What the kubelet does when a container exits."""

    action: str = ""


class Container(_Struct):
    """A container, or an init container; restartPolicy Always makes the latter a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] = []


class NodeSelectorRequirement(_Struct):
    """A key, an operator and values."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeSelectorTerm(_Struct):
    """A term that matches a node if all expressions and fields match."""

    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(_Struct):
    """A selector that matches a node if one of its terms matches."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredTerm(_Struct):
    """A preferred node selector term, with a weight from 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(_Struct):
    """Required and preferred node affinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] = []


class LabelSelector(_Struct):
    """Labels that must be equal, and expressions that must match."""

    match_labels: dict[str, str] = {}
    match_expressions: list[NodeSelectorRequirement] = []


class PodAffinityTerm(_Struct):
    """A selector of pods, and the topology key."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedTerm(_Struct):
    """A preferred term, with a weight from 1 to 100."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(msgspec.Struct, gc=False):
    """Required and preferred terms of pod affinity or anti-affinity."""

    required: list[PodAffinityTerm] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Struct):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


# Frozen: tolerations are part of the key under which requirements of plain pods are cached.
class TolerationSpec(msgspec.Struct, frozen=True, gc=False):
    """A toleration as written."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadConstraint(_Struct):
    """A topology spread constraint."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class ClaimSource(_Struct):
    """A volume that names its PersistentVolumeClaim."""

    claim_name: str = ""


class SchedulingGroup(_Struct):
    """A pod's reference to its group, in Kubernetes 1.36."""

    pod_group_name: str = ""


class WorkloadRef(_Struct):
    """A pod's reference to its group, in Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(_Struct):
    """The fields that decide where a pod may run, and its group."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, str | int] = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[TolerationSpec, ...] = ()
    topology_spread_constraints: list[SpreadConstraint] = []
    # By kind and not decoded: no filter reads the kinds that nearly all pods have.
    volumes: list[dict[str, msgspec.Raw]] = []
    # Only their presence matters.
    scheduling_gates: list[msgspec.Raw] = []
    # Decoded strictly, one by one, so that a message can name the entry (`pod_claims`).
    resource_claims: list[msgspec.Raw] = []
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    host_network: bool = False
    host_users: bool | None = None


class ConditionType(_Struct):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(_Struct):
    """The resources that the kubelet has allocated to a container, and those in use."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] = {}


class ClaimOfPod(_Struct):
    """The ResourceClaim of an entry of the spec. An entry without a name needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class MappedRequest(_Struct):
    """The request of the claim that provides an extended resource to a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ClaimForResources(_Struct):
    """The ResourceClaim whose devices provide the pod's extended resources."""

    resource_claim_name: str = ""
    request_mappings: list[MappedRequest] = []


class PodStatus(_Struct):
    """Phase, start, nominated node, conditions, ResourceClaims, and the state of a resize."""

    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[ConditionType] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] = {}
    resource_claim_statuses: list[ClaimOfPod] = []
    extended_resource_claim_status: ClaimForResources | None = None


class Pod(_Struct):
    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class TaintSpec(_Struct):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(_Struct):
    """Taints, and the flag of a cordoned node."""

    unschedulable: bool = False
    taints: list[TaintSpec] = []


class ContainerImage(_Struct):
    """An image on a node, by all its names."""

    names: list[str] = []
    size_bytes: int = 0


class NodeImages(_Struct):
    """The field `images` of a node's status."""

    images: list[ContainerImage] = []


class NodeStatus(_Struct):
    """The allocatable resources, the features of the kubelet, and the images on the node."""

    allocatable: dict[str, str | int] = {}
    # Not decoded: most events of a node change none of them.
    images: msgspec.Raw = msgspec.Raw(b"[]")
    declared_features: list[str] = []


class Node(_Struct):
    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Gang(_Struct):
    """minCount of a PodGroup or minGroupCount of a CompositePodGroup."""

    min_count: int | None = None
    min_group_count: int | None = None


class Policy(_Struct):
    """The scheduling policy; exactly one is set."""

    basic: Json | None = None
    gang: Gang | None = None


class TopologySpec(_Struct):
    """One topology constraint."""

    key: str = ""
    preferred: bool = False


class Constraints(_Struct):
    """The scheduling constraints; `topology` has at most one entry."""

    topology: list[TopologySpec] = []


class WorkloadReference(_Struct):
    """The Workload and the template that the group was made from."""

    workload_name: str = ""
    template_name: str = ""


class SharedClaim(_Struct):
    """An entry of a group's resourceClaims."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodTemplateMetadata(_Struct):
    """The labels of pods."""

    labels: dict[str, str] = {}


class PodTemplate(_Struct):
    """The fields that decide where pods may run that do not exist yet."""

    metadata: PodTemplateMetadata = msgspec.field(default_factory=PodTemplateMetadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class ExpectedPodsSpec(_Struct):
    """Pods of one kind that a group will have, including those that exist."""

    name: str = ""
    count: int = 0
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)
    stage: int = 0


class GroupObjectSpec(_Struct):
    """The spec of a PodGroup or of a CompositePodGroup."""

    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: Policy | None = None
    scheduling_constraints: Constraints | None = None
    disruption_mode: dict[str, Any] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str = ""
    resource_claims: list[SharedClaim] = []
    expected_pods: list[ExpectedPodsSpec] = []


class GroupObject(_Struct):
    """A PodGroup or CompositePodGroup. The status remains a dict, as the scheduler writes it."""

    metadata: Metadata
    spec: GroupObjectSpec = msgspec.field(default_factory=GroupObjectSpec)
    status: Json | None = None


def pod_of(obj: Mapping[str, Any]) -> Pod:
    """Decode a pod from JSON that may come from YAML. Raises msgspec.ValidationError."""
    # Volumes and claims are kept as bytes until they are read, and only JSON decodes to bytes.
    return _written_pod(msgspec.json.encode(obj))


def group_of(obj: Mapping[str, Any]) -> GroupObject:
    """Decode a group from JSON that may come from YAML. Raises msgspec.ValidationError."""
    # As in pod_of: claims and volumes of its expected pods are kept as bytes.
    return _written_group(msgspec.json.encode(obj))


# One struct for each level: a recursive one would follow user input to any depth.
class LeafTemplate(_Struct):
    """A template of PodGroups, with the fields that groups are compared by."""

    name: str = ""
    scheduling_policy: Policy | None = None
    scheduling_constraints: Constraints | None = None
    disruption_mode: dict[str, Any] | None = None
    priority_class_name: str = ""
    priority: int | None = None


class LowestTemplate(LeafTemplate):
    """A template of composites on level 3, which can have no composites below."""

    pod_group_templates: list[LeafTemplate] = []


class MiddleTemplate(LowestTemplate):
    """A template of composites on level 2."""

    composite_pod_group_templates: list[LowestTemplate] = []


class HighestTemplate(LowestTemplate):
    """A template of root composites."""

    composite_pod_group_templates: list[MiddleTemplate] = []


class WorkloadSpec(_Struct):
    """The templates, on at most four levels; deeper ones are ignored."""

    pod_group_templates: list[LeafTemplate] = []
    composite_pod_group_templates: list[HighestTemplate] = []


class Workload(_Struct):
    metadata: Metadata
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class Namespace(_Struct):
    """A namespace. Namespace selectors match its labels."""

    metadata: Metadata


class ServiceSpec(_Struct):
    """The labels of the pods. Without any, the Service selects none."""

    selector: dict[str, str] = {}


class Service(_Struct):
    metadata: Metadata
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class PodDisruptionBudgetSpec(_Struct):
    """The selector of the pods. An empty one selects all, None selects none."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(_Struct):
    """The result of the disruption controller."""

    disruptions_allowed: int = 0


class PodDisruptionBudget(_Struct):
    metadata: Metadata
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


# Each raises msgspec.DecodeError.
decode_budget: Final = Decoder(PodDisruptionBudget)
decode_group: Final = Decoder(GroupObject)
decode_images: Final = Decoder(NodeImages)
decode_namespace: Final = Decoder(Namespace)
decode_node: Final = Decoder(Node)
decode_pod: Final = Decoder(Pod)
decode_service: Final = Decoder(Service)
decode_workload: Final = Decoder(Workload)

# YAML that people write may have text in place of numbers and booleans.
_written_group: Final = Decoder(GroupObject, strict=False)
_written_pod: Final = Decoder(Pod, strict=False)
