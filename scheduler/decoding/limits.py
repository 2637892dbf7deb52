"""Limits of what a pod may request, so that no pod costs much more than others to decide.

The limits are far above what is useful. A pod beyond one is unschedulable, and its message names
the limit. Of a pod with too many terms about other pods, no term counts, whichever scheduler places
it. Of too many disks, the first count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.decoding.node_uses import NodeUses
from scheduler.decoding.objects import Affinity, LabelSelector, PodAffinityTerm, PodSpec

NODE_SELECTOR_LABELS: Final = 64
"""Labels of a nodeSelector. A pod with more is unschedulable."""

NODE_AFFINITY_TERMS: Final = 64
"""Terms of node affinity. A pod with more is unschedulable."""

NODE_AFFINITY_EXPRESSIONS: Final = 256
"""Expressions in node affinity. A pod with more is unschedulable."""

NODE_AFFINITY_VALUES: Final = 4096
"""Values in node affinity. A pod with more is unschedulable."""

TOLERATIONS: Final = 128
"""Tolerations. A pod with more is unschedulable."""

POD_TERMS: Final = 64
"""Terms about other pods and spread constraints. A pod with more is unschedulable, and none of them
counts."""

POD_EXPRESSIONS: Final = 256
"""Expressions about other pods. A pod with more is unschedulable, and no term counts."""

POD_VALUES: Final = 1024
"""Label values about other pods. A pod with more is unschedulable, and no term counts."""

NAMESPACES: Final = 256
"""Namespaces in terms. A pod with more is unschedulable, and no term counts."""

RESOURCES: Final = 64
"""Resources that a pod requests. A pod with more is unschedulable."""

HOST_PORTS: Final = 1024
"""Host ports. A pod with more is unschedulable."""

CLAIMS: Final = 256
"""PersistentVolumeClaims. A pod with more is unschedulable."""

RESOURCE_CLAIMS: Final = 64
"""ResourceClaims. A pod with more is unschedulable."""

DISKS: Final = 256
"""Disks, an rbd image for each monitor. A pod with more is unschedulable; if it runs, the first
count."""

LABELS: Final = 128
"""Labels of a pod that selectors see. Of more, the first by name count."""

_Counted = tuple[str, int, int]
"""Name of the feature, the number found, and the number allowed."""


def labels(of_pod: dict[str, str]) -> dict[str, str]:
    """Return the labels of a pod that count: of too many, the first by name."""
    # By name, so that every process drops the same labels.
    return of_pod if len(of_pod) <= LABELS else dict(sorted(of_pod.items())[:LABELS])


def excess(spec: PodSpec, uses: NodeUses) -> str:
    """Return what the pod has too many of, the number and the limit; empty within all limits."""
    volumes = uses.volumes
    # One volume may be in both, so their sum would count it twice.
    disks = max(len(volumes.disks), len(volumes.attachments))
    return _beyond(
        (
            ("resources", len(uses.requests), RESOURCES),
            ("host ports", len(uses.ports), HOST_PORTS),
            ("volume claims", len(volumes.claims), CLAIMS),
            ("disks, counting an rbd image for each monitor", disks, DISKS),
            ("nodeSelector labels", len(spec.node_selector), NODE_SELECTOR_LABELS),
            ("tolerations", len(spec.tolerations), TOLERATIONS),
            *_about_nodes(spec.affinity),
        )
    ) or excess_about_pods(spec)


def excess_of_claims(count: int) -> str:
    """Return the excess of a pod with so many ResourceClaims; empty within the limit."""
    return _beyond((("resource claims", count, RESOURCE_CLAIMS),))


def excess_about_pods(spec: PodSpec) -> str:
    """Return the excess of the pod's terms about other pods; empty within the limits."""
    # Most pods have neither, and every event of a pod comes here.
    if spec.affinity is None and not spec.topology_spread_constraints:
        return ""
    return _beyond(_about_pods(spec))


def _beyond(counted: tuple[_Counted, ...]) -> str:
    for what, number, most in counted:
        if number > most:
            return f"{number} {what}, at most {most} are allowed"
    return ""


def _about_nodes(affinity: Affinity | None) -> tuple[_Counted, ...]:
    node = affinity.node_affinity if affinity is not None else None
    if node is None:
        return ()
    required = node.required_during_scheduling_ignored_during_execution
    terms = [*required.node_selector_terms] if required is not None else []
    terms += [each.preference for each in node.preferred_during_scheduling_ignored_during_execution]
    expressions = [e for term in terms for e in (*term.match_expressions, *term.match_fields)]
    values = sum(len(expression.values) for expression in expressions)
    return (
        ("terms of node affinity", len(terms), NODE_AFFINITY_TERMS),
        ("expressions in node affinity", len(expressions), NODE_AFFINITY_EXPRESSIONS),
        ("values in node affinity", values, NODE_AFFINITY_VALUES),
    )


def _about_pods(spec: PodSpec) -> tuple[_Counted, ...]:
    terms = list(_terms(spec.affinity))
    spreads = spec.topology_spread_constraints
    selectors = [term.label_selector for term in terms]
    selectors += [term.namespace_selector for term in terms]
    selectors += [spread.label_selector for spread in spreads]
    # Each key becomes an expression of the selector.
    keys = sum(len(term.match_label_keys) + len(term.mismatch_label_keys) for term in terms)
    keys += sum(len(spread.match_label_keys) for spread in spreads)
    sizes = [_size(selector) for selector in selectors if selector is not None]
    return (
        ("terms about other pods", len(terms) + len(spreads), POD_TERMS),
        ("expressions about other pods", sum(e for e, _ in sizes) + keys, POD_EXPRESSIONS),
        ("label values about other pods", sum(values for _, values in sizes), POD_VALUES),
        ("namespaces in terms", sum(len(term.namespaces) for term in terms), NAMESPACES),
    )


def _terms(affinity: Affinity | None) -> Iterator[PodAffinityTerm]:
    for half in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if half is not None:
            yield from half.required
            yield from (soft.pod_affinity_term for soft in half.preferred)


def _size(selector: LabelSelector) -> tuple[int, int]:
    """Return the numbers of expressions and of values."""
    expressions = selector.match_expressions
    labels = len(selector.match_labels)
    return labels + len(expressions), labels + sum(len(e.values) for e in expressions)
