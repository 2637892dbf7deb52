"""Decoding of nodes, pods, groups and budgets to the values of the decision core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from datetime import datetime
from sys import intern
from typing import Final, Literal

from api import features
from api.constants import (
    ANNOTATION_CAPACITY_REQUESTED,
    ANNOTATION_DEFRAGMENT_UNTIL,
    ANNOTATION_EVICTION_COST,
    ANNOTATION_GROUP_BY,
    ANNOTATION_HOLD_FROM,
    ANNOTATION_HOLD_SECONDS,
    ANNOTATION_LAST_CHECKPOINT,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_RUN_TIME,
    ANNOTATION_MOVABLE,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_SCHEDULE_TIMEOUT,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_START_TIMEOUT,
    CAPACITY_FAILED,
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_DISRUPTION_TARGET,
    CONDITION_POD_GROUP_SCHEDULED,
    CONDITION_POD_SCHEDULED,
    CONDITION_START_TIMEOUT,
    HOLD_FROM_CREATION,
    NATIVE_GROUP_KINDS,
    NATIVE_POD_GROUP,
    SCHEDULER_COMPONENT,
)
from api.duration import seconds
from api.eviction import checkpoint, eviction_cost, movable, preemptions_of
from api.features import Feature, FeatureGates, feature_of_owner
from api.groups import (
    Form,
    GroupReference,
    WorkloadForm,
    groups_of_pod,
    incomplete_reference,
    workload_form,
)
from api.integration.pods.groups_from_pods import ask_of
from api.membership import NO_OWNERS, Owners, claims_of
from api.names import is_label_key
from api.ownership import OwnerId, created_for
from api.reading import listing, mapping, text
from api.scheduler_names import USUAL, SchedulerNames
from api.slices import (
    EXPECTED_TEXT,
    LEAF_TEXT,
    SliceFault,
    SliceOptions,
    job_pods,
    read_slices,
)
from kube.base.clock import moment
from kube.client.meta import OwnerReference
from scheduler.core.groups.groups import StartWait
from scheduler.core.state.disruption_budgets import DisruptionBudget
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    NEWEST_RELEASE,
    POD_GROUP,
    GroupKey,
    GroupSpec,
    MembershipInfo,
    NodeInfo,
    PodInfo,
    PreemptionInfo,
    Release,
    Slicing,
    Taint,
    Topology,
    plain_kind,
)
from scheduler.decoding import limits
from scheduler.decoding.images import images_of
from scheduler.decoding.label_selectors import label_expressions
from scheduler.decoding.objects import (
    ConditionType,
    Constraints,
    GroupObject,
    Metadata,
    Node,
    Pod,
    PodDisruptionBudget,
    decode_images,
)
from scheduler.decoding.requests import amounts
from scheduler.decoding.requirements import requirements_of, requirements_of_others

NEVER: Final = "Never"

MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of mirror pods, which represent a kubelet's static pods."""

_USUAL_PREEMPTION: Final = PreemptionInfo()
# Most pods have these values: comparing tuples is cheaper than a PreemptionInfo per event.
_USUAL_VALUES: Final = astuple(_USUAL_PREEMPTION)
_NO_MEMBERSHIP: Final = MembershipInfo()
_IN_NO_GROUP: Final = MembershipInfo(held=True)

