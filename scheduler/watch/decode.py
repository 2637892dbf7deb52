"""From watched nodes, pods, groups and budgets to the values of the decision core."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from api.constants import (
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_SCHEDULE_TIMEOUT,
    CONDITION_DISRUPTION_TARGET,
    SCHEDULER_NAME,
)
from api.duration import seconds
from api.groups import WorkloadForm, group_of_pod
from scheduler.core.model import GroupKey, GroupSpec, NodeInfo, PodInfo, Taint, Topology
from scheduler.core.preemption.disruption_budgets import DisruptionBudget
from scheduler.watch.objects import ConditionType, GroupObject, Node, Pod, PodDisruptionBudget
from scheduler.watch.requirements import amounts, requirements_of, requirements_of_others
from scheduler.watch.selectors import label_expressions

NEVER: Final = "Never"


def node_info(node: Node) -> NodeInfo:
    """Raises kube.quantity.QuantityError for an allocatable that is no quantity."""
    return NodeInfo(
        name=node.metadata.name,
        allocatable=amounts(node.status.allocatable),
        labels=node.metadata.labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in node.spec.taints),
        unschedulable=node.spec.unschedulable,
    )


def pod_info(pod: Pod, before: PodInfo | None = None) -> PodInfo:
    """`before` is the same pod as decoded the last time.

    Raises kube.quantity.QuantityError for a request that is no quantity.
    """
    meta, spec = pod.metadata, pod.spec
    ours = spec.scheduler_name == SCHEDULER_NAME
    if before is not None and _just_bound(pod, before):
        requirements, group = before.requirements, before.group
    else:
        requirements = requirements_of(pod) if ours else requirements_of_others(pod)
        group = group_name(pod)
    return PodInfo(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        requirements=requirements,
        node=spec.node_name,
        group=group,
        priority=spec.priority,
        created=meta.creation_timestamp,
        phase=pod.status.phase or "Pending",
        ours=ours,
        gated=bool(spec.scheduling_gates),
        terminating=meta.deletion_timestamp is not None,
        labels=meta.labels,
        started=_seconds(pod.status.start_time),
        preempts=spec.preemption_policy != NEVER,
        delay=_duration(meta.annotations, ANNOTATION_PREEMPTION_DELAY),
        targeted=any(map(_targets, pod.status.conditions)),
        leaves_by=_seconds(meta.deletion_timestamp),
        generation=meta.generation,
    )


def _just_bound(pod: Pod, before: PodInfo) -> bool:
    """Whether it got a node and nothing else of its spec or labels changed.

    Binding does not change the generation. API servers before 1.33 do not maintain it and keep what
    a user wrote, so it is trusted only for this event, the most frequent of all.
    """
    meta = pod.metadata
    return (
        0 < meta.generation == before.generation
        and not before.node
        and pod.spec.node_name != ""
        and meta.labels == before.labels
    )


def disruption_budget(obj: PodDisruptionBudget) -> DisruptionBudget:
    """The pods that the budget protects, and how many of them may be disrupted now."""
    meta = obj.metadata
    selected = label_expressions(obj.spec.selector)
    return DisruptionBudget((meta.namespace, meta.name), selected, obj.status.disruptions_allowed)


def _duration(annotations: Mapping[str, str], name: str) -> float:
    """An annotation's duration in seconds; 0 if it is none."""
    return seconds(annotations.get(name)) or 0.0


def _targets(condition: ConditionType) -> bool:
    """Whether this scheduler set the DisruptionTarget condition; others use the type, too."""
    return (
        condition.type == CONDITION_DISRUPTION_TARGET
        and condition.status == "True"
        and condition.message.startswith(f"{SCHEDULER_NAME}:")
    )


def _seconds(moment: str | None) -> float:
    """A time in seconds since 1970; 0 for None."""
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0


def group_name(pod: Pod) -> str | None:
    """The name of the pod's PodGroup, if it has one."""
    spec, workload = pod.spec, pod.spec.workload_ref
    reference = group_of_pod(
        pod.metadata.labels,
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        workload=WorkloadForm(workload.name, workload.pod_group, workload.pod_group_replica_key)
        if workload
        else None,
    )
    return reference.name if reference else None


def group_spec(kind: str, group: GroupObject) -> GroupSpec:
    """`kind` is PodGroup or CompositePodGroup."""
    meta, spec = group.metadata, group.spec
    key: GroupKey = (kind, meta.namespace, meta.name)
    constraints = spec.scheduling_constraints
    topology = constraints.topology[0] if constraints and constraints.topology else None
    policy = spec.scheduling_policy
    return GroupSpec(
        key=key,
        minimum=_minimum(group),
        gang=policy is not None and policy.gang is not None,
        parent=spec.parent_composite_pod_group_name or None,
        priority=spec.priority,
        workload=spec.workload_ref.workload_name if spec.workload_ref else None,
        topology=Topology(topology.key, topology.preferred) if topology else None,
        disruption="all" if "all" in (spec.disruption_mode or {}) else "single",
        created=meta.creation_timestamp,
        preempts=spec.preemption_policy != NEVER,
        delay=_duration(meta.annotations, ANNOTATION_PREEMPTION_DELAY),
        bind_within=_duration(meta.annotations, ANNOTATION_SCHEDULE_TIMEOUT),
    )


def _minimum(group: GroupObject) -> int | None:
    policy = group.spec.scheduling_policy
    if policy is None:
        return None
    if policy.gang is not None:
        return policy.gang.min_count or policy.gang.min_group_count
    return 1 if policy.basic is not None else None
