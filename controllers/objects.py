"""What the controllers keep of each watched object: a few fields, decoded straight from bytes."""

from typing import Any

import msgspec

from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_MANAGED_GROUP,
    COMPOSITE_POD_GROUP,
    JOB,
    JOBSET,
    JOBSET_LABEL_NAME,
    POD_GROUP,
    WORKLOAD,
)
from api.groups import WorkloadForm, groups_of_pod
from kube.meta import Json, ObjectMeta
from kube.resources import Resource

WORKLOADS = Resource(*WORKLOAD)
POD_GROUPS = Resource(*POD_GROUP)
COMPOSITES = Resource(*COMPOSITE_POD_GROUP)
OWNERS = {JOB.kind: Resource(*JOB), JOBSET.kind: Resource(*JOBSET)}

_FINISHED_TYPES = frozenset({"Complete", "Completed", "Failed"})
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
_MARK = ANNOTATION_GROUP_SCOPE.encode()


class PodMeta(msgspec.Struct, rename="camel", gc=False):
    """The identity of a pod; its labels are read once, for its group, and not kept."""

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""


class Pod(msgspec.Struct, gc=False):
    """A pod: the groups it names, and whether it is not Succeeded or Failed yet."""

    metadata: PodMeta
    groups: tuple[str, ...] = ()
    active: bool = True


class Group(msgspec.Struct, gc=False):
    """A PodGroup or CompositePodGroup: its parent and its policy."""

    metadata: ObjectMeta
    parent: str
    policy: Json


class Owner(msgspec.Struct, gc=False):
    """A Job or JobSet. `spec` is its raw JSON, kept only where it has a group of ours."""

    kind: str
    metadata: ObjectMeta
    spec: bytes
    suspended: bool
    finished: bool
    succeeded: int

    def as_object(self) -> Json:
        """The object as the API's formulas read it."""
        meta = self.metadata
        return {
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "labels": meta.labels,
                "annotations": meta.annotations,
            },
            "spec": msgspec.json.decode(self.spec),
        }


class _SchedulingGroup(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str = ""


class _PodWorkload(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    scheduling_group: _SchedulingGroup | None = None
    workload_ref: _PodWorkload | None = None


class _PodStatus(msgspec.Struct, gc=False):
    phase: str = ""


class _LabelledMeta(PodMeta, rename="camel", gc=False):
    labels: dict[str, str] | None = None


class _WirePod(msgspec.Struct, gc=False):
    metadata: _LabelledMeta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _GroupSpec(msgspec.Struct, rename="camel", gc=False):
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: dict[str, Any] | None = None


class _WireGroup(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _OwnerStatus(msgspec.Struct, gc=False):
    succeeded: int | None = None
    conditions: list[_Condition] | None = None


class _Suspension(msgspec.Struct, gc=False):
    suspend: bool | None = None


class _WireOwner(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: msgspec.Raw
    status: _OwnerStatus = msgspec.field(default_factory=_OwnerStatus)


_pod = msgspec.json.Decoder(_WirePod)
_group = msgspec.json.Decoder(_WireGroup)
_owner = msgspec.json.Decoder(_WireOwner)
_suspension = msgspec.json.Decoder(_Suspension)


def decode_pod(data: bytes) -> Pod:
    """A pod. Raises msgspec.DecodeError."""
    wire = _pod.decode(data)
    meta, spec = wire.metadata, wire.spec
    group = spec.scheduling_group.pod_group_name if spec.scheduling_group else ""
    workload = None
    if spec.workload_ref is not None:
        said = spec.workload_ref
        workload = WorkloadForm(said.name, said.pod_group, said.pod_group_replica_key)
    named = groups_of_pod(meta.labels or {}, scheduling_group=group, workload=workload)
    return Pod(
        metadata=PodMeta(meta.name, meta.namespace, meta.uid, meta.resource_version),
        groups=tuple(dict.fromkeys(reference.name for reference in named)),
        active=wire.status.phase not in _FINISHED_PHASES,
    )


def decode_group(data: bytes) -> Group:
    """A PodGroup or CompositePodGroup. Raises msgspec.DecodeError."""
    wire = _group.decode(data)
    return Group(
        metadata=wire.metadata,
        parent=wire.spec.parent_composite_pod_group_name or "",
        policy=wire.spec.scheduling_policy or {},
    )


def decode_job(data: bytes) -> Owner:
    """A Job; its spec is kept if admission named a group for it that no JobSet makes."""
    wire = _owner.decode(data)
    meta = wire.metadata
    managed = ANNOTATION_MANAGED_GROUP in meta.annotations
    return _as_owner(JOB.kind, wire, managed and JOBSET_LABEL_NAME not in meta.labels)


def decode_jobset(data: bytes) -> Owner:
    """A JobSet; its spec is kept if one of its Job templates is marked."""
    wire = _owner.decode(data)
    return _as_owner(JOBSET.kind, wire, _MARK in bytes(wire.spec))


def _as_owner(kind: str, wire: _WireOwner, has_group: bool) -> Owner:
    conditions = wire.status.conditions or []
    return Owner(
        kind=kind,
        metadata=wire.metadata,
        spec=bytes(wire.spec) if has_group else b"",
        suspended=bool(_suspension.decode(wire.spec).suspend),
        finished=any(it.type in _FINISHED_TYPES and it.status == "True" for it in conditions),
        succeeded=wire.status.succeeded or 0,
    )
