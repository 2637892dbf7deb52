"""From a pod's spec to its terms about other pods: affinity, anti-affinity, topology spread.

`matchLabelKeys` are merged into the selector here. Real API servers have done so already; doing it
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduler.core.model import Expression, PodSelector, PodTerm, Spread, WeightedPodTerm
from scheduler.watch.objects import Pod, PodAffinityTerm, SpreadConstraint
from scheduler.watch.selectors import label_expressions


def required_affinity(pod: Pod) -> tuple[PodTerm, ...]:
    """Required pod affinity."""
    affinity = pod.spec.affinity
    terms = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
    return tuple(_term(pod, term) for term in terms)


def required_anti_affinity(pod: Pod) -> tuple[PodTerm, ...]:
    """Required pod anti-affinity."""
    affinity = pod.spec.affinity
    terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    return tuple(_term(pod, term) for term in terms)


def spread(pod: Pod) -> tuple[Spread, ...]:
    """Topology spread constraints with DoNotSchedule."""
    return tuple(_spreads(pod, "DoNotSchedule"))


def preferred_affinity(pod: Pod) -> tuple[WeightedPodTerm, ...]:
    """Preferred pod affinity, and preferred anti-affinity with negative weights."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    signed = ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1))
    return tuple(
        WeightedPodTerm(sign * soft.weight, _term(pod, soft.pod_affinity_term))
        for half, sign in signed
        for soft in (half.preferred if half else ())
    )


def preferred_spread(pod: Pod) -> tuple[Spread, ...]:
    """Topology spread constraints with ScheduleAnyway."""
    return tuple(_spreads(pod, "ScheduleAnyway"))


def _spreads(pod: Pod, when_unsatisfiable: str) -> Iterator[Spread]:
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == when_unsatisfiable:
            yield _spread(pod, constraint)


def _term(pod: Pod, term: PodAffinityTerm) -> PodTerm:
    own = not term.namespaces and term.namespace_selector is None
    namespaces = (pod.metadata.namespace,) if own else tuple(sorted(term.namespaces))
    added = (
        *_match_labels(pod, term.match_label_keys, "In"),
        *_match_labels(pod, term.mismatch_label_keys, "NotIn"),
    )
    selector = PodSelector(
        label_expressions(term.label_selector, added),
        namespaces,
        label_expressions(term.namespace_selector),
    )
    return PodTerm(selector, term.topology_key)


def _spread(pod: Pod, constraint: SpreadConstraint) -> Spread:
    added = _match_labels(pod, constraint.match_label_keys, "In")
    return Spread(
        PodSelector(label_expressions(constraint.label_selector, added), (pod.metadata.namespace,)),
        constraint.topology_key,
        constraint.max_skew,
        constraint.min_domains or 1,
        honours_affinity=constraint.node_affinity_policy != "Ignore",
        honours_taints=constraint.node_taints_policy == "Honor",
    )


def _match_labels(pod: Pod, keys: Iterable[str], operator: str) -> tuple[Expression, ...]:
    """An expression for each of the keys that the pod has as a label, with its value."""
    labels: Mapping[str, str] = pod.metadata.labels
    return tuple(Expression(key, operator, (labels[key],)) for key in keys if key in labels)
