"""What a pod uses of its node: requests, host ports, and what its volumes name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from kube.client.decoding import Decoder, without_nulls
from scheduler.core.values.model import Attachment, ClaimKey, Disk, HostPort
from scheduler.decoding import inline_volumes
from scheduler.decoding.inline_volumes import Volume
from scheduler.decoding.objects import ClaimSource, Metadata, Pod, PodSpec
from scheduler.decoding.requests import pod_requests


class PodVolumes(NamedTuple):
    """`unknown` is a kind of one of them that came with a later Kubernetes."""

    claims: tuple[ClaimKey, ...] = ()
    disks: tuple[Disk, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    unknown: str = ""


NO_VOLUMES: Final = PodVolumes()

_claim_source: Final = Decoder(ClaimSource)


class NodeUses(NamedTuple):
    """As in `Requirements`."""

    requests: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]
    volumes: PodVolumes


def node_uses(pod: Pod) -> NodeUses:
    """Raises kube.client.quantity.QuantityError for a request that is no quantity."""
    return NodeUses(pod_requests(pod), _host_ports(pod.spec), _volumes(pod))


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Host ports of containers and sidecars; other init containers have ended by then."""
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    # There may be tens of thousands: made into values last, once they are sorted.
    ports = {
        (port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(HostPort(*port) for port in sorted(ports)) if ports else ()


def _volumes(pod: Pod) -> PodVolumes:
    kinds: set[str] = set().union(*pod.spec.volumes)
    if kinds <= inline_volumes.NOT_FILTERED:  # those of nearly all pods
        return NO_VOLUMES
    volumes = [without_nulls(volume) for volume in pod.spec.volumes]
    kinds = set().union(*volumes)
    return PodVolumes(
        tuple(_claims(pod.metadata, volumes)),
        inline_volumes.disks(volumes),
        inline_volumes.attachments(volumes),
        min(kinds - inline_volumes.KNOWN, default=""),
    )


def _claims(pod: Metadata, volumes: Iterable[Volume]) -> list[ClaimKey]:
    """The pod's claims: by name, and those of its generic ephemeral volumes."""
    names: set[str] = set()
    for volume in volumes:
        if "persistentVolumeClaim" in volume:
            names.add(_claim_source(volume["persistentVolumeClaim"]).claim_name)
        elif "ephemeral" in volume:
            name = msgspec.json.decode(volume.get("name", b'""'), type=str)
            names.add(f"{pod.name}-{name}")
    return [(pod.namespace, name) for name in sorted(names)]
