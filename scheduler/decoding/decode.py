"""From watched nodes, pods, groups and budgets to the values of the decision core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from datetime import datetime
from sys import intern
from typing import Final, Literal

from api import features
from api.constants import (
    ANNOTATION_CAPACITY_REQUESTED,
    ANNOTATION_GROUP_BY,
    ANNOTATION_HOLD_SECONDS,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_SCHEDULE_TIMEOUT,
    CAPACITY_FAILED,
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_DISRUPTION_TARGET,
    CONDITION_POD_GROUP_SCHEDULED,
    CONDITION_POD_SCHEDULED,
    SCHEDULER_COMPONENT,
)
from api.duration import seconds
from api.features import Feature, FeatureGates, feature_of_owner
from api.groups import Form, GroupReference, WorkloadForm, group_of_pod, workload_form
from api.integration.pods.groups_from_pods import ask_of
from api.membership import NOBODY, Owners, claims_of
from api.ownership import OwnerId, made_for
from api.scheduler_names import USUAL, SchedulerNames
from kube.client.meta import OwnerReference
from scheduler.core.state.disruption_budgets import DisruptionBudget
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    GroupKey,
    GroupSpec,
    MembershipInfo,
    NodeInfo,
    PodInfo,
    PreemptionInfo,
    Taint,
    Topology,
)
from scheduler.decoding import limits
from scheduler.decoding.label_selectors import label_expressions
from scheduler.decoding.objects import (
    ConditionType,
    Constraints,
    GroupObject,
    Node,
    Pod,
    PodDisruptionBudget,
)
from scheduler.decoding.requests import amounts
from scheduler.decoding.requirements import requirements_of, requirements_of_others

NEVER: Final = "Never"

MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of mirror pods, which show static pods of a kubelet."""

_USUAL_PREEMPTION: Final = PreemptionInfo()
_USUAL_VALUES: Final = astuple(_USUAL_PREEMPTION)
_NO_MEMBERSHIP: Final = MembershipInfo()

_DIGITS: Final = 6
"""Digits of `hold-seconds`. An annotation with more is ignored."""

_LONGEST: Final = 253
"""The longest name of an object."""

_LONGEST_MESSAGE: Final = 1024
"""What is kept of a condition's message: who may write a status may write any."""

FAR_AWAY: Final = 1e12
"""Stands for times after the year 9999: a pod may be deleted with any grace period."""


def node_info(node: Node) -> NodeInfo:
    """Raises kube.client.quantity.QuantityError for an allocatable that is no quantity."""
    return NodeInfo(
        name=node.metadata.name,
        allocatable=amounts(node.status.allocatable),
        labels=node.metadata.labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in node.spec.taints),
        unschedulable=node.spec.unschedulable,
        uid=node.metadata.uid,
    )


def pod_info(
    pod: Pod, before: PodInfo | None = None, schedulers: SchedulerNames = USUAL
) -> PodInfo:
    """`before` is the same pod as decoded the last time; `schedulers` say whether it is Muster's.

    Raises kube.client.quantity.QuantityError for a request that is no quantity.
    """
    meta, spec, owner = pod.metadata, pod.spec, pod.metadata.controller
    ours = spec.scheduler_name in schedulers
    if before is not None and _just_bound(pod, before):
        requirements, to_group = before.requirements, before.group_affinity
    elif ours:
        requirements, to_group = requirements_of(pod)
    else:
        requirements, to_group = requirements_of_others(pod), ()
    reference, claims = _reference_and_claims(pod, owner, ours=ours)
    group = None if reference is None else reference.name
    asks = ours and reference is not None and ask_of(reference, meta.annotations) is not None
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
        labels=limits.labels(meta.labels),
        started=_seconds(pod.status.start_time),
        generation=meta.generation,
        nominated=pod.status.nominated_node_name,
        group_affinity=to_group,
        scheduler=intern(spec.scheduler_name) if ours else "",
        preemption=_preemption(pod, owner),
        membership=_membership(pod, owner, group, claims, asks=asks),
        version=meta.resource_version,
        conditions=_conditions(pod),
    )


