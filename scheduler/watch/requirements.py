"""From a pod to its requirements: requests, selectors, ports, affinity, spread, claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from scheduler.core.model import ClaimKey, GroupTerm, HostPort, Requirements, Term, Toleration
from scheduler.watch import inline_volumes, limits, pod_terms
from scheduler.watch.objects import ClaimSource, Pod, PodSpec
from scheduler.watch.requests import pod_requests
from scheduler.watch.selectors import node_selector_term


def requirements_of_others(pod: Pod) -> Requirements:
    """For pods of other schedulers: only what matters to pods that are placed beside them."""
    return _of_others(pod, _uses(pod))


def _of_others(pod: Pod, uses: Requirements) -> Requirements:
    considered = not limits.excess_about_pods(pod.spec)
    return Requirements(
        requests=uses.requests,
        ports=uses.ports,
        claims=uses.claims,
        required_anti_affinity=pod_terms.required_anti_affinity(pod) if considered else (),
        preferred_affinity=pod_terms.preferred_affinity(pod) if considered else (),
        disks=uses.disks[: limits.DISKS],
        attachments=uses.attachments[: limits.DISKS],
    )


def _uses(pod: Pod) -> Requirements:
    """What the pod uses of its node."""
    spec = pod.spec
    return Requirements(
        requests=pod_requests(pod),
        ports=_host_ports(spec),
        claims=_claims(pod),
        disks=inline_volumes.disks(spec.volumes),
        attachments=inline_volumes.attachments(spec.volumes),
    )


def requirements_of(pod: Pod) -> tuple[Requirements, tuple[GroupTerm, ...]]:
    """For pods that this scheduler places; the affinity to its own group apart from the rest."""
    spec, uses = pod.spec, _uses(pod)
    excess = limits.excess(spec, uses)
    if excess:
        return replace(_of_others(pod, uses), excess=excess), ()
    required_affinity, to_group = pod_terms.required_affinity(pod)
    # Every event of a pod comes here, and `replace` takes longer.
    wants = Requirements(
        requests=uses.requests,
        ports=uses.ports,
        claims=uses.claims,
        disks=uses.disks,
        attachments=uses.attachments,
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=_affinity(spec),
        tolerations=tuple(
            Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations
        ),
        unsupported=tuple(_unsupported(spec)),
        required_affinity=required_affinity,
        required_anti_affinity=pod_terms.required_anti_affinity(pod),
        spread=pod_terms.spread(pod),
        preferred_node_affinity=_preferred_node_affinity(spec),
        preferred_affinity=pod_terms.preferred_affinity(pod),
        preferred_spread=pod_terms.preferred_spread(pod),
    )
    return wants, to_group


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
    kinds = {kind for volume in spec.volumes for kind in inline_volumes.unknown(volume)}
    if kinds:
        yield f"volumes of an unknown kind ({min(kinds)})"


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Host ports of containers and sidecars; other init containers have ended by then."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    # There may be tens of thousands: made into values last, once they are sorted.
    ports = {
        (port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(HostPort(*port) for port in sorted(ports))


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
