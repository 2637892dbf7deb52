"""From a pod's spec to what the decision core asks: requests, selectors, ports, terms about others.

Requests follow kube-scheduler: the larger of all containers together (sidecars included) and of
the hungriest init container beside the sidecars started before it, or the pod-level requests where
given, plus overhead.
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

# All others are of clouds of old, or may not be used twice on a node by their own rules.
_KNOWN_VOLUMES = frozenset(
    {"configMap", "secret", "emptyDir", "downwardAPI", "projected", "hostPath", "csi", "nfs",
     "image", "fc", "glusterfs", "cephfs", "persistentVolumeClaim", "ephemeral"}
)  # fmt: skip

Amounts = dict[str, int]


def amount(resource: str, quantity: str | int) -> int:
    """A quantity in the core's unit: thousandths for cpu, whole units (bytes) otherwise.

    Raises kube.quantity.QuantityError.
    """
    return parse_milli(quantity) if resource == "cpu" else parse_value(quantity)


def amounts(quantities: Mapping[str, str | int]) -> Amounts:
    """A resource list in the core's units."""
    return {resource: amount(resource, q) for resource, q in quantities.items()}


def pod_requests(spec: PodSpec) -> tuple[tuple[str, int], ...]:
    """All that the pod takes from its node, sorted by resource, without zeros."""
    running: Amounts = {}
    for container in spec.containers:
        for name, quantity in container.resources.requests.items():
            running[name] = running.get(name, 0) + amount(name, quantity)
    if spec.init_containers:
        _start(running, spec.init_containers)
    if spec.resources is not None:
        running.update(amounts(spec.resources.requests))
    if spec.overhead:
        _add(running, amounts(spec.overhead))
    return tuple(sorted([item for item in running.items() if item[1] > 0]))


def _start(running: Amounts, init_containers: Iterable[Container]) -> None:
    """Add what sidecars take, and raise it to what starting takes."""
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in init_containers:
        wants = amounts(container.resources.requests)
        if container.restart_policy == "Always":
            _add(sidecars, wants)
            _raise(starting, sidecars)
        else:
            _add(wants, sidecars)
            _raise(starting, wants)
    _add(running, sidecars)
    _raise(running, starting)


def requirements_of_others(pod: Pod) -> Requirements:
    """For a pod that is not ours to place: what it takes, whom it keeps away or likes near."""
    return Requirements(
        requests=pod_requests(pod.spec),
        ports=_host_ports(pod.spec),
        required_anti_affinity=pod_terms.required_anti_affinity(pod),
        claims=_claims(pod),
        preferred_affinity=pod_terms.preferred_affinity(pod),
    )


def requirements_of(pod: Pod) -> Requirements:
    """For a pod that is ours to place."""
    spec = pod.spec
    return Requirements(
        requests=pod_requests(spec),
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=_affinity(spec),
        tolerations=tuple(
            Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations
        ),
        unsupported=tuple(_undecided(spec)),
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
    soft = node.preferred_during_scheduling_ignored_during_execution if node else ()
    return tuple((term.weight, node_selector_term(term.preference)) for term in soft)


def _undecided(spec: PodSpec) -> Iterable[str]:
    """Features that could make a decision wrong, in the words of the pod's spec."""
    if spec.resource_claims:
        yield "resourceClaims"
    if any(_unknown(volume) for volume in spec.volumes):
        yield "volumes of an old kind"


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Of all that run beside each other; init containers give theirs back in time."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    held = {
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(held, key=lambda p: (p.protocol, p.port, p.address)))


def _unknown(volume: Mapping[str, Any]) -> bool:
    return not volume.keys() - {"name"} <= _KNOWN_VOLUMES


def _claims(pod: Pod) -> tuple[ClaimKey, ...]:
    """Claims by name, and those made for the pod from a template of its own."""
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