_REPLICATING: Final = frozenset(
    (("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))
)
"""Kinds of controllers whose pods kube-scheduler spreads by default."""

_DIGITS: Final = 6
"""Digits of `hold-seconds`. An annotation with more is ignored."""

_LONGEST: Final = 253
"""Characters of an object's name. A longer one in the annotation of the owner is ignored."""

_LONGEST_MESSAGE: Final = 1024
"""Characters kept of a condition's message. Longer ones are cut, as anybody who may write a status
may write any text."""

_NATIVE_POD_GROUP: Final = NATIVE_POD_GROUP.full_kind
_NATIVE: Final = frozenset(kind.full_kind for kind in NATIVE_GROUP_KINDS)

FAR_AWAY: Final = 1e12
"""A time after the year 9999 in seconds: a pod may be deleted with any grace period."""


def node_info(node: Node) -> NodeInfo:
    """Decode a node. Raises kube.client.quantity.QuantityError for an invalid allocatable."""
    return NodeInfo(
        name=node.metadata.name,
        allocatable=amounts(node.status.allocatable),
        labels=node.metadata.labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in node.spec.taints),
        unschedulable=node.spec.unschedulable,
        uid=node.metadata.uid,
        declared_features=tuple(sorted(node.status.declared_features)),
    )


def node_images(node: Node) -> Iterator[tuple[str, int]]:
    """Yield the names of the images on a node, with their sizes in bytes."""
    for image in decode_images(b'{"images":%s}' % bytes(node.status.images)).images:
        for name in image.names:
            yield name, max(0, image.size_bytes)


def pod_info(
    pod: Pod,
    before: PodInfo | None = None,
    schedulers: SchedulerNames = USUAL,
    *,
    native: bool = False,
    release: Release = NEWEST_RELEASE,
) -> PodInfo:
    """Decode a pod; `schedulers` decides whether it is Muster's.

    `native` means that Kubernetes' own PodGroups are served, `release` is that of Kubernetes.
    `before` is the same pod as it was decoded for the previous event. Raises
    kube.client.quantity.QuantityError for an invalid request.
    """
    meta, spec, owner = pod.metadata, pod.spec, pod.metadata.controller
    ours = spec.scheduler_name in schedulers
    if before is not None and _just_bound(pod, before):
        # A binding is the most frequent event and changes no requirement: this halves its cost.
        requirements, to_group = before.requirements, before.group_affinity
    elif ours:
        requirements, to_group = requirements_of(pod, release)
    else:
        # Muster never places this pod, so only what it takes from others counts.
        requirements, to_group = requirements_of_others(pod, release), ()
    reference, claims = _reference_and_claims(pod, owner, ours=ours, native=native)
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
        # One string for all pods: every pod is kept for as long as it exists.
        scheduler=intern(spec.scheduler_name) if ours else "",
        preemption=_preemption(pod, owner),
        membership=(
            _membership(pod, owner, reference, claims, asks=asks) if reference else _alone(pod)
        ),
        version=meta.resource_version,
        conditions=_conditions(pod),
        group_kind=_group_kind(reference),
        controller=_controller(owner),
        images=images_of(pod.spec) if ours and not spec.node_name else (),
    )


def _controller(owner: OwnerReference | None) -> str:
    """Return the UID of the owner if it is of a kind whose replicas spread by default."""
    if owner is None or (owner.api_version, owner.kind) not in _REPLICATING:
        return ""
    # One string for all replicas: every pod is kept for as long as it exists.
    return intern(owner.uid)


def _group_kind(reference: GroupReference | None) -> str:
    native = reference is not None and reference.form is Form.NATIVE
    return _NATIVE_POD_GROUP if native else POD_GROUP


def _conditions(pod: Pod) -> Literal["", "some", "target"]:
    # An eviction patches its condition in, depending on the list and on this entry in it.
    found = pod.status.conditions
    if any(condition.type == CONDITION_DISRUPTION_TARGET for condition in found):
        return "target"
    return "some" if found else ""


def _preemption(pod: Pod, owner: OwnerReference | None) -> PreemptionInfo:
    """Return what preemption reads of the pod; pods that set none of it share one value."""
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
        # All victims of a plan have the same message.
        intern(mark.message[:_LONGEST_MESSAGE]) if mark is not None else "",
        seconds(meta.annotations.get(ANNOTATION_MIN_RUN_TIME)),
        eviction_cost(meta.annotations.get(ANNOTATION_EVICTION_COST)) or 0,
        checkpoint(meta.annotations.get(ANNOTATION_LAST_CHECKPOINT)) or 0.0,
        float(spec.active_deadline_seconds or 0),
    )
    return _USUAL_PREEMPTION if values == _USUAL_VALUES else PreemptionInfo(*values)


def _alone(pod: Pod) -> MembershipInfo:
    """Return the membership of a pod without a group, which waits if it meant to name one."""
    return _NO_MEMBERSHIP if incomplete_reference(pod.metadata.labels) is None else _IN_NO_GROUP


