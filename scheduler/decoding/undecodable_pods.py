"""What is held of a pod that cannot be taken in as it is: its node must not count as free."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from kube.client.decoding import Decoder
from kube.client.quantity import QuantityError
from scheduler.core.values.model import NodeInfo, PodInfo, Requirements
from scheduler.decoding.objects import ResourceRequirements
from scheduler.decoding.requests import amount


class HeldMetadata(msgspec.Struct, rename="camel", gc=False):
    """The metadata in use."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None


class HeldSpec(msgspec.Struct, rename="camel", gc=False):
    """The node, and the containers, each of which may be unreadable."""

    node_name: str = ""
    containers: list[msgspec.Raw] = []


class HeldStatus(msgspec.Struct, gc=False):
    """The phase."""

    phase: str = ""


class HeldPod(msgspec.Struct, gc=False):
    """As little of a pod as its place depends on."""

    metadata: HeldMetadata
    spec: HeldSpec = msgspec.field(default_factory=HeldSpec)
    status: HeldStatus = msgspec.field(default_factory=HeldStatus)


class _HeldContainer(msgspec.Struct, gc=False):
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)


decode_held_pod: Final = Decoder(HeldPod)
"""Raises msgspec.DecodeError."""

_container: Final = Decoder(_HeldContainer)


def held_pod_info(pod: HeldPod, before: PodInfo | None, node: NodeInfo | None) -> PodInfo:
    """A bound pod as it was `before`; else one of no group that takes what can be read of it.

    Such a pod takes no more of its `node` than there is: more than that cannot run.
    """
    meta = pod.metadata
    if before is not None:
        info = before
    else:
        info = PodInfo(meta.uid, meta.namespace, meta.name, _requirements(pod, node), ours=False)
    return replace(
        info,
        node=pod.spec.node_name,
        phase=pod.status.phase or "Pending",
        terminating=meta.deletion_timestamp is not None,
    )


def _requirements(pod: HeldPod, node: NodeInfo | None) -> Requirements:
    """The containers' requests, those that are quantities and of which the node has some."""
    there = node.allocatable if node is not None else {}
    total: dict[str, int] = {}
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
