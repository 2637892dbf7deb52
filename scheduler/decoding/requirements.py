"""Requirements of a pod: requests, selectors, ports, affinity, spread, claims."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from scheduler.core.values.model import (
    NEWEST_RELEASE,
    GroupTerm,
    NodeTerm,
    Release,
    Requirements,
    Toleration,
)
from scheduler.decoding import limits, pod_terms
from scheduler.decoding.label_selectors import node_selector_term
from scheduler.decoding.node_uses import NO_VOLUMES, NodeUses, node_uses
from scheduler.decoding.objects import Pod, PodSpec, TolerationSpec

_RESTART_ALL: Final = "RestartAllContainers"


def requirements_of_others(pod: Pod, release: Release = NEWEST_RELEASE) -> Requirements:
    """Return the requirements of another scheduler's pod, as far as they affect pods next to it."""
    return _of_others(pod, node_uses(pod, release))


def _of_others(pod: Pod, uses: NodeUses, excess: str = "") -> Requirements:
    if not excess and _is_plain(pod.spec, uses):
        return _plain(uses.requests, uses.assumed, (), ())
    # Terms of running pods affect every later decision: the limit is for others, too.
    considered = not limits.excess_about_pods(pod.spec)
    volumes = uses.volumes
    return Requirements(
        requests=uses.requests,
        ports=uses.ports,
        claims=volumes.claims,
        required_anti_affinity=pod_terms.required_anti_affinity(pod) if considered else (),
        preferred_affinity=pod_terms.preferred_affinity(pod) if considered else (),
        excess=excess,
        disks=volumes.disks[: limits.DISKS],
        attachments=volumes.attachments[: limits.DISKS],
        assumed=uses.assumed,
    )


def requirements_of(
    pod: Pod, release: Release = NEWEST_RELEASE
) -> tuple[Requirements, tuple[GroupTerm, ...]]:
    """Return the requirements of a pod of this scheduler, and the affinity to its own group."""
    spec, uses = pod.spec, node_uses(pod, release)
    excess = limits.excess(spec, uses)
    if excess:
        # The pod is unschedulable, but if it runs nevertheless, its node is in use.
        return _of_others(pod, uses, excess), ()
    # Sorted, so that equal selectors compare equal.
    selector = tuple(sorted(spec.node_selector.items()))
    declared_features = _declared_features(spec)
    if _is_plain(spec, uses) and not declared_features:
        return _plain(uses.requests, uses.assumed, selector, spec.tolerations), ()
    required_affinity, to_group = pod_terms.required_affinity(pod)
    volumes = uses.volumes
    wants = Requirements(
        requests=uses.requests,
        ports=uses.ports,
        claims=volumes.claims,
        disks=volumes.disks,
        attachments=volumes.attachments,
        selector=selector,
        affinity=_affinity(spec),
        tolerations=_tolerations(spec.tolerations),
        unsupported=tuple(_unsupported(volumes.unknown)),
        required_affinity=required_affinity,
        required_anti_affinity=pod_terms.required_anti_affinity(pod),
        spread=pod_terms.spread(pod),
        preferred_node_affinity=_preferred_node_affinity(spec),
        preferred_affinity=pod_terms.preferred_affinity(pod),
        preferred_spread=pod_terms.preferred_spread(pod),
        declared_features=declared_features,
        assumed=uses.assumed,
    )
    return wants, to_group


def _declared_features(spec: PodSpec) -> tuple[str, ...]:
    """Return the features that the pod's node must declare, as kube-scheduler infers them."""
    found = []
    containers = (*spec.containers, *spec.init_containers)
    rules = (rule for container in containers for rule in container.restart_policy_rules)
    if any(rule.action == _RESTART_ALL for rule in rules):
        found.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        found.append("UserNamespacesHostNetworkSupport")
    return tuple(found)


def _is_plain(spec: PodSpec, uses: NodeUses) -> bool:
    """True if the pod uses no rare features, and its requests are short enough to cache."""
    return len(uses.requests) <= limits.RESOURCES and not (
        spec.affinity
        or spec.topology_spread_constraints
        or uses.ports
        or uses.volumes is not NO_VOLUMES
    )


# Values that are large or rare are not cached, so a tenant cannot fill the memory with them.
@lru_cache(maxsize=256)
def _plain(
    requests: tuple[tuple[str, int], ...],
    assumed: tuple[int, int],
    selector: tuple[tuple[str, str], ...],
    tolerations: tuple[TolerationSpec, ...],
) -> Requirements:
    """Return one value for all pods of a template: created once, and cheap to compare."""
    return Requirements(
        requests=requests,
        selector=selector,
        tolerations=_tolerations(tolerations),
        assumed=assumed,
    )


def _tolerations(specs: Iterable[TolerationSpec]) -> tuple[Toleration, ...]:
    return tuple(Toleration(t.key, t.operator, t.value, t.effect) for t in specs)


def _affinity(spec: PodSpec) -> tuple[NodeTerm, ...] | None:
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    if required is None:
        return None
    return tuple(node_selector_term(term) for term in required.node_selector_terms)


def _preferred_node_affinity(spec: PodSpec) -> tuple[tuple[int, NodeTerm], ...]:
    node = spec.affinity.node_affinity if spec.affinity else None
    if node is None:
        return ()
    preferred = node.preferred_during_scheduling_ignored_during_execution
    return tuple((term.weight, node_selector_term(term.preference)) for term in preferred)


def _unsupported(unknown_volume: str) -> Iterable[str]:
    """Yield the features that this scheduler does not support, by their names in the pod's spec."""
    if unknown_volume:
        yield f"volumes of an unknown kind ({unknown_volume})"