def _membership(
    pod: Pod,
    owner: OwnerReference | None,
    reference: GroupReference,
    claims: Owners,
    *,
    asks: bool,
) -> MembershipInfo:
    """Return how the pod relates to its group; pods without such a relation share one value."""
    failed = pod.status.phase == "Failed"
    managed = pod.metadata.annotations.get(ANNOTATION_MANAGED_GROUP) == reference.name
    if not (claims or managed or failed or asks or owner):
        return _NO_MEMBERSHIP
    form = workload_form(pod.metadata.labels, None) if reference.form is Form.WORKLOAD else None
    return MembershipInfo(
        claims=claims,
        maker=intern(f'{owner.kind} "{owner.name}"') if owner else "",
        managed=managed,
        bound_at=_bound_at(pod) if failed else "",
        asks=asks,
        workload=intern(form.name) if form is not None else "",
    )


def _bound_at(pod: Pod) -> str:
    """Return the time of the binding if the status has it, else of the creation."""
    for condition in pod.status.conditions:
        if condition.type == CONDITION_POD_SCHEDULED and condition.status == "True":
            return condition.last_transition_time or pod.metadata.creation_timestamp
    return pod.metadata.creation_timestamp


def _owner_uid(owner: OwnerReference | None, version: str, kind: str) -> str:
    """Return the UID of the controlling owner if it is of this kind, else an empty text."""
    if owner is None or owner.kind != kind or not owner.api_version.startswith(version):
        return ""
    return owner.uid


def _just_bound(pod: Pod, before: PodInfo) -> bool:
    """True if the pod got a node and no other part of its spec, or label, changed."""
    meta = pod.metadata
    # API servers before 1.33 do not maintain the generation and keep what a user wrote. So it is
    # trusted for this event only.
    return (
        0 < meta.generation == before.generation
        and not before.node
        and pod.spec.node_name != ""
        and meta.labels == before.labels
    )


def disruption_budget(obj: PodDisruptionBudget) -> DisruptionBudget:
    """Decode a PodDisruptionBudget: its selector, and the disruptions it allows now."""
    meta = obj.metadata
    selected = label_expressions(obj.spec.selector)
    return DisruptionBudget((meta.namespace, meta.name), selected, obj.status.disruptions_allowed)


def _duration(annotations: Mapping[str, str], name: str) -> float:
    """Return an annotation's duration in seconds, 0 if it is absent or invalid."""
    return seconds(annotations.get(name)) or 0.0


def _targets(condition: ConditionType) -> bool:
    """True if this scheduler set the DisruptionTarget condition; others use the type, too."""
    return (
        condition.type == CONDITION_DISRUPTION_TARGET
        and condition.status == "True"
        and condition.message.startswith(f"{SCHEDULER_COMPONENT}:")
    )


def _seconds(moment: str | None) -> float:
    """Return a time in seconds since 1970, 0 for None."""
    if not moment:
        return 0.0
    try:
        return datetime.fromisoformat(moment).timestamp()
    # The API server accepts years that datetime does not. Such a time is later than all others.
    except (ValueError, OverflowError):
        return FAR_AWAY


def _reference_and_claims(
    pod: Pod, owner: OwnerReference | None, *, ours: bool, native: bool
) -> tuple[GroupReference | None, Owners]:
    """Return the reference of the pod to its PodGroup, if any, and the owners it may have."""
    meta, spec, said = pod.metadata, pod.spec, pod.spec.workload_ref
    workload = None
    # kube-scheduler's own gangs use workloadRef, too: only Muster's pods mean Muster's groups.
    if said is not None and ours:
        workload = WorkloadForm(said.name, said.pod_group, said.pod_group_replica_key)
    references = groups_of_pod(
        meta.labels,
        ours=ours,
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        workload=workload,
        managed=meta.annotations.get(ANNOTATION_MANAGED_GROUP, ""),
        group_by=meta.annotations.get(ANNOTATION_GROUP_BY, ""),
        native=native,
    )
    reference = next(references, None)
    if reference is None:
        return None, NO_OWNERS
    of_template = reference.form is Form.WORKLOAD
    return reference, claims_of(
        reference,
        meta.labels,
        meta.annotations,
        # A bound pod stays in its group, even if a later group of the name has another owner.
        certain=bool(spec.node_name),
        workload=workload_form(meta.labels, workload) if of_template else None,
        controller=owner,
    )