def _conditions(pod: Pod) -> Literal["", "some", "target"]:
    found = pod.status.conditions
    if any(condition.type == CONDITION_DISRUPTION_TARGET for condition in found):
        return "target"
    return "some" if found else ""


def _preemption(pod: Pod, owner: OwnerReference | None) -> PreemptionInfo:
    """What preemption goes by; one value for all pods that say nothing of it."""
    meta, spec = pod.metadata, pod.spec
    mark = next(filter(_targets, pod.status.conditions), None)
    grace = spec.termination_grace_period_seconds
    values = (
        spec.preemption_policy != NEVER,
        _duration(meta.annotations, ANNOTATION_PREEMPTION_DELAY),
        mark is not None,
        (mark.last_transition_time or "") if mark is not None else "",
        _seconds(meta.deletion_timestamp),
        _USUAL_PREEMPTION.grace if grace is None else float(grace),
        _owner_uid(owner, "apps/", "DaemonSet"),
        _owner_uid(owner, "v1", "Node") if MIRROR in meta.annotations else "",
        # All victims of a plan say the same.
        intern(mark.message[:_LONGEST_MESSAGE]) if mark is not None else "",
    )
    return _USUAL_PREEMPTION if values == _USUAL_VALUES else PreemptionInfo(*values)


def _membership(
    pod: Pod, owner: OwnerReference | None, group: str | None, claims: Owners, *, asks: bool
) -> MembershipInfo:
    """What it has to do with its group; one value for all pods that have no other."""
    failed = pod.status.phase == "Failed"
    managed = group is not None and pod.metadata.annotations.get(ANNOTATION_MANAGED_GROUP) == group
    if not (claims or managed or failed or asks or (group and owner)):
        return _NO_MEMBERSHIP
    return MembershipInfo(
        claims=claims,
        maker=intern(f'{owner.kind} "{owner.name}"') if group and owner else "",
        managed=managed,
        bound_at=_bound_at(pod) if failed else "",
        asks=asks,
    )


def _bound_at(pod: Pod) -> str:
    """When it was bound, as far as it still says so; else when it was made."""
    for condition in pod.status.conditions:
        if condition.type == CONDITION_POD_SCHEDULED and condition.status == "True":
            return condition.last_transition_time or pod.metadata.creation_timestamp
    return pod.metadata.creation_timestamp


def _owner_uid(owner: OwnerReference | None, version: str, kind: str) -> str:
    """The UID of the owner that manages the pod, if it is of this kind."""
    if owner is None or owner.kind != kind or not owner.api_version.startswith(version):
        return ""
    return owner.uid


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
        and condition.message.startswith(f"{SCHEDULER_COMPONENT}:")
    )


def _seconds(moment: str | None) -> float:
    """A time in seconds since 1970; 0 for None."""
    if not moment:
        return 0.0
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return FAR_AWAY


def _reference_and_claims(
    pod: Pod, owner: OwnerReference | None, *, ours: bool
) -> tuple[GroupReference | None, Owners]:
    """How the pod names its PodGroup, if it has one, and whose that has to be."""
    meta, spec, said = pod.metadata, pod.spec, pod.spec.workload_ref
    workload = None
    if said is not None and ours:
        workload = WorkloadForm(said.name, said.pod_group, said.pod_group_replica_key)
    reference = group_of_pod(
        meta.labels,
        ours=ours,
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        workload=workload,
        managed=meta.annotations.get(ANNOTATION_MANAGED_GROUP, ""),
        group_by=meta.annotations.get(ANNOTATION_GROUP_BY, ""),
    )
    if reference is None:
        return None, NOBODY
    of_template = reference.form is Form.WORKLOAD
    return reference, claims_of(
        reference,
        meta.labels,
        meta.annotations,
        certain=bool(spec.node_name),
        workload=workload_form(meta.labels, workload) if of_template else None,
        controller=owner,
    )


