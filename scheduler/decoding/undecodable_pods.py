"""Pods that cannot be decoded: bound ones use their node, and waiting ones state why they wait."""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import Final

import msgspec

from kube.client.decoding import Decoder
from kube.client.quantity import QuantityError
from scheduler.core.values.model import NodeInfo, PodInfo, Requirements
from scheduler.decoding.objects import ConditionType, Metadata, ResourceRequirements
from scheduler.decoding.requests import amount


class HeldMetadata(msgspec.Struct, rename="camel", gc=False):
    """The metadata in use."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None


class HeldSpec(msgspec.Struct, rename="camel", gc=False):
    """The node, the scheduler, the gates, and containers, each of which may be undecodable."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[msgspec.Raw] = []
    containers: list[msgspec.Raw] = []


class HeldStatus(msgspec.Struct, gc=False):
    """The phase."""

    phase: str = ""


class HeldPod(msgspec.Struct, gc=False):
    """The fields of a pod that are needed to account for it on its node."""

    metadata: HeldMetadata
    spec: HeldSpec = msgspec.field(default_factory=HeldSpec)
    status: HeldStatus = msgspec.field(default_factory=HeldStatus)


class _HeldContainer(msgspec.Struct, gc=False):
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)


decode_held_pod: Final = Decoder(HeldPod)
"""Decoder of such pods. Raises msgspec.DecodeError."""

_container: Final = Decoder(_HeldContainer)

_UNKNOWN: Final = "a field that cannot be decoded, see the event Quarantined"


class _Status(msgspec.Struct, gc=False):
    conditions: list[ConditionType] = []


class RefusedPod(msgspec.Struct, gc=False):
    """The fields of a waiting pod that are needed to write its condition."""

    metadata: Metadata
    status: _Status = msgspec.field(default_factory=_Status)


decode_refused_pod: Final = Decoder(RefusedPod)
"""Decoder of such pods. Raises msgspec.DecodeError."""


def held_pod_info(pod: HeldPod, before: PodInfo | None, node: NodeInfo | None) -> PodInfo:
    """Return a bound pod as it was `before`, else a pod without a group and with readable requests.

    A pod that was not known takes no more of its `node` than there is, because more cannot run.
    """
    meta = pod.metadata
    if before is not None:
        # Its group counts it, and its terms about other pods remain in force.
        info = before
    else:
        info = PodInfo(meta.uid, meta.namespace, meta.name, _requirements(pod, node), ours=False)
    return replace(
        info,
        node=pod.spec.node_name,
        phase=pod.status.phase or "Pending",
        terminating=meta.deletion_timestamp is not None,
    )


def refused_pod_info(pod: HeldPod) -> PodInfo:
    """Return a waiting pod without a group that no node takes, because it cannot be decoded."""
    meta, scheduler = pod.metadata, intern(pod.spec.scheduler_name)
    terminating = meta.deletion_timestamp is not None
    return PodInfo(
        meta.uid,
        meta.namespace,
        meta.name,
        Requirements(unsupported=(_UNKNOWN,)),
        phase=pod.status.phase or "Pending",
        gated=bool(pod.spec.scheduling_gates),
        terminating=terminating,
        scheduler=scheduler,
    )


def _requirements(pod: HeldPod, node: NodeInfo | None) -> Requirements:
    """Return the containers' requests, if they are quantities and the node has the resource."""
    there = node.allocatable if node is not None else {}
    total: dict[str, int] = {}
    # Each separately: one that cannot be decoded must not hide the requests of others.
    for raw in pod.spec.containers:
        for resource, taken in _readable(raw).items():
            total[resource] = min(total.get(resource, 0) + taken, there.get(resource, 0))
    return Requirements(requests=tuple(sorted(item for item in total.items() if item[1] > 0)))


def _readable(container: msgspec.Raw) -> dict[str, int]:
    try:
        requests = _container(container).resources.requests
    except msgspec.DecodeError:
        return {}
    amounts: dict[str, int] = {}
    for resource, quantity in requests.items():
        try:
            amounts[resource] = amount(resource, quantity)
        except (QuantityError, ValueError):
            continue
    return amounts