def group_spec(kind: str, group: GroupObject, gates: FeatureGates = features.USUAL) -> GroupSpec:
    """Decode a group. `kind` is that of its key; `gates` are the enabled features."""
    meta, spec = group.metadata, group.spec
    key: GroupKey = (kind, meta.namespace, meta.name)
    native = kind in _NATIVE
    policy, owner = spec.scheduling_policy, created_for(meta)
    gate_off, maker_off = _off(kind, group, owner, gates)
    return GroupSpec(
        key=key,
        minimum=_minimum(group),
        gang=policy is not None and policy.gang is not None,
        parent=spec.parent_composite_pod_group_name or None,
        # Kubernetes' admission fills in that of a native group, if a class applies.
        priority=spec.priority or 0 if native else spec.priority,
        workload=spec.workload_ref.workload_name if spec.workload_ref else None,
        topology=topology_of(spec.scheduling_constraints) or _preferred(meta, native=native),
        disruption="all" if "all" in (spec.disruption_mode or {}) else "single",
        created=meta.creation_timestamp,
        preempts=spec.preemption_policy != NEVER,
        delay=_duration(meta.annotations, ANNOTATION_PREEMPTION_DELAY),
        min_run=seconds(meta.annotations.get(ANNOTATION_MIN_RUN_TIME)),
        start_within=_duration(meta.annotations, ANNOTATION_START_TIMEOUT),
        eviction_cost=eviction_cost(meta.annotations.get(ANNOTATION_EVICTION_COST)) or 0,
        checkpoint=checkpoint(meta.annotations.get(ANNOTATION_LAST_CHECKPOINT)) or 0.0,
        preempted=preemptions_of(group.status or {}),
        bind_within=_duration(meta.annotations, ANNOTATION_SCHEDULE_TIMEOUT),
        template=spec.workload_ref.template_name if spec.workload_ref else "",
        priority_class=spec.priority_class_name or "",
        owner=_owner(owner),
        requested=_requested(meta.annotations.get(ANNOTATION_CAPACITY_REQUESTED)),
        gate_off=gate_off,
        maker_off=maker_off,
        hold=hold_seconds(meta.annotations),
        slicing=_slicing(kind, group),
        reserves=Feature.RESERVATIONS in gates and _reserves(kind, group),
        shared=native,
        movable=movable(meta.annotations.get(ANNOTATION_MOVABLE)),
        defragment_until=checkpoint(meta.annotations.get(ANNOTATION_DEFRAGMENT_UNTIL)) or 0.0,
    )


def _off(
    kind: str, group: GroupObject, owner: OwnerId | None, gates: FeatureGates
) -> tuple[str, str]:
    """Return the disabled gates that the group's placement uses, and that created the group."""
    spec, used = group.spec, []
    if kind == POD_GROUP:
        used.append(Feature.POD_GROUP)
    if spec.scheduling_policy is not None and spec.scheduling_policy.gang is not None:
        used.append(Feature.GANG)
    # A group that was scheduled continues as it is, and may replace lost pods.
    if not all(it in gates for it in used) and initially_scheduled(group):
        used.clear()
    if plain_kind(kind) == COMPOSITE_POD_GROUP or spec.parent_composite_pod_group_name:
        used.append(Feature.COMPOSITE_POD_GROUP)
    preferred = _preferred(group.metadata, native=kind in _NATIVE)
    if topology_of(spec.scheduling_constraints) or preferred:
        used.append(Feature.TOPOLOGY)
    # Kept apart: a disabled owner kind blocks only groups that were never scheduled. A running gang
    # may still replace lost pods.
    maker = feature_of_owner(owner)
    off = next((str(gates.to_turn_on(it)) for it in used if it not in gates), "")
    by = str(gates.to_turn_on(maker)) if maker is not None and maker not in gates else ""
    return off, by


