"""Decoders from the bytes of watched objects to the fields that controllers keep."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from api.constants import (
    ANNOTATION_CONSUMES_REQUEST,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_MANAGED_GROUP,
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    CONDITION_POD_SCHEDULED,
    JOB,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_RESTART,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_SUBSET,
    LWS_ANNOTATION_SIZE,
    LWS_LABEL_WORKER_INDEX,
)
from api.groups import Form, WorkloadForm, groups_of_pod, workload_form
from api.integration.common.minimum import Progress, count_indexes
from api.integration.pods.groups_from_pods import ask_of, is_from_pods
from api.integration.single_group.kind import SingleGroupKind
from api.membership import claims_of
from api.provisioning import shape_of
from api.reading import mapping
from api.scheduler_names import USUAL, SchedulerNames
from controllers.cache.objects import (
    JOBS,
    JOBSETS,
    LEADER_WORKER_SETS,
    ClaimEntry,
    ClaimStatus,
    Group,
    NamedObject,
    Owner,
    Pod,
    Workload,
    member_name,
)
from kube.client.decoding import Decoder
from kube.client.meta import Identity, ObjectMeta, OwnerReference
from kube.client.resources import Resource

_FINISHED_TYPES = frozenset({"Complete", "Completed", "Failed"})
_SCHEDULED_TYPES = frozenset({CONDITION_POD_GROUP_SCHEDULED, CONDITION_COMPOSITE_SCHEDULED})
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
# Searching the raw bytes is cheaper than decoding the spec of every JobSet and LeaderWorkerSet.
_SCOPE_MARK = ANNOTATION_GROUP_SCOPE.encode()
_GROUP_MARK = LABEL_POD_GROUP.encode()


class _RawObject(msgspec.Struct, gc=False):
    """Any object whose spec is decoded later, or never."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class _SchedulingGroup(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str = ""


