"""Usage of a node by a pod: requests, host ports, and the volumes it names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from kube.client.decoding import Decoder, without_nulls
from scheduler.core.values.model import (
    NEWEST_RELEASE,
    Attachment,
    ClaimKey,
    Disk,
    HostPort,
    Release,
)
from scheduler.decoding import inline_volumes
from scheduler.decoding.inline_volumes import Volume
from scheduler.decoding.objects import ClaimSource, Metadata, Pod, PodSpec
from scheduler.decoding.requests import assumed_requests, pod_requests


class PodVolumes(NamedTuple):
    """The volumes of a pod. `unknown` is a kind that a later Kubernetes added, if any."""

    claims: tuple[ClaimKey, ...] = ()
    disks: tuple[Disk, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    unknown: str = ""


NO_VOLUMES: Final = PodVolumes()

_claim_source: Final = Decoder(ClaimSource)


class NodeUses(NamedTuple):
    """Requests, ports, volumes and assumed requests, as `Requirements` has them."""

    requests: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]
    volumes: PodVolumes
    assumed: tuple[int, int] = (0, 0)


def node_uses(pod: Pod, release: Release = NEWEST_RELEASE) -> NodeUses:
    """Return the usage of a pod. Raises kube.client.quantity.QuantityError for an invalid one."""
    spec = pod.spec
    return NodeUses(
        pod_requests(pod, release), _host_ports(spec), _volumes(pod), assumed_requests(spec)
    )


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars."""
    # Other init containers have ended when the pod's containers use their ports.
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    # A pod may have tens of thousands. Tuples sort much faster than the values created from them.
    ports = {
        # As upstream: without an address, the port is taken on all of them.
        (port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(HostPort(*port) for port in sorted(ports)) if ports else ()


def _volumes(pod: Pod) -> PodVolumes:
    kinds: set[str] = set().union(*pod.spec.volumes)
    # Nearly all pods have only these kinds, such as the volume of a service account's token.
    if kinds <= inline_volumes.NOT_FILTERED:
        return NO_VOLUMES
    # A kind that is null counts as absent, as it does in Go.
    volumes = [without_nulls(volume) for volume in pod.spec.volumes]
    kinds = set().union(*volumes)
    return PodVolumes(
        tuple(_claims(pod.metadata, volumes)),
        inline_volumes.disks(volumes),
        inline_volumes.attachments(volumes),
        min(kinds - inline_volumes.KNOWN, default=""),
    )


def _claims(pod: Metadata, volumes: Iterable[Volume]) -> list[ClaimKey]:
    """Return the pod's claims: by name, and those of its generic ephemeral volumes."""
    names: set[str] = set()
    for volume in volumes:
        if "persistentVolumeClaim" in volume:
            names.add(_claim_source(volume["persistentVolumeClaim"]).claim_name)
        elif "ephemeral" in volume:
            # A volume without a name counts as one with an empty name, as in Go.
            name = msgspec.json.decode(volume.get("name", b'""'), type=str)
            # The name that kube-controller-manager gives the claim.
            names.add(f"{pod.name}-{name}")
    return [(pod.namespace, name) for name in sorted(names)]