def hold_seconds(annotations: Mapping[str, str]) -> float | None:
    """Return the seconds to hold places, None if the annotation is absent or no number."""
    written = annotations.get(ANNOTATION_HOLD_SECONDS, "")
    return float(written) if written.isdecimal() and len(written) <= _DIGITS else None


def _slicing(kind: str, group: GroupObject) -> Slicing | None:
    """Return the slices of a group. Native groups, and later changes, pass no webhook of Muster."""
    found = read_slices(group.metadata.annotations)
    if not isinstance(found, SliceOptions):
        return Slicing(1, "", found[0].sentence()) if found else None
    flaw = ""
    if plain_kind(kind) != POD_GROUP:
        flaw = SliceFault(ANNOTATION_SLICE_SIZE, found.size, LEAF_TEXT).sentence()
    elif group.spec.expected_pods:
        flaw = SliceFault(ANNOTATION_SLICE_SIZE, found.size, EXPECTED_TEXT).sentence()
    return Slicing(found.size, found.key, flaw, job_pods(group.metadata.annotations))


def _reserves(kind: str, group: GroupObject) -> bool:
    """Return True if places are held from the creation of the group, which is a root."""
    asked = group.metadata.annotations.get(ANNOTATION_HOLD_FROM) == HOLD_FROM_CREATION
    return asked and kind == POD_GROUP and not group.spec.parent_composite_pod_group_name


def _requested(written: str | None) -> float | None:
    """Return the time of the capacity request. Users can write the annotation, too."""
    if written is None:
        return None
    if written == CAPACITY_FAILED:
        # No nodes will come: the preemption delay, which counts from the request, is over at once.
        return -FAR_AWAY
    moment = _seconds(written)
    return moment if 0.0 < moment < FAR_AWAY else None


def _owner(owner_id: OwnerId | None) -> tuple[str, str] | None:
    """Return kind and name of the owner of the group. Users can write the annotation, too."""
    if owner_id is None or not all(0 < len(part) <= _LONGEST for part in owner_id[1:3]):
        return None
    return owner_id.kind, owner_id.name


_SCHEDULED: Final = (CONDITION_POD_GROUP_SCHEDULED, CONDITION_COMPOSITE_SCHEDULED)


def initially_scheduled(group: GroupObject) -> bool:
    """True if the status reports the group as scheduled. Users can write the status, too."""
    conditions = map(mapping, listing((group.status or {}).get("conditions")))
    return any(it.get("type") in _SCHEDULED and it.get("status") == "True" for it in conditions)


def start_wait(group: GroupObject, limit: float) -> StartWait | None:
    """Return the wait for the first start that the status records, if it does.

    `limit` is the current one, in seconds. Users can write the status, too.
    """
    conditions = map(mapping, listing((group.status or {}).get("conditions")))
    found = next((it for it in conditions if it.get("type") == CONDITION_START_TIMEOUT), None)
    stamp = text(found.get("lastTransitionTime")) if found is not None else ""
    if found is None or moment(stamp) is None:
        return None
    over = text(found.get("message"))[:_LONGEST_MESSAGE] if found.get("status") == "True" else ""
    return StartWait(stamp, limit, over)


def topology_of(constraints: Constraints | None) -> Topology | None:
    """Return the topology constraint, if any."""
    if constraints is None or not constraints.topology:
        return None
    # The API allows one constraint.
    first = constraints.topology[0]
    return Topology(first.key, first.preferred)


def _preferred(meta: Metadata, *, native: bool) -> Topology | None:
    """Return the preferred topology of a native group, whose spec can only have a required one."""
    key = meta.annotations.get(ANNOTATION_PREFERRED_TOPOLOGY, "") if native else ""
    return Topology(key, preferred=True) if is_label_key(key) else None


def _minimum(group: GroupObject) -> int | None:
    policy = group.spec.scheduling_policy
    if policy is None:
        return None
    if policy.gang is not None:
        return policy.gang.min_count or policy.gang.min_group_count
    return 1 if policy.basic is not None else None
