"""From a pod's spec to what the decision core asks: requests, selectors, and what is undecided.

Requests follow kube-scheduler: the larger of all containers together (sidecars included) and of
the hungriest init container beside the sidecars started before it, or the pod-level requests where
given, plus overhead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kube.quantity import parse_milli, parse_value
from scheduler.core.values import Expression, Requirements, Term, Toleration
from scheduler.objects import Container, NodeSelectorTerm, PodSpec

# What each kind of volume needs of a node is decided elsewhere, except where it needs nothing.
_VOLUMES_ANYWHERE = frozenset(
    {"configMap", "secret", "emptyDir", "downwardAPI", "projected", "hostPath", "csi", "nfs",
     "image", "iscsi", "fc", "glusterfs", "cephfs", "rbd"}
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
        _add(running, amounts(container.resources.requests))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers:
        wants = amounts(container.resources.requests)
        if container.restart_policy == "Always":
            _add(sidecars, wants)
            _raise(starting, sidecars)
        else:
            _add(wants, sidecars)
            _raise(starting, wants)
    _add(running, sidecars)
    _raise(running, starting)
    if spec.resources is not None:
        running.update(amounts(spec.resources.requests))
    _add(running, amounts(spec.overhead))
    return tuple(sorted((name, total) for name, total in running.items() if total > 0))


def requests_only(spec: PodSpec) -> Requirements:
    """For a pod that runs and is not ours to place."""
    return Requirements(pod_requests(spec))


def requirements_of(spec: PodSpec) -> Requirements:
    """For a pod that is ours to place."""
    return Requirements(
        requests=pod_requests(spec),
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=_affinity(spec),
        tolerations=tuple(
            Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations
        ),
        undecided=tuple(_undecided(spec)),
    )


def _affinity(spec: PodSpec) -> tuple[Term, ...] | None:
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    if required is None:
        return None
    return tuple(_term(term) for term in required.node_selector_terms)


def _term(term: NodeSelectorTerm) -> Term:
    return Term(
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_expressions),
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_fields),
    )


def _undecided(spec: PodSpec) -> Iterable[str]:
    """Features that could make a decision wrong, in the words of the pod's spec."""
    affinity = spec.affinity
    if affinity and affinity.pod_affinity and affinity.pod_affinity.required:
        yield "required podAffinity"
    if affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required:
        yield "required podAntiAffinity"
    if any(s.when_unsatisfiable == "DoNotSchedule" for s in spec.topology_spread_constraints):
        yield "topologySpreadConstraints with DoNotSchedule"
    if any(_uses_host_ports(c) for c in (*spec.containers, *spec.init_containers)):
        yield "hostPort"
    if spec.resource_claims:
        yield "resourceClaims"
    if any(_needs_a_place(volume) for volume in spec.volumes):
        yield "persistent volumes"


def _uses_host_ports(container: Container) -> bool:
    return any(port.host_port for port in container.ports)


def _needs_a_place(volume: Mapping[str, Any]) -> bool:
    return not volume.keys() - {"name"} <= _VOLUMES_ANYWHERE


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise(total: Amounts, least: Mapping[str, int]) -> None:
    for name, quantity in least.items():
        total[name] = max(total.get(name, 0), quantity)
