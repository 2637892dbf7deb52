"""From a pod's spec to its requirements: requests, selectors, ports, affinity, spread, claims.

Requests follow kube-scheduler: the sum of all containers and sidecars, or the largest init
container with the sidecars started before it if that is more; or pod-level requests; plus overhead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube.quantity import parse_milli, parse_value
from scheduler.core.model import ClaimKey, HostPort, Requirements, Term, Toleration
from scheduler.watch import pod_terms
from scheduler.watch.objects import ClaimSource, Container, Pod, PodSpec
from scheduler.watch.selectors import node_selector_term

# Other in-tree volumes belong to removed cloud providers, or VolumeRestrictions applies to them.
_KNOWN_VOLUMES = frozenset(
    {"configMap", "secret", "emptyDir", "downwardAPI", "projected", "hostPath", "csi", "nfs",
     "image", "fc", "glusterfs", "cephfs", "persistentVolumeClaim", "ephemeral"}
)  # fmt: skip

Amounts = dict[str, int]


def amount(resource: str, quantity: str | int) -> int:
    """A quantity in the unit of the decision core: milli for cpu, whole units otherwise.

    Raises kube.quantity.QuantityError.
    """
    return parse_milli(quantity) if resource == "cpu" else parse_value(quantity)


def amounts(quantities: Mapping[str, str | int]) -> Amounts:
    """A resource list in the core's units."""
    return {resource: amount(resource, q) for resource, q in quantities.items()}


def pod_requests(spec: PodSpec) -> tuple[tuple[str, int], ...]:
    """The requests of the pod, sorted by resource, without zeros."""
    running: Amounts = {}
    for container in spec.containers:
        for name, quantity in container.resources.requests.items():
            running[name] = running.get(name, 0) + amount(name, quantity)
    if spec.init_containers:
        _add_init_containers(running, spec.init_containers)
    if spec.resources is not None:
        running.update(amounts(spec.resources.requests))
    if spec.overhead:
        _add(running, amounts(spec.overhead))
    return tuple(sorted([item for item in running.items() if item[1] > 0]))


def _add_init_containers(running: Amounts, init_containers: Iterable[Container]) -> None:
    """Add the sidecars, and raise to what the init containers need."""
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in init_containers:
        requests = amounts(container.resources.requests)
        if container.restart_policy == "Always":
            _add(sidecars, requests)
            _raise(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise(starting, requests)
    _add(running, sidecars)
    _raise(running, starting)


def requirements_of_others(pod: Pod) -> Requirements:
    """For pods of other schedulers: only what matters to pods that are placed beside them."""
    return Requirements(
        requests=pod_requests(pod.spec),
        ports=_host_ports(pod.spec),
        required_anti_affinity=pod_terms.required_anti_affinity(pod),
        claims=_claims(pod),
        preferred_affinity=pod_terms.preferred_affinity(pod),
    )


def requirements_of(pod: Pod) -> Requirements:
    """For pods that this scheduler places."""
    spec = pod.spec
    return Requirements(
        requests=pod_requests(spec),
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=_affinity(spec),
        tolerations=tuple(
            Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations
        ),
        unsupported=tuple(_unsupported(spec)),
        ports=_host_ports(spec),
        required_affinity=pod_terms.required_affinity(pod),
        required_anti_affinity=pod_terms.required_anti_affinity(pod),
        spread=pod_terms.spread(pod),
        claims=_claims(pod),
        preferred_node_affinity=_preferred_node_affinity(spec),
        preferred_affinity=pod_terms.preferred_affinity(pod),
        preferred_spread=pod_terms.preferred_spread(pod),
    )


def _affinity(spec: PodSpec) -> tuple[Term, ...] | None:
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    if required is None:
        return None
    return tuple(node_selector_term(term) for term in required.node_selector_terms)


def _preferred_node_affinity(spec: PodSpec) -> tuple[tuple[int, Term], ...]:
    node = spec.affinity.node_affinity if spec.affinity else None
    preferred = node.preferred_during_scheduling_ignored_during_execution if node else ()
    return tuple((term.weight, node_selector_term(term.preference)) for term in preferred)


def _unsupported(spec: PodSpec) -> Iterable[str]:
    """Features that this scheduler does not support, by their names in the pod's spec."""
    if spec.resource_claims:
        yield "resourceClaims"
    if any(_unknown(volume) for volume in spec.volumes):
        yield "in-tree volumes of a removed or restricted plugin"


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Host ports of containers and sidecars; other init containers have ended by then."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    ports = {
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(ports, key=lambda p: (p.protocol, p.port, p.address)))


def _unknown(volume: Mapping[str, Any]) -> bool:
    return not volume.keys() - {"name"} <= _KNOWN_VOLUMES


def _claims(pod: Pod) -> tuple[ClaimKey, ...]:
    """The pod's claims: by name, and those of its generic ephemeral volumes."""
    names: set[str] = set()
    for volume in pod.spec.volumes:
        if "persistentVolumeClaim" in volume:
            source = msgspec.json.decode(volume["persistentVolumeClaim"], type=ClaimSource)
            names.add(source.claim_name)
        elif "ephemeral" in volume:
            name = msgspec.json.decode(volume["name"], type=str)
            names.add(f"{pod.metadata.name}-{name}")
    return tuple((pod.metadata.namespace, name) for name in sorted(names))


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise(total: Amounts, least: Mapping[str, int]) -> None:
    for name, quantity in least.items():
        total[name] = max(total.get(name, 0), quantity)