def group_spec(kind: str, group: GroupObject, gates: FeatureGates = features.USUAL) -> GroupSpec:
    """`kind` is PodGroup or CompositePodGroup; `gates` is what is on."""
    meta, spec = group.metadata, group.spec
    key: GroupKey = (kind, meta.namespace, meta.name)
    policy, owner = spec.scheduling_policy, made_for(meta)
    gate_off, maker_off = _off(kind, group, owner, gates)
    return GroupSpec(
        key=key,
        minimum=_minimum(group),
        gang=policy is not None and policy.gang is not None,
        parent=spec.parent_composite_pod_group_name or None,
        priority=spec.priority,
        workload=spec.workload_ref.workload_name if spec.workload_ref else None,
        topology=topology_of(spec.scheduling_constraints),
        disruption="all" if "all" in (spec.disruption_mode or {}) else "single",
        created=meta.creation_timestamp,
        preempts=spec.preemption_policy != NEVER,
        delay=_duration(meta.annotations, ANNOTATION_PREEMPTION_DELAY),
        bind_within=_duration(meta.annotations, ANNOTATION_SCHEDULE_TIMEOUT),
        template=spec.workload_ref.template_name if spec.workload_ref else "",
        priority_class=spec.priority_class_name or "",
        owner=_owner(owner),
        requested=_requested(meta.annotations.get(ANNOTATION_CAPACITY_REQUESTED)),
        gate_off=gate_off,
        maker_off=maker_off,
        hold=hold_seconds(meta.annotations),
    )


def _off(
    kind: str, group: GroupObject, owner: OwnerId | None, gates: FeatureGates
) -> tuple[str, str]:
    """The gates that are off: of what the group's placement uses, and of what it was made by."""
    spec, used = group.spec, []
    if kind == COMPOSITE_POD_GROUP or spec.parent_composite_pod_group_name:
        used.append(Feature.COMPOSITE_POD_GROUP)
    if spec.scheduling_constraints is not None and spec.scheduling_constraints.topology:
        used.append(Feature.TOPOLOGY)
    maker = feature_of_owner(owner)
    off = next((str(it) for it in used if it not in gates), "")
    return off, str(maker) if maker is not None and maker not in gates else ""


def hold_seconds(annotations: Mapping[str, str]) -> float | None:
    """For how long places are to be held; None if the annotation is absent or no number."""
    written = annotations.get(ANNOTATION_HOLD_SECONDS, "")
    return float(written) if written.isdecimal() and len(written) <= _DIGITS else None


def _requested(written: str | None) -> float | None:
    """When capacity was requested; the annotation may be written by hand."""
    if written is None:
        return None
    if written == CAPACITY_FAILED:
        return -FAR_AWAY
    moment = _seconds(written)
    return moment if 0.0 < moment < FAR_AWAY else None


def _owner(owner_id: OwnerId | None) -> tuple[str, str] | None:
    """Kind and name of what the group was made for; the annotation may be written by hand."""
    if owner_id is None or not all(0 < len(part) <= _LONGEST for part in owner_id[1:3]):
        return None
    return owner_id.kind, owner_id.name


_SCHEDULED: Final = (CONDITION_POD_GROUP_SCHEDULED, CONDITION_COMPOSITE_SCHEDULED)


def initially_scheduled(group: GroupObject) -> bool:
    """Whether the status, which may be written by hand, says that it was scheduled."""
    conditions = (group.status or {}).get("conditions")
    if not isinstance(conditions, list):
        return False
    return any(
        isinstance(it, dict) and it.get("type") in _SCHEDULED and it.get("status") == "True"
        for it in conditions
    )


def topology_of(constraints: Constraints | None) -> Topology | None:
    """The topology constraint, if there is one."""
    if constraints is None or not constraints.topology:
        return None
    first = constraints.topology[0]
    return Topology(first.key, first.preferred)


def _minimum(group: GroupObject) -> int | None:
    policy = group.spec.scheduling_policy
    if policy is None:
        return None
    if policy.gang is not None:
        return policy.gang.min_count or policy.gang.min_group_count
    return 1 if policy.basic is not None else None