class _PodWorkload(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    scheduling_group: _SchedulingGroup | None = None
    workload_ref: _PodWorkload | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[msgspec.Raw] = []


class Condition(msgspec.Struct, gc=False):
    """An entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _PodStatus(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""
    conditions: list[Condition] = []
    nominated_node_name: str = ""


class _FullPodMeta(Identity, rename="camel", gc=False):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] = msgspec.field(default_factory=list)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the pod, if any."""
        return next((it for it in self.owner_references if it.controller), None)


class _RawPod(msgspec.Struct, gc=False):
    metadata: _FullPodMeta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _TemplateRef(msgspec.Struct, rename="camel", gc=False):
    workload_name: str = ""
    template_name: str = ""


class _GroupSpec(msgspec.Struct, rename="camel", gc=False):
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: dict[str, Any] = {}
    workload_ref: _TemplateRef | None = None
    resource_claims: tuple[ClaimEntry, ...] = ()
    expected_pods: list[Any] = []


class _WaitsFor(msgspec.Struct, gc=False):
    name: str = ""


class _Blocker(msgspec.Struct, rename="camel", gc=False):
    summary: str = ""
    kind: str = ""
    waits_for: _WaitsFor | None = None


class _GroupStatus(msgspec.Struct, rename="camel", gc=False):
    conditions: list[Condition] = []
    blocker: _Blocker | None = None
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()


class _RawGroup(_RawObject, gc=False):
    status: _GroupStatus | None = None


class _ControllerRef(msgspec.Struct, rename="camel", gc=False):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class _WorkloadSpec(msgspec.Struct, rename="camel", gc=False):
    controller_ref: _ControllerRef | None = None


class _OwnerStatus(msgspec.Struct, rename="camel", gc=False):
    succeeded: int | None = None
    failed_indexes: str | None = None
    restarts: int | None = None
    conditions: list[Condition] = []


class _TemplateSpec(msgspec.Struct, rename="camel", gc=False):
    scheduling_group: _SchedulingGroup | None = None


class _PodTemplate(msgspec.Struct, gc=False):
    spec: _TemplateSpec | None = None


class _OwnerSpec(msgspec.Struct, gc=False):
    suspend: bool | None = None
    completions: int | None = None
    template: _PodTemplate | None = None


class _RawStatusObject(_RawObject, gc=False):
    """The same with a status that is decoded later, or never."""

    status: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class _LwsStatus(msgspec.Struct, gc=False):
    replicas: int | None = None


class _RawLws(_RawObject, gc=False):
    status: _LwsStatus = msgspec.field(default_factory=_LwsStatus)


class _RawOwner(_RawObject, gc=False):
    status: _OwnerStatus = msgspec.field(default_factory=_OwnerStatus)


decode_named = Decoder(NamedObject)
_pod = Decoder(_RawPod)
_group = Decoder(_RawGroup)
_group_spec = Decoder(_GroupSpec)
_workload = Decoder(_RawObject)
_workload_spec = Decoder(_WorkloadSpec)
_owner = Decoder(_RawOwner)
_with_status = Decoder(_RawStatusObject)
_lws = Decoder(_RawLws)
_owner_spec = Decoder(_OwnerSpec)


def _replica_size(labels: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    """Return the size that a worker of a LeaderWorkerSet reports, 0 for any other pod."""
    # A leader does not count. LeaderWorkerSet v0.7.0 creates it from the earlier revision, and its
    # workers in the number of the current one.
    size = annotations.get(LWS_ANNOTATION_SIZE, "")
    is_worker = labels.get(LWS_LABEL_WORKER_INDEX, "0") != "0"
    return int(size) if is_worker and _NUMBER.fullmatch(size) else 0


def _job_of(controller: OwnerReference | None) -> str:
    return controller.uid if controller is not None and controller.kind == JOB.kind else ""


def decode_pod(data: bytes, schedulers: SchedulerNames = USUAL, *, native: bool = False) -> Pod:
    """Decode a pod; `schedulers` are Muster's scheduler names. Raises msgspec.DecodeError.

    Where Kubernetes' `native` groups are served, a pod may be in one of these.
    """
    raw = _pod(data)
    meta, spec = raw.metadata, raw.spec
    labels, annotations = meta.labels, meta.annotations
    ours, ref = spec.scheduler_name in schedulers, spec.workload_ref
    workload = None
    # The reference in the spec counts for Muster's own pods only. For other pods their scheduler
    # handles it.
    if ours and ref is not None:
        workload = WorkloadForm(ref.name, ref.pod_group, ref.pod_group_replica_key)
    references = groups_of_pod(
        labels,
        ours=ours,
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        workload=workload,
        managed=annotations.get(ANNOTATION_MANAGED_GROUP, ""),
        group_by=annotations.get(ANNOTATION_GROUP_BY, ""),
        native=native,
    )
    named = list(references)
    names = tuple(dict.fromkeys(reference.name for reference in named))
    if named and named[0].form is Form.NATIVE:
        # Nothing else about it matters: Kubernetes defines which pods are in such a group.
        named, names = [], (member_name(named[0].name, native=True),)
    pod = Pod(
        metadata=Identity(meta.name, meta.namespace, meta.uid, meta.resource_version),
        groups=names,
        active=raw.status.phase not in _FINISHED_PHASES,
        bound=bool(spec.node_name),
        counts=meta.deletion_timestamp is None and raw.status.phase != "Failed",
        job=_job_of(meta.controller),
    )
    # A pod with a gate, a node or a nominated node does not wait for new capacity.
    taken = pod.bound or spec.scheduling_gates or raw.status.nominated_node_name
    pod.waits = pod.active and pod.counts and not taken
    pod.consumes = annotations.get(ANNOTATION_CONSUMES_REQUEST, "") if named else ""
    # The shape requires a second, full decode. Only pods that wait for a request pay for it.
    if pod.waits and pod.consumes:
        pod.shape = shape_of(msgspec.json.decode(data))
    if named:
        pod.replica_size = _replica_size(labels, annotations)
        pod.claims = claims_of(
            named[0],
            labels,
            annotations,
            certain=pod.bound,
            workload=workload_form(labels, workload),
            controller=meta.controller,
        )
    # A finished pod no longer states what its group should be.
    if ours and named and pod.active:
        priority = (spec.priority_class_name, spec.preemption_policy)
        pod.ask = ask_of(named[0], annotations, *priority)
        pod.controller = meta.controller if pod.ask is not None else None
    if ours and named and named[0].form is Form.WORKLOAD:
        pod.implicit = workload_form(labels, workload)
    elif named and named[0].form is Form.COSCHEDULING:
        pod.coscheduling = (labels[LABEL_COSCHEDULING], labels.get(LABEL_SUBSET, ""))
        pod.priority_class = spec.priority_class_name
        pod.state = _pod_state(raw.status)
    return pod


def decode_group(data: bytes) -> Group:
    """Decode a PodGroup or CompositePodGroup. Raises msgspec.DecodeError."""
    raw = _group(data)
    spec, status = _group_spec(raw.spec), raw.status or _GroupStatus()
    reference, from_pods = spec.workload_ref, is_from_pods(raw.metadata, raw.metadata.name)
    condition = next((it for it in status.conditions if it.type in _SCHEDULED_TYPES), None)
    # The raw spec is kept in two cases only: a template has yet to provide the policy, or the group
    # is compared with the annotations of its pods.
    return Group(
        metadata=raw.metadata,
        parent=spec.parent_composite_pod_group_name or "",
        policy=spec.scheduling_policy,
        template=(reference.workload_name, reference.template_name) if reference else None,
        scheduled=condition is not None and condition.status == "True",
        condition=msgspec.to_builtins(condition) if condition else None,
        waiting=status.blocker.summary if status.blocker else "",
        spec=b"" if spec.scheduling_policy and not from_pods else bytes(raw.spec),
        blocked_by=status.blocker.kind if status.blocker else "",
        waits_for=_waits_for(status.blocker),
        claims=spec.resource_claims,
        claim_statuses=status.resource_claim_statuses,
        has_status=raw.status is not None,
        expected=spec.expected_pods,
    )


def decode_native_group(data: bytes) -> Group:
    """Decode a PodGroup of Kubernetes' own. Raises msgspec.DecodeError."""
    group = decode_group(data)
    group.native = True
    # Its status has no blocker. The message of the condition is what it waits for.
    waits = group.condition is not None and group.condition.get("status") == "False"
    group.waiting = group.condition["message"] if group.condition and waits else ""
    return group


def _waits_for(blocker: _Blocker | None) -> str:
    waits_for = blocker.waits_for if blocker else None
    return waits_for.name if waits_for else ""


def decode_workload(data: bytes) -> Workload:
    """Decode a Workload. Raises msgspec.DecodeError."""
    raw = _workload(data)
    ref = _workload_spec(raw.spec).controller_ref
    reference = (ref.api_group, ref.kind, ref.name) if ref else None
    return Workload(raw.metadata, reference, bytes(raw.spec))


def decode_coscheduling(resource: Resource, data: bytes) -> Owner:
    """Decode a PodGroup of KEP-3370 or of scheduler-plugins. Raises msgspec.DecodeError."""
    raw = _with_status(data)
    return Owner(resource, raw.metadata, bytes(raw.spec), status=bytes(raw.status))


def decode_job(data: bytes) -> Owner:
    """Decode a Job; keep its spec if admission named a group for it that no JobSet creates."""
    raw = _owner(data)
    meta = raw.metadata
    managed = ANNOTATION_MANAGED_GROUP in meta.annotations
    # The JobSet controller creates the group of these Jobs, so their specs are never read here.
    by_jobset = JOBSET_LABEL_NAME in meta.labels and ANNOTATION_GROUP_SCOPE in meta.annotations
    return _as_owner(JOBS, raw, managed and not by_jobset)


def decode_jobset(data: bytes) -> Owner:
    """Decode a JobSet; keep its spec if admission annotated one of its Job templates."""
    raw = _owner(data)
    return _as_owner(JOBSETS, raw, _SCOPE_MARK in bytes(raw.spec))


def decode_lws(data: bytes) -> Owner:
    """Decode a LeaderWorkerSet; keep its spec if its pod templates name groups.

    Of the status it keeps only `replicas`. Raises msgspec.DecodeError.
    """
    raw = _lws(data)
    # A set from before the webhook has the annotation, but its templates name no group. Its pods
    # would never join one.
    marked = ANNOTATION_GANG_MODE in raw.metadata.annotations and _GROUP_MARK in bytes(raw.spec)
    return Owner(
        resource=LEADER_WORKER_SETS,
        metadata=raw.metadata,
        spec=bytes(raw.spec) if marked else b"",
        status=msgspec.json.encode(raw.status) if marked else b"",
    )


def decode_single_group(kind: SingleGroupKind, data: bytes) -> Owner:
    """Decode an owner whose pods are in one group. Raises msgspec.DecodeError.

    An owner that never had a group keeps only its name.
    """
    raw, resource = _with_status(data), kind.kind
    # Few of the Deployments and StatefulSets of a cluster ask for a group. The others would fill
    # the memory with specs that nothing reads.
    if ANNOTATION_MANAGED_GROUP not in raw.metadata.annotations:
        return Owner(resource, _only_name(raw.metadata), b"")
    spec, status = (mapping(msgspec.json.decode(it)) for it in (raw.spec, raw.status))
    return Owner(
        resource=resource,
        metadata=raw.metadata,
        spec=bytes(raw.spec),
        suspended=kind.is_suspended(spec),
        finished=kind.is_finished(status),
        rollout=kind.rollout(status),
    )


def _only_name(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
    )


def _pod_state(status: _PodStatus) -> str:
    """Return `Running`, the reason why the pod is not scheduled, or an empty string."""
    if status.phase == "Running":
        return status.phase
    found = (it for it in status.conditions if it.type == CONDITION_POD_SCHEDULED)
    return next((it.reason for it in found if it.status == "False"), "")


def _as_owner(resource: Resource, raw: _RawOwner, has_group: bool) -> Owner:
    status, spec = raw.status, _owner_spec(raw.spec)
    ended = {it.type for it in status.conditions if it.status == "True"}
    # The label of a Job states the restart that created it. A JobSet counts restarts in its status.
    attempt = raw.metadata.labels.get(JOBSET_LABEL_RESTART, "") if resource == JOBS else ""
    return Owner(
        resource=resource,
        metadata=raw.metadata,
        spec=bytes(raw.spec) if has_group else b"",
        suspended=bool(spec.suspend),
        finished=not ended.isdisjoint(_FINISHED_TYPES),
        progress=Progress(
            succeeded=status.succeeded or 0,
            given_up=count_indexes(status.failed_indexes or "", spec.completions or 0),
            complete="Complete" in ended,
        ),
        restarts=int(attempt) if _NUMBER.fullmatch(attempt) else status.restarts or 0,
        native=_is_native(raw.metadata, spec.template),
    )


def _is_native(meta: ObjectMeta, template: _PodTemplate | None) -> bool:
    """Return True if the field of a Job's pod template names the group that admission named."""
    group = template.spec.scheduling_group if template and template.spec else None
    managed = meta.annotations.get(ANNOTATION_MANAGED_GROUP)
    return group is not None and group.pod_group_name == managed
